"""Numbers from files, read the same way by every command, and files written so that nobody sees half of one.

A place is a path, with ``:name`` behind it where the file holds several arrays: ``keys.npy``, ``run.npz:keys``,
``keys.csv``, ``run.json:keys``, ``model.safetensors:layer.0.weight``.
"""

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np

from headwise.errors import FileError

# A .npy file above this many bytes is memory-mapped: it is read block by block, as far as it is needed.
_MAPPED_FROM = 1 << 26
# What tables write where a number is missing; a line of these is no header.
_MISSING = ("", "-", "na", "n/a", "nan", "null", "none")


class ArrayNameError(FileError):
    """A file that has no array of the name that was asked for."""


def read_array(place: str) -> np.ndarray:
    """Return the array at `place`; a large .npy file comes back memory-mapped.

    >>> read_array("nowhere.npy")
    Traceback (most recent call last):
      ...
    headwise.errors.FileError: nowhere.npy: the file must exist, but there is none.
    """
    path, name = _split(place)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise FileError("", f"{path}: the file must end in {', '.join(_READERS)}, but it ends in {path.suffix or 'nothing'}")
    if not path.is_file():
        raise FileError("", f"{path}: the file must exist, but there is {'a folder' if path.is_dir() else 'none'}")
    try:
        array = reader(path, name)
    except OSError as error:
        raise FileError("", f"{path}: the file must be readable, but {error.strerror or error}") from None
    if array.dtype.kind in "iu":
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        raise FileError("", f"{path}: the array must hold numbers, but it holds true and false")
    if array.dtype.kind != "f":
        raise FileError("", f"{path}: the array must hold real numbers, but its dtype is {array.dtype}")
    return array


def read_mask(place: str) -> np.ndarray:
    """Return the table of booleans at `place`: true and false, or 1 and 0, and nothing else."""
    path, name = _split(place)
    if path.suffix.lower() in (".npy", ".npz") and path.is_file():
        array = _READERS[path.suffix.lower()](path, name)
        if array.dtype.kind == "b":
            return array
    array = read_array(place)
    if not np.isin(array, (0, 1)).all():
        odd = float(array[~np.isin(array, (0, 1))].flat[0])
        raise FileError(
            "", f"{path}: a mask must hold 0 and 1 only, but it holds {odd:g}", "1 means that the query may look at the key."
        )
    return array == 1


def _split(place: str) -> tuple[Path, str | None]:
    path, colon, name = place.rpartition(":")
    if colon and Path(path).suffix.lower() in _READERS and not Path(place).exists():
        return Path(path), name
    return Path(place), None


def _read_npy(path: Path, name: str | None) -> np.ndarray:
    _refuse_name(path, name)
    try:
        array = np.load(path, mmap_mode="r" if path.stat().st_size >= _MAPPED_FROM else None, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise _broken(path, error) from None
    if not isinstance(array, np.ndarray):
        raise FileError("", f"{path}: the file must be a .npy file, but it is an archive", "Name it .npz.")
    return array


def _read_npz(path: Path, name: str | None) -> np.ndarray:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return np.asarray(archive[_chosen(path, name, dict.fromkeys(archive.files))])
    except (ValueError, EOFError, MemoryError, BadZipFile) as error:
        if isinstance(error, FileError):
            raise
        raise _broken(path, error) from None


def _broken(path: Path, error: Exception) -> FileError:
    if isinstance(error, MemoryError):  # a header may claim any size
        return FileError("", f"{path}: the array must fit into memory, but it does not")
    with path.open("rb") as stream:
        bare = stream.read(1) == b"\x80"  # how a pickle begins
    if bare or "Object arrays" in str(error) or "Python objects" in str(error):
        return FileError(
            "",
            f"{path}: the file must hold plain numbers, but it holds pickled objects, which could run code",
            "Save it again as an array of floats.",
        )
    return FileError("", f"{path}: the file must be a whole {path.suffix} file, but it is damaged or cut short")


def _read_csv(path: Path, name: str | None) -> np.ndarray:
    """Read numbers separated by commas, or by semicolons; a first line without any number is taken for a header."""
    _refuse_name(path, name)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        try:
            first = next((line for line in stream if line.strip()), "")
            stream.seek(0)
            rows = csv.reader(stream, delimiter=";" if ";" in first and "," not in first else ",")
            lines = [(number, row) for number, row in enumerate(rows, 1) if any(cell.strip() for cell in row)]
        except (csv.Error, UnicodeDecodeError):
            raise FileError("", f"{path}: the file must be text with commas, but it is not text") from None
    if lines and not any(_is_number(cell) or cell.strip().lower() in _MISSING for cell in lines[0][1]):
        lines = lines[1:]
    if not lines:
        raise FileError("", f"{path}: the file must hold numbers, but it holds none")
    width = len(lines[0][1])
    for number, row in lines:
        if len(row) != width:
            raise FileError("", f"{path}: every line must have {width} cells, but line {number} has {len(row)}")
        for column, cell in enumerate(row, 1):
            if not _is_number(cell):
                raise FileError("", f"{path}: every cell must be a number, but line {number}, cell {column} is {cell!r}")
    return np.array([row for _, row in lines], dtype=np.float64)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_json(path: Path, name: str | None) -> np.ndarray:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        known = {UnicodeDecodeError: "it is not text", RecursionError: "it is nested too deeply"}
        where = (
            f"line {error.lineno}"
            if isinstance(error, json.JSONDecodeError)
            else known.get(type(error), "a number is too long")
        )
        raise FileError("", f"{path}: the file must be JSON, but it cannot be read ({where})") from None
    if isinstance(data, Mapping):
        data = data[_chosen(path, name, data)]
    else:
        _refuse_name(path, name)
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError):
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise FileError("", f"{path}: the file must hold rows of numbers of equal length, but it does not")
    return array


def _read_safetensors(path: Path, name: str | None) -> np.ndarray:
    from safetensors import SafetensorError, deserialize  # noqa: PLC0415

    try:
        tensors = dict(deserialize(path.read_bytes()))  # type: ignore[no-untyped-call]
    except SafetensorError:
        raise FileError("", f"{path}: the file must be a whole .safetensors file, but it is damaged or cut short") from None
    tensor = tensors[_chosen(path, name, tensors)]
    raw, kind = bytes(tensor["data"]), tensor["dtype"]
    if kind == "BF16":
        # A bfloat16 is the upper half of a float32.
        array = (np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _SAFETENSORS:
        array = np.frombuffer(raw, dtype=_SAFETENSORS[kind])
    else:
        raise FileError("", f"{path}: the array must hold real numbers, but its dtype is {kind}")
    return array.reshape(tensor["shape"])


_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
}
_READERS: dict[str, Callable[[Path, str | None], np.ndarray]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".json": _read_json,
    ".safetensors": _read_safetensors,
}


def _chosen(path: Path, name: str | None, arrays: Mapping[str, Any]) -> str:
    """Return the name of the array that is meant; one array alone needs no name."""
    names = sorted(arrays)
    if name is None and len(names) == 1:
        return names[0]
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    if name is None:
        raise FileError(
            "", f"{path}: the file must be named with one of its arrays, but it holds {shown or 'none'}", f"Write {path}:NAME."
        )
    if name not in arrays:
        raise ArrayNameError("", f"{path}: the file must hold an array {name}, but it holds {shown or 'none'}")
    return name


def _refuse_name(path: Path, name: str | None) -> None:
    if name is not None:
        raise ArrayNameError("", f"{path}: the file holds one array, but {name} was asked of it", f"Write {path}.")


def write_array(path: Path, array: np.ndarray) -> None:
    """Write a .npy file; whoever looks sees the old file or the whole new one."""
    if path.suffix != ".npy":
        raise FileError("", f"{path}: the file must end in .npy, but it ends in {path.suffix or 'nothing'}")
    with replacing(path) as stream:
        np.save(stream, array)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file beside `path` that takes its place when all is written, and vanishes when something fails."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise FileError(
            "", f"{path}: only a file can be written, but this is {'a folder' if path.is_dir() else 'no plain file'}"
        )
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError("", f"{path}: the folder must exist and be writable, but it says: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        # mkstemp makes files for their owner alone; a result is as open as any other new file.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
