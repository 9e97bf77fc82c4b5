"""Every file format read in one place, damaged files refused with a sentence, files replaced whole."""

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

from headwise.errors import FileError
from headwise.files import read_array, read_mask, replacing, write_array

NUMBERS = np.array([[1.5, -2.0, 3e-7], [4.0, 5.25, 6.0]])


def written(folder, name):
    """Write NUMBERS in the format that the name asks for, and return the place to read them from."""
    path = folder / name
    match path.suffix:
        case ".npy":
            np.save(path, NUMBERS)
        case ".npz":
            np.savez(path, keys=NUMBERS, other=np.zeros(2))
        case ".csv":
            path.write_text("\n".join(",".join(map(repr, row)) for row in NUMBERS.tolist()))
        case ".json":
            path.write_text(json.dumps({"keys": NUMBERS.tolist(), "other": [0]}))
        case ".safetensors":
            save_file({"keys": NUMBERS, "other": np.zeros(2)}, path)
    return f"{path}:keys" if path.suffix in (".npz", ".json", ".safetensors") else str(path)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "json", "safetensors"])
def test_every_format(tmp_path, suffix):
    found = read_array(written(tmp_path, f"keys.{suffix}"))
    np.testing.assert_array_equal(found, NUMBERS)
    assert found.dtype == np.float64


def test_one_array_needs_no_name(tmp_path):
    np.savez(tmp_path / "one.npz", only=NUMBERS)
    np.testing.assert_array_equal(read_array(str(tmp_path / "one.npz")), NUMBERS)
    (tmp_path / "bare.json").write_text("[[1, 2], [3, 4]]")
    assert read_array(str(tmp_path / "bare.json")).dtype == np.float64


def test_csv_with_a_header_and_blank_lines(tmp_path):
    (tmp_path / "v.csv").write_text("\ufeffx, y\n1, 2\n\n3,4e1\n", encoding="utf-8")
    assert read_array(str(tmp_path / "v.csv")).tolist() == [[1, 2], [3, 40]]


def test_csv_with_semicolons_and_endings_in_capitals(tmp_path):
    (tmp_path / "K.CSV").write_text("x;y\n\n1;2\n3;4e1\n")
    assert read_array(str(tmp_path / "K.CSV")).tolist() == [[1, 2], [3, 40]]
    np.savez(tmp_path / "both.npz", keys=NUMBERS, other=np.zeros(2))
    (tmp_path / "both.npz").rename(tmp_path / "BOTH.NPZ")
    np.testing.assert_array_equal(read_array(f"{tmp_path / 'BOTH.NPZ'}:keys"), NUMBERS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64])
def test_dtypes_of_safetensors(tmp_path, dtype):
    tensor = torch.tensor([[1.0, -2.0], [0.5, 3.0]]).to(dtype)
    save_torch_file({"keys": tensor}, tmp_path / "model.safetensors")
    np.testing.assert_array_equal(read_array(str(tmp_path / "model.safetensors")), tensor.double().numpy())


def test_a_large_file_is_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("headwise.files._MAPPED_FROM", 10)
    assert isinstance(read_array(written(tmp_path, "keys.npy")), np.memmap)


def test_a_name_with_a_colon_in_the_folder(tmp_path):
    folder = tmp_path / "run.npz:old"
    folder.mkdir()
    np.testing.assert_array_equal(read_array(written(folder, "keys.npy")), NUMBERS)


# The header of an array of four petabytes, which no machine can address.
HUGE = (
    b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (500000000000000,), }".ljust(117) + b"\n"
)


def damaged(path):
    """Cut the end off a whole file."""
    path.write_bytes(path.read_bytes()[:-9])


BAD = {
    "missing.npy": (lambda path: path.with_name("other.npy").touch(), "the file must exist, but there is none."),
    "folder.npy": (lambda path: path.mkdir(), "the file must exist, but there is a folder."),
    "keys.txt": (
        lambda path: path.write_text("1 2"),
        "the file must end in .npy, .npz, .csv, .json, .safetensors, but it ends in .txt.",
    ),
    "cut.npy": (
        lambda path: (np.save(path, NUMBERS), damaged(path)),
        "the file must be a whole .npy file, but it is damaged or cut short.",
    ),
    "empty.npy": (lambda path: path.write_bytes(b""), "the file must be a whole .npy file, but it is damaged or cut short."),
    "cut.npz": (
        lambda path: (np.savez(path, a=NUMBERS), damaged(path)),
        "the file must be a whole .npz file, but it is damaged or cut short.",
    ),
    "cut.safetensors": (
        lambda path: (save_file({"a": NUMBERS}, path), damaged(path)),
        "the file must be a whole .safetensors file, but it is damaged or cut short.",
    ),
    "objects.npy": (
        lambda path: np.save(path, np.array([{"a": 1}]), allow_pickle=True),
        (
            "the file must hold plain numbers, but it holds pickled objects, which could run code. "
            "Save it again as an array of floats."
        ),
    ),
    "pickle.npy": (
        lambda path: path.write_bytes(pickle.dumps([1.0, 2.0])),
        (
            "the file must hold plain numbers, but it holds pickled objects, which could run code. "
            "Save it again as an array of floats."
        ),
    ),
    "text.npy": (
        lambda path: path.write_text("1, 2, 3"),
        "the file must be a whole .npy file, but it is damaged or cut short.",
    ),
    "words.npy": (lambda path: np.save(path, np.array(["a"])), "the array must hold real numbers, but its dtype is <U1."),
    "complex.npy": (
        lambda path: np.save(path, np.ones(2, dtype=complex)),
        "the array must hold real numbers, but its dtype is complex128.",
    ),
    "several.npz": (
        lambda path: np.savez(path, b=NUMBERS, a=NUMBERS),
        "the file must be named with one of its arrays, but it holds a, b. Write {path}:NAME.",
    ),
    "several.npz:c": (lambda path: np.savez(path, b=NUMBERS, a=NUMBERS), "the file must hold an array c, but it holds a, b."),
    "one.npy:c": (lambda path: np.save(path, NUMBERS), "the file holds one array, but c was asked of it. Write {path}."),
    "words.csv": (
        lambda path: path.write_text("1,2\n3,four\n"),
        "every cell must be a number, but line 2, cell 2 is 'four'.",
    ),
    "missing.csv": (
        lambda path: path.write_text("NA,NA\n1,2\n"),
        "every cell must be a number, but line 1, cell 1 is 'NA'.",
    ),
    "true.npy": (
        lambda path: np.save(path, np.ones(2, dtype=bool)),
        "the array must hold numbers, but it holds true and false.",
    ),
    "ragged.csv": (lambda path: path.write_text("1,2\n3\n"), "every line must have 2 cells, but line 2 has 1."),
    "empty.csv": (lambda path: path.write_text("x,y\n"), "the file must hold numbers, but it holds none."),
    "binary.csv": (
        lambda path: path.write_bytes(b"\xff\xfe\x00\x01"),
        "the file must be text with commas, but it is not text.",
    ),
    "broken.json": (lambda path: path.write_text("[1,\n2"), "the file must be JSON, but it cannot be read (line 2)."),
    "ragged.json": (
        lambda path: path.write_text("[[1, 2], [3]]"),
        "the file must hold rows of numbers of equal length, but it does not.",
    ),
    "deep.json": (
        lambda path: path.write_text("[" * 100_000),
        "the file must be JSON, but it cannot be read (it is nested too deeply).",
    ),
    "long.json": (
        lambda path: path.write_text(f"[[1{'0' * 5000}]]"),
        "the file must be JSON, but it cannot be read (a number is too long).",
    ),
    "huge.npy": (
        lambda path: path.write_bytes(HUGE),
        "the array must fit into memory, but it does not.",
    ),
    "words.json": (
        lambda path: path.write_text('["a"]'),
        "the file must hold rows of numbers of equal length, but it does not.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    make, sentence = BAD[name]
    path = tmp_path / name.split(":")[0]
    make(path)
    with pytest.raises(FileError) as caught:
        read_array(str(tmp_path / name))
    assert str(caught.value) == f"{path}: {sentence.format(path=path)}"


def test_masks(tmp_path):
    table = np.array([[True, False], [True, True]])
    np.save(tmp_path / "bool.npy", table)
    np.savez(tmp_path / "bool.npz", mask=table)
    np.save(tmp_path / "numbers.npy", table.astype(float))
    (tmp_path / "text.csv").write_text("1,0\n1,1\n")
    for name in ("bool.npy", "bool.npz", "numbers.npy", "text.csv"):
        np.testing.assert_array_equal(read_mask(str(tmp_path / name)), table)
    np.save(tmp_path / "added.npy", np.where(table, 0, -1e9))
    with pytest.raises(FileError) as caught:
        read_mask(str(tmp_path / "added.npy"))
    sentence = "a mask must hold 0 and 1 only, but it holds -1e+09. 1 means that the query may look at the key."
    assert str(caught.value) == f"{tmp_path / 'added.npy'}: {sentence}"


def test_writing_follows_links_and_refuses_what_is_no_file(tmp_path):
    (tmp_path / "link.npy").symlink_to(tmp_path / "real.npy")
    write_array(tmp_path / "link.npy", NUMBERS)
    assert (tmp_path / "link.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "real.npy"), NUMBERS)
    (tmp_path / "folder.npy").mkdir()
    for name, sentence in (
        ("folder.npy", "only a file can be written, but this is a folder."),
        ("numbers.csv", "the file must end in .npy, but it ends in .csv."),
    ):
        with pytest.raises(FileError) as caught:
            write_array(tmp_path / name, NUMBERS)
        assert str(caught.value) == f"{tmp_path / name}: {sentence}"


def test_writing_replaces_whole_files(tmp_path):
    path = tmp_path / "out.npy"
    write_array(path, NUMBERS)
    np.testing.assert_array_equal(np.load(path), NUMBERS)

    class StopError(Exception):
        pass

    def interrupted():
        with replacing(path) as stream:
            stream.write(b"half")
            raise StopError

    with pytest.raises(StopError):
        interrupted()
    np.testing.assert_array_equal(np.load(path), NUMBERS)
    assert list(tmp_path.iterdir()) == [path]


def test_writing_where_nothing_can_be_written(tmp_path):
    with pytest.raises(FileError, match=r"the folder must exist and be writable, but it says: No such file or directory\.$"):
        write_array(tmp_path / "nowhere" / "out.npy", NUMBERS)
