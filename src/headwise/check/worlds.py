"""Where answers are tried: instances of keys, subspaces or tokens, the plain ones first, then ones at random.

A world names its symbols with their shapes and draws instances; the same number gives the same instance.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.check.evaluate import Values
from headwise.check.scope import SCALAR, Kind, Scope
from headwise.core.orthonormal import orthonormal

_VECTOR = ("d", "1")
# How many keys each instance has; 3 at least, for with two a missing scale passes by luck.
_COUNTS = (10, 3, 4, 5, 7, 12, 25)
INSTANCES = len(_COUNTS)


@dataclass(frozen=True)
class Instance:
    """One instance: what names stand for, the arrays behind them, and the lines of Python that make them."""

    number: int
    values: Values
    arrays: Mapping[str, Any]
    code: str


class World(ABC):
    """A kind of instance."""

    scope: Scope
    # The scale that the problem itself has, such as the length of the tokens; its values are tried in turn.
    ladder: tuple[float, ...] = ()

    @abstractmethod
    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return an instance; `size` is the value of the problem's own scale."""


class Keys(World):
    """Orthonormal or linearly independent keys with values; `letter` is what the keys are called."""

    def __init__(self, letter: str = "k", elements: tuple[str, ...] = ("a", "b"), *, independent: bool = False) -> None:
        """Name the keys."""
        self.letter, self.elements, self.independent = letter, elements, independent
        names = {letter: Kind(_VECTOR, "keys"), "v": Kind(_VECTOR, "keys"), "n": Kind(SCALAR), "d": Kind(SCALAR)}
        if letter != "k":  # the keys themselves, which are random: understood, and remarked on
            names["k"] = names[letter]
        self.scope = Scope(names, {"keys": elements}, {"keys": "keys", "n": "keys", "S": "keys"})

    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return an instance; the first two are coordinates."""
        del size
        count = _COUNTS[number % INSTANCES]
        if number < 2 and not self.independent:
            keys = values = np.eye(count)
            code = f"keys = values = np.eye({count})\n"
        else:
            width = count + 3
            rng = np.random.default_rng([7, number])
            keys = orthonormal(count, width, seed=number)
            if self.independent:
                keys = rng.standard_normal((count, width)) / np.sqrt(width)
            values = rng.standard_normal((count, width))
            code = f"keys = np.array({keys.tolist()})\nvalues = np.array({values.tolist()})\n"
        rows = {name: place for place, name in enumerate(self.elements)}
        names: dict[str, np.ndarray | float] = {
            self.letter: keys,
            "k": keys,
            "v": values,
            "n": float(count),
            "d": float(keys.shape[1]),
        }
        every = range(count)
        found = Values(
            names,
            {self.letter: "keys", "k": "keys", "v": "keys"},
            {"keys": rows},
            {"keys": ("keys", every), "n": ("keys", every), "S": ("keys", range(len(self.elements)))},
        )
        return Instance(number, found, {"keys": keys, "values": values}, code)


class Scored(World):
    """Keys, values and a query, all at random; j is one key and i any other."""

    def __init__(self) -> None:
        """Name the symbols."""
        names = {
            "k": Kind(_VECTOR, "keys"),
            "v": Kind(_VECTOR, "keys"),
            "q": Kind(_VECTOR),
            "n": Kind(SCALAR),
            "d": Kind(SCALAR),
        }
        self.scope = Scope(names, {"keys": ("j", "i")}, {"keys": "keys", "n": "keys"})

    def draw(self, number: int, size: float = 0.0, other: int = 1, level: float = 0.0) -> Instance:
        """Return an instance; `size` is the margin of key j, `other` the key i, `level` where the other scores lie."""
        count = _COUNTS[number % INSTANCES]
        rng = np.random.default_rng([11, number])
        keys, values = rng.standard_normal((2, count, count + 2))
        query = rng.standard_normal(count + 2) / np.sqrt(count + 2)
        if size:
            # The keys are independent, so that a query gives them any scores.
            others = level - rng.random(count - 1)
            query = np.linalg.pinv(keys) @ np.array([others.max() + size, *others])
        names = {"k": keys, "v": values, "q": query[:, None], "n": float(count), "d": float(count + 2)}
        sets = {"keys": ("keys", range(count)), "n": ("keys", range(count))}
        found = Values(names, {"k": "keys", "v": "keys"}, {"keys": {"j": 0, "i": other}}, sets)
        code = f"keys = np.array({keys.tolist()})\nquery = np.array({query.tolist()})\n"
        return Instance(number, found, {"keys": keys, "values": values, "query": query}, code)


class Subspaces(World):
    """Two subspaces at right angles, with orthonormal columns A and B."""

    def __init__(self) -> None:
        """Name the symbols."""
        names = {
            "A": Kind(("d", "m")),
            "B": Kind(("d", "p")),
            "a": Kind(_VECTOR, "A"),
            "b": Kind(_VECTOR, "B"),
            "I": Kind(("d", "d")),
            **dict.fromkeys(("d", "m", "p"), Kind(SCALAR)),
        }
        self.scope = Scope(names, {"A": (), "B": ()}, {"m": "A", "p": "B", "A": "A", "B": "B"})

    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return an instance; the first is coordinates."""
        del size
        width, own, other = ((4, 2, 2), (5, 2, 1), (3, 1, 1), (8, 3, 2), (6, 1, 4), (12, 5, 5), (9, 4, 3))[number % INSTANCES]
        rows = np.eye(width)[: own + other] if number == 0 else orthonormal(own + other, width, seed=number)
        a, b = rows[:own], rows[own:]
        names = {"A": a.T, "B": b.T, "a": a, "b": b, "I": np.eye(width), "d": float(width), "m": float(own), "p": float(other)}
        sets = {"m": ("A", range(own)), "A": ("A", range(own)), "p": ("B", range(other)), "B": ("B", range(other))}
        found = Values(names, {"a": "A", "b": "B"}, {"A": {}, "B": {}}, sets)
        rng = np.random.default_rng([13, number])
        first, second = np.ones(own) @ a, np.ones(other) @ b
        if number:
            first, second = rng.standard_normal(own) @ a, rng.standard_normal(other) @ b
        arrays = {"A": a.T, "B": b.T, "v_a": first, "v_b": second}
        code = "".join(f"{name} = np.array({array.tolist()})\n" for name, array in arrays.items())
        return Instance(number, found, arrays, code)


class Tokens(World):
    """Three tokens made of four orthogonal vectors of length beta: x_1 = u_d + u_b, x_2 = u_a, x_3 = u_c + u_b."""

    ladder = (2.0, 4.0, 8.0, 16.0, 32.0)

    def __init__(self) -> None:
        """Name the symbols."""
        names = {
            "u": Kind(_VECTOR, "letters"),
            "x": Kind(_VECTOR, "tokens"),
            "beta": Kind(SCALAR),
            "d": Kind(SCALAR),
            "I": Kind(("d", "d")),
        }
        self.scope = Scope(names, {"letters": ("a", "b", "c", "d"), "tokens": ("1", "2", "3")}, {"n": "tokens"})

    def draw(self, number: int, size: float = 5.0) -> Instance:
        """Return an instance; the first is coordinates."""
        width = (4, 4, 5, 6, 8, 9, 12)[number % INSTANCES]
        rows: Float[np.ndarray, "4 d"] = size * (np.eye(4) if number == 0 else orthonormal(4, width, seed=number))
        a, b, c, d = rows
        tokens = np.stack([d + b, a, c + b])
        names: dict[str, np.ndarray | float] = {
            "u": rows,
            "x": tokens,
            "beta": float(size),
            "d": float(rows.shape[1]),
            "I": np.eye(rows.shape[1]),
        }
        found = Values(
            names,
            {"u": "letters", "x": "tokens"},
            {"letters": dict(zip("abcd", range(4), strict=True)), "tokens": {"1": 0, "2": 1, "3": 2}},
            {"letters": ("letters", range(4)), "tokens": ("tokens", range(3)), "n": ("tokens", range(3))},
        )
        made = f"{size:g} * np.eye(4)" if number == 0 else f"{size:g} * hw.orthonormal(4, {width}, seed={number})"
        code = f"a, b, c, d = {made}\ntokens = np.stack([d + b, a, c + b])\n"
        return Instance(number, found, {"u": rows, "tokens": tokens}, code)


class Numbers(World):
    """Nothing but numbers with names."""

    def __init__(self, names: Mapping[str, float] | None = None) -> None:
        """Keep the numbers."""
        self.numbers = {name: float(value) for name, value in (names or {}).items()}
        self.scope = Scope(dict.fromkeys(self.numbers, Kind(SCALAR)))

    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return the only instance there is."""
        del size
        return Instance(number, Values(self.numbers), {}, "")
