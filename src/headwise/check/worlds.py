"""Where answers are tried: instances of keys, subspaces or tokens, the plain ones first, then ones at random.

A world names its symbols with their shapes and draws instances; the same number gives the same instance.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
    """One instance: what names stand for, the arrays behind them, and the lines of Python that make both."""

    number: int
    values: Values
    arrays: Mapping[str, Any]
    code: str


class World(ABC):
    """A kind of instance."""

    scope: Scope
    # The scale that the problem itself has, such as the length of the tokens; its values are tried in turn.
    ladder: tuple[float, ...] = ()
    # The name of what the problem lets vanish, such as the variance of noise.
    vanishing = ""

    @abstractmethod
    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return an instance; `size` is the value of the problem's own scale, or of what vanishes."""


class Keys(World):
    """Orthonormal or independent keys with values; `letter` is what the keys, or with noise their means, are called."""

    def __init__(
        self,
        letter: str = "k",
        elements: tuple[str, ...] = ("a", "b"),
        *,
        independent: bool = False,
        noise: bool = False,
        counts: Sequence[int] = (),
        width: int = 0,
    ) -> None:
        """Name the keys; `counts` are how many there are on each instance in turn, `width` the least number of coordinates."""
        self.counts, self.width = tuple(counts), width
        self.letter, self.elements, self.independent, self.noise = letter, elements, independent, noise
        names = {letter: Kind(_VECTOR, "keys"), "v": Kind(_VECTOR, "keys"), "n": Kind(SCALAR), "d": Kind(SCALAR)}
        names["I"] = Kind(("d", "d"))
        if letter != "k":  # the keys themselves, which are random: understood, and remarked on
            names["k"] = names[letter]
        if noise:
            names["alpha"], self.vanishing = Kind(SCALAR), "alpha"
        if independent:  # a query for given scores needs the keys as a matrix, and what picks one of them
            names |= {"K": Kind(("n", "d")), "e": Kind(("n", "1"), "keys")}
        self.scope = Scope(names, {"keys": elements}, {"keys": "keys", "n": "keys", "S": "keys"})

    def draw(self, number: int, size: float = 0.0) -> Instance:
        """Return an instance; the first two are coordinates. `size` is the variance of the noise, which trials add."""
        counts = self.counts or _COUNTS
        count = max(counts[number % len(counts)], len(self.elements) + 1)
        plain = number < 2 and not self.independent
        width = max(self.width, count if plain else count + 3)
        keys, values, code = self._means(number, count, width, plain=plain)
        names: dict[str, np.ndarray | float] = {
            self.letter: keys,
            "k": keys,
            "v": values,
            "n": float(count),
            "d": float(width),
            "I": np.eye(width),
            **({"alpha": size} if self.noise else {}),
            **({"K": keys, "e": np.eye(count)} if self.independent else {}),
        }
        every = range(count)
        found = Values(
            names,
            {self.letter: "keys", "k": "keys", "v": "keys", "e": "keys"},
            {"keys": {name: place for place, name in enumerate(self.elements)}},
            {"keys": ("keys", every), "n": ("keys", every), "S": ("keys", range(len(self.elements)))},
        )
        letters = f"{self.letter}, v" if self.letter == "k" else f"{self.letter}, k, v"
        columns = (
            "keys[:, :, None], values[:, :, None]"
            if self.letter == "k"
            else ("keys[:, :, None], keys[:, :, None], values[:, :, None]")
        )
        code += f"{letters} = {columns}  # columns\nn, d = {count}, {width}\n"
        code += f"K, e = keys, np.eye({count})[:, :, None]\n" * self.independent
        return Instance(number, found, {"keys": keys, "values": values, **({"alpha": size} if size else {})}, code)

    def _means(self, number: int, count: int, width: int, *, plain: bool) -> tuple[np.ndarray, np.ndarray, str]:
        """Return keys and values, and the lines that make them."""
        if plain:
            made = f"np.eye({count})" if width == count else f"np.eye({count}, {width})"
            return np.eye(count, width), np.eye(count, width), f"keys = values = {made}\n"
        rng = np.random.default_rng([7, number])
        made = f"rng = np.random.default_rng([7, {number}])\n"
        if self.independent:
            keys = rng.standard_normal((count, width)) / np.sqrt(width)
            made += f"keys = rng.standard_normal(({count}, {width})) / np.sqrt({width})\n"
        else:
            keys = orthonormal(count, width, seed=number)
            made += f"keys = hw.orthonormal({count}, {width}, seed={number})\n"
        return keys, rng.standard_normal((count, width)), f"{made}values = rng.standard_normal(({count}, {width}))\n"


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
        width = count + 2
        rng = np.random.default_rng([11, number])
        keys, values = rng.standard_normal((2, count, width))
        query = rng.standard_normal(width) / np.sqrt(width)
        code = (
            f"rng = np.random.default_rng([11, {number}])\nkeys, values = rng.standard_normal((2, {count}, {width}))\n"
            f"query = rng.standard_normal({width}) / np.sqrt({width})\n"
        )
        if size:
            # The keys are independent, so that a query gives them any scores.
            others = level - rng.random(count - 1)
            query = np.linalg.pinv(keys) @ np.array([others.max() + size, *others])
            code += (
                f"others = {level} - rng.random({count - 1})\n"
                f"query = np.linalg.pinv(keys) @ np.array([others.max() + {size}, *others])\n"
            )
        code += f"k, v, q = keys[:, :, None], values[:, :, None], query[:, None]  # columns\nn, d = {count}, {width}\n"
        names = {"k": keys, "v": values, "q": query[:, None], "n": float(count), "d": float(width)}
        sets = {"keys": ("keys", range(count)), "n": ("keys", range(count))}
        found = Values(names, {"k": "keys", "v": "keys"}, {"keys": {"j": 0, "i": other}}, sets)
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
        count = own + other
        rows = np.eye(width)[:count] if number == 0 else orthonormal(count, width, seed=number)
        made = f"np.eye({width})[:{count}]" if number == 0 else f"hw.orthonormal({count}, {width}, seed={number})"
        a, b = rows[:own], rows[own:]
        names = {"A": a.T, "B": b.T, "a": a, "b": b, "I": np.eye(width), "d": float(width), "m": float(own), "p": float(other)}
        sets = {"m": ("A", range(own)), "A": ("A", range(own)), "p": ("B", range(other)), "B": ("B", range(other))}
        found = Values(names, {"a": "A", "b": "B"}, {"A": {}, "B": {}}, sets)
        rng = np.random.default_rng([13, number])
        first, second = np.ones(own) @ a, np.ones(other) @ b
        drawn = "np.ones(m)", "np.ones(p)"
        if number:
            first, second = rng.standard_normal(own) @ a, rng.standard_normal(other) @ b
            drawn = "rng.standard_normal(m)", "rng.standard_normal(p)"
        code = (
            f"rows = {made}\nd, m, p = {width}, {own}, {other}\nA, B = rows[:m].T, rows[m:].T\n"
            f"rng = np.random.default_rng([13, {number}])\nv_a, v_b = A @ {drawn[0]}, B @ {drawn[1]}\n"
            "a, b = A.T[:, :, None], B.T[:, :, None]  # columns\n"
        )
        return Instance(number, found, {"A": a.T, "B": b.T, "v_a": first, "v_b": second}, code)


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
        code = (
            f"rows = {made}\ntokens = np.stack([rows[3] + rows[1], rows[0], rows[2] + rows[1]])\n"
            f"u, x = rows[:, :, None], tokens[:, :, None]  # columns\nbeta, d = {size:g}, {rows.shape[1]}\n"
        )
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
        code = "".join(f"{name} = {one!r}\n" for name, one in self.numbers.items())
        return Instance(number, Values(self.numbers), {}, code)
