"""What every design checks before it starts."""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Given
from headwise.core.rows import check_rows
from headwise.errors import EmptyError, OptionError, ShapeError


def check_matrix(function: str, name: str, given: Given, shape: str) -> Float[np.ndarray, "n d"]:
    """Bring rows of numbers to NumPy float64, or refuse them; `shape` says in words what they should look like."""
    found = arrays.float64(function, name, given)
    if found.ndim != 2:
        raise ShapeError(function, f"{name} must have shape {shape}, but its shape is {found.shape}")
    if 0 in found.shape:
        raise EmptyError(function, f"{name} must not be empty, but its shape is {found.shape}")
    return found


def check_keys(function: str, keys: Given, values: Given = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Check keys, and values if there are any."""
    found = check_matrix(function, "keys", keys, "(k, d)")
    if values is None:
        return found, None
    others = check_matrix(function, "values", values, "(k, v)")
    arrays.check_agree(function, "k", {"keys": len(found), "values": len(others)})
    return found, others


def check_vector(function: str, name: str, given: Given, axis: str, sizes: dict[str, int]) -> Float[np.ndarray, " n"]:
    """Bring a vector to NumPy float64 and check that its length is that of the one other thing named in `sizes`."""
    found = arrays.float64(function, name, given)
    if found.ndim != 1:
        raise ShapeError(function, f"{name} must have shape ({axis},), but its shape is {found.shape}")
    arrays.check_agree(function, axis, {name: len(found), **sizes})
    return found


def check_between(function: str, name: str, given: object) -> float:
    """Refuse what is not a number strictly between 0 and 1."""
    if not isinstance(given, (int, float, np.floating)) or not 0 < given < 1:
        raise OptionError(function, f"{name} must lie strictly between 0 and 1, but got {given!r}")
    return float(given)


def check_seconds(function: str, given: object) -> float:
    """Refuse what is no time."""
    if not isinstance(given, (int, float, np.floating)) or isinstance(given, bool) or not given >= 0:
        raise OptionError(function, f"seconds must be a number of at least 0, but got {given!r}")
    return float(given)


def check_count(function: str, name: str, given: object) -> int:
    """Refuse what is not a whole number of at least 1."""
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 1:
        raise OptionError(function, f"{name} must be a whole number of at least 1, but got {given!r}")
    return int(given)


def check_targets(function: str, given: Given, count: int) -> dict[int, Float[np.ndarray, " v"]]:
    """Check what positions shall get: a dictionary from positions to vectors of one length."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OptionError(function, f"targets must be a dictionary from positions, but it is a {type(given).__name__}")
    places = check_rows(function, given, count, "target position").tolist()
    found: dict[int, np.ndarray] = {}
    for place, value in zip(places, given.values(), strict=True):
        vector = arrays.float64(function, f"targets[{place}]", value)
        if vector.ndim != 1 or not len(vector):
            raise ShapeError(function, f"targets[{place}] must have shape (v,), but its shape is {vector.shape}")
        if found:
            first = next(iter(found))
            arrays.check_agree(function, "v", {f"targets[{first}]": len(found[first]), f"targets[{place}]": len(vector)})
        found[place] = vector
    return found


def check_reads(function: str, given: Given, count: int, targets: Mapping[int, np.ndarray]) -> dict[int, dict[int, float]]:
    """Check where positions look, and bring both forms to one: {position: {token: weight}}, weights of sum 1."""
    if not isinstance(given, Mapping) or not given:
        raise OptionError(function, f"reads must be a dictionary from positions, but it is {_kind(given)}")
    places = check_rows(function, given, count, "reading position").tolist()
    found = {}
    for place, read in zip(places, given.values(), strict=True):
        if isinstance(read, Iterable) and not isinstance(read, Mapping) and getattr(read, "ndim", 1) > 0:
            raise OptionError(
                function,
                f"reads[{place}] must be a token or a dictionary from tokens to weights, but it is {_kind(read)}",
                "Write for example {0: 0.5, 1: 0.5}.",
            )
        mixture = read if isinstance(read, Mapping) else {read: 1.0}
        tokens = check_rows(function, mixture, count, f"reads[{place}]").tolist()
        weights = list(mixture.values())
        numbers = all(isinstance(weight, (int, float, np.number)) and weight > 0 for weight in weights)
        if not numbers or not abs(sum(weights) - 1) <= 1e-9:
            raise OptionError(function, f"weights in reads[{place}] must be positive and sum to 1, but they are {weights}")
        found[place] = {token: float(weight) for token, weight in zip(tokens, weights, strict=True)}
    missing = sorted(set(targets) - set(found))
    if missing:
        raise OptionError(
            function,
            f"every target must have a read, but position {missing[0]} has none",
            "Leave reads out to have all chosen.",
        )
    return found


def _kind(given: object) -> str:
    return "empty" if isinstance(given, Mapping) else f"a {type(given).__name__}"
