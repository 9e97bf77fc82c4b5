"""What the page asks of Python: every question with its form and limits, decoded strictly, answered with plain data.

Nothing here knows where a question comes from; the server, a worker process and a notebook all come through `answered`.
"""

import base64
import binascii
import math
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile, ZipFile

import msgspec
import numpy as np
from msgspec import Meta, Struct

from headwise import check, design, stress
from headwise.check.typeset import typeset
from headwise.core.random_keys import RandomKeys
from headwise.errors import FileError, HeadwiseError, OptionError
from headwise.files import ArrayNameError, read_array
from headwise.shown import plain

MOST_KEYS, MOST_WIDTH = 2000, 64
_MOST_BYTES, _MOST_UNPACKED = 4 << 20, 16 << 20
# Products of larger numbers overflow on the way to a score.
_LARGEST = 1e100
_LONGEST_NAME = 80
_WITH_NAMES = (".npz", ".json", ".safetensors")  # files of several arrays
_Row = Annotated[list[float], Meta(min_length=1, max_length=MOST_WIDTH)]
_Rows = Annotated[list[_Row], Meta(min_length=1, max_length=MOST_KEYS)]
_Few = Annotated[list[_Row], Meta(min_length=1, max_length=16)]
_Leak = Annotated[float, Meta(gt=0, lt=1)]


class Question(Struct, forbid_unknown_fields=True):
    """Something that is asked."""

    def answer(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        raise NotImplementedError


class Aim(Question):
    """A query that copies one value or averages some."""

    keys: _Rows
    indices: Annotated[list[int], Meta(min_length=1, max_length=64)]
    values: _Rows | None = None
    leak: _Leak = 1e-3

    def answer(self) -> dict[str, Any]:
        """Design it, or prove that there is none."""
        values = None if self.values is None else _rows("values", self.values)
        keys = _rows("keys", self.keys)
        if len(self.indices) == 1:
            return design.copy(keys, self.indices[0], leak=self.leak, values=values).to_dict()
        return design.average(keys, self.indices, leak=self.leak, values=values).to_dict()


class Copyable(Question):
    """Which keys can be copied."""

    keys: _Rows

    def answer(self) -> dict[str, Any]:
        """Decide every key."""
        return design.copyable(_rows("keys", self.keys)).to_dict()


class _Noisy(Question):
    """Orthonormal keys, of which the first varies in length, and a pair to be averaged."""

    count: Annotated[int, Meta(ge=3, le=200)]
    scale: Annotated[float, Meta(gt=0, le=1000)]
    isotropic: Annotated[float, Meta(ge=0, le=1)]
    length_variance: Annotated[float, Meta(ge=0, le=10)]

    def setting(self) -> tuple[np.ndarray, RandomKeys, np.ndarray]:
        """Return means, which are the values too, the keys and the target."""
        means = np.eye(self.count)
        keys = RandomKeys(means, isotropic=self.isotropic, along_mean={0: self.length_variance})
        return means, keys, means[:2].mean(axis=0)


class Noise(_Noisy):
    """The law of the output for one head and for two."""

    def answer(self) -> dict[str, Any]:
        """Return both laws, in shares of the two values."""
        means, keys, target = self.setting()
        both = {"one": self.scale * means[:2].sum(axis=0), "two": self.scale * means[:2]}
        found: dict[str, Any] = {}
        for name, queries in both.items():
            law = stress.law(queries, keys, means)
            found[name] = {
                "mean": law.mean[:2],
                "covariance": law.covariance[:2, :2],
                "variance": {"value": law.variance, "error": law.variance_error},
                "mean_squared_error": law.mean_squared_error(target).to_dict(),
                "method": law.method,
            }
            if name == "one":
                found["flip"] = law.flip_probability(0).to_dict()
        spread = math.sqrt(self.length_variance + self.isotropic)
        negative = math.erfc(1 / (spread * math.sqrt(2))) / 2 if spread else 0.0
        found["negative"] = {"value": negative, "error": 1e-15}
        return found


class Curve(_Noisy):
    """The error against the scale, for one head and for two."""

    def answer(self) -> dict[str, Any]:
        """Return both curves."""
        means, keys, target = self.setting()
        queries = {"one head": means[:2].sum(axis=0), "two heads": means[:2]}
        return stress.curve(queries, keys, means, target, scales=np.geomspace(0.3, 100, 31)).to_dict()


class Remedies(_Noisy):
    """What would help."""

    def answer(self) -> dict[str, Any]:
        """Return the remedies, the best first."""
        means, keys, target = self.setting()
        return stress.remedies(self.scale * means[:2].sum(axis=0), keys, means, target, keys=[0, 1]).to_dict()


class Layer(Question):
    """Matrices that make tokens read what they should."""

    tokens: _Few
    targets: Annotated[dict[str, _Row], Meta(min_length=1, max_length=16)]
    leak: _Leak = 1e-3

    def answer(self) -> dict[str, Any]:
        """Design them, or prove that there are none."""
        if not all(row.isdecimal() for row in self.targets):
            raise OptionError("layer", "targets must be named by rows of tokens, but one is not")
        targets = {int(row): _rows("targets", [target])[0] for row, target in self.targets.items()}
        return design.layer(_rows("tokens", self.tokens), targets=targets, leak=self.leak).to_dict()


class Extractor(Question):
    """A matrix that takes one vector out of a sum."""

    basis: _Few
    against: _Few

    def answer(self) -> dict[str, Any]:
        """Return it."""
        return design.extractor(_rows("basis", self.basis), against=_rows("against", self.against)).to_dict()


class Check(Question):
    """What is to be said of a written answer."""

    part: Annotated[str, Meta(max_length=100)]
    text: Annotated[str, Meta(max_length=20_000)]

    def answer(self) -> dict[str, Any]:
        """Mark it, and show how it was read."""
        verdict = check.answer(self.part, self.text)
        shown = typeset(check.load("attention").problems[self.part], self.text)
        return {**verdict.to_dict(), "said": verdict.said, "mathml": shown}


class Parts(Question):
    """Which parts there are."""

    def answer(self) -> dict[str, Any]:
        """List them."""
        problems = check.load("attention").problems
        return {"parts": [{"part": part, "title": problem.title} for part, problem in problems.items()]}


class File(Question):
    """Keys and values in a file that was dropped on the page."""

    name: str
    base64: str

    def answer(self) -> dict[str, Any]:
        """Read it as every command does."""
        try:
            content = base64.b64decode(self.base64, validate=True)
        except binascii.Error:
            raise FileError("", "the file must come whole, but what came is damaged") from None
        return dropped(self.name, content)


KINDS: Mapping[str, type[Question]] = {
    one.__name__.lower(): one for one in (Aim, Check, Copyable, Curve, Extractor, File, Layer, Noise, Parts, Remedies)
}


def answered(kind: str, body: bytes) -> tuple[int, bytes]:
    """Answer a question: a status as of HTTP, and JSON.

    >>> answered("extractor", b'{"basis": [[1, 0]], "against": [[0, 1]]}')[0]
    200
    >>> answered("extractor", b'{"basis": [[1, 0]], "against": [[0, 1]')
    (400, b'{"error":"the question must be JSON of the right form, but Input data was truncated."}')
    """
    try:
        question = msgspec.json.decode(body, type=KINDS[kind])
        return 200, msgspec.json.encode(plain(question.answer()))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return 400, told(f"the question must be JSON of the right form, but {error}.")
    except HeadwiseError as error:
        return 400, told(str(error))
    except (ArithmeticError, np.linalg.LinAlgError, MemoryError) as error:
        name = type(error).__name__
        return 400, told(f"the numbers must be such that floating point can work on them, but they are not ({name}).")
    except Exception as error:  # noqa: BLE001  a mistake of ours must not leave a page waiting
        return 500, told(f"headwise itself failed ({type(error).__name__}). This is a mistake in it.")


def told(sentence: str) -> bytes:
    """Return a sentence as the page expects it."""
    return msgspec.json.encode({"error": sentence})


def dropped(name: str, content: bytes) -> dict[str, Any]:
    """Read the arrays called keys and values in a file; an array without a name is keys."""
    short = re.sub(r"[^\x20-\x7e\xa1-\uffff]", "?", Path(name).name)[-_LONGEST_NAME:] or "file"
    if len(content) > _MOST_BYTES:
        size = len(content) / 2**20
        raise FileError(
            "",
            f"{short}: a file may have {_MOST_BYTES >> 20} MB here, but it has {size:.1f}",
            "Give it to headwise.design or headwise.stress in Python.",
        )
    with tempfile.TemporaryDirectory() as folder:
        # The name is somebody else's: only its ending goes into ours.
        ending = re.search(r"\.[a-zA-Z]{1,12}$", short)
        path = Path(folder) / f"file{ending[0] if ending else ''}"
        path.write_bytes(content)
        _not_a_flood(path, short)
        try:
            arrays = _named(path)
        except FileError as error:
            problem, step = (words.replace(f"{path}", short) for words in (error.problem, error.step))
            step = "Call them keys and values." if step.endswith(":NAME.") else step
            raise FileError("", problem.rstrip("."), step) from None
    for label, array in arrays.items():
        if array.ndim != 2 or not 0 < array.shape[0] <= MOST_KEYS or not 0 < array.shape[1] <= MOST_WIDTH:
            limits = f"up to {MOST_KEYS} rows of up to {MOST_WIDTH} numbers"
            raise FileError("", f"{short}: {label} must have {limits}, but the shape is {array.shape}")
        if not np.isfinite(array).all():
            raise FileError("", f"{short}: {label} must be finite, but holds NaN or infinity")
        if np.abs(array).max() > _LARGEST:
            raise FileError("", f"{short}: {label} must hold numbers up to {_LARGEST:g} in size, but one is larger")
    keys, values = len(arrays["keys"]), len(arrays.get("values", arrays["keys"]))
    if keys != values:
        raise FileError("", f"{short}: keys and values must have as many rows, but keys have {keys} and values {values}")
    return {"arrays": arrays}


def _not_a_flood(path: Path, short: str) -> None:
    """Refuse an archive that holds far more than it weighs, before any of it is unpacked."""
    with suppress(BadZipFile), ZipFile(path) as archive:
        size = sum(one.file_size for one in archive.infolist())
        if size > _MOST_UNPACKED:
            most = _MOST_UNPACKED >> 20
            raise FileError(
                "",
                f"{short}: an archive may hold {most} MB here, but it holds {size / 2**20:.1f}",
                "Give it to headwise.design or headwise.stress in Python.",
            )


def _named(path: Path) -> dict[str, np.ndarray]:
    found = {}
    for label in ("keys", "values") if path.suffix.lower() in _WITH_NAMES else ():
        with suppress(ArrayNameError):
            found[label] = np.asarray(read_array(f"{path}:{label}"), dtype=np.float64)
    if "values" in found and "keys" not in found:
        raise FileError("", f"{path}: the file must hold keys, but it holds values without them")
    return found or {"keys": np.asarray(read_array(str(path)), dtype=np.float64)}


def _rows(name: str, rows: list[list[float]]) -> np.ndarray:
    """Return rows of one length, of numbers that can be worked with."""
    if len({len(row) for row in rows}) > 1:
        raise OptionError("lab", f"the rows of {name} must have one length, but they differ")
    found = np.array(rows, dtype=np.float64)
    if not np.abs(found).max() <= _LARGEST:
        raise OptionError("lab", f"the numbers of {name} must be at most {_LARGEST:g} in size, but one is larger")
    return found
