"""Certificates: what was proved, with everything that is needed to check it again.

The checks here share no code with the solvers and are short enough to be read. They use Python's whole numbers and fractions
on the floats that the user gave; where exponentials and logarithms come in, those are floats of exact numbers, with room to
spare in the bound that is claimed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from headwise.shown import at_least, at_most


class Certificate(ABC):
    """A claim that can be checked."""

    @abstractmethod
    def check(self) -> bool:
        """Check the claim in exact arithmetic."""

    @abstractmethod
    def describe(self) -> str:
        """Say in a sentence what is proved."""

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as plain data; fractions are strings such as "2/3"."""
        return {"kind": type(self).__name__.lower(), "claim": self.describe()}


def _dot(row: np.ndarray, direction: Sequence[Fraction]) -> Fraction:
    return sum((Fraction(float(a)) * b for a, b in zip(row, direction, strict=True) if a), Fraction(0))


def _mixed(rows: np.ndarray, chosen: Sequence[int], weights: Sequence[Fraction]) -> list[Fraction]:
    """Return the weighted sum of some rows; with one denominator for all, which is faster than fractions."""
    common = math.lcm(*(weight.denominator for weight in weights))
    shares = [int(weight * common) for weight in weights]
    return [
        sum((share * Fraction(float(rows[i, c])) for i, share in zip(chosen, shares, strict=True)), Fraction(0)) / common
        for c in range(rows.shape[1])
    ]


@dataclass(frozen=True)
class Winner(Certificate):
    """A direction in which some keys score exactly alike and strictly above all others."""

    keys: np.ndarray
    inside: Sequence[int]
    direction: Sequence[Fraction]

    def check(self) -> bool:
        """Compare every score with that of the winners."""
        scores = [_dot(key, self.direction) for key in self.keys]
        own = scores[self.inside[0]]
        members = set(self.inside)
        return all(scores[i] == own if i in members else scores[i] < own for i in range(len(scores)))

    def describe(self) -> str:
        """Say what is proved."""
        who = f"key {self.inside[0]} scores" if len(self.inside) == 1 else f"keys {_named(self.inside)} score exactly alike and"
        return f"in this direction {who} strictly above all others"

    def to_dict(self) -> dict[str, Any]:
        """Return the direction too."""
        return {**super().to_dict(), "direction": [str(entry) for entry in self.direction]}


@dataclass(frozen=True)
class Blocked(Certificate):
    """Other keys whose mixture is a combination of the chosen keys: wherever those score alike, another scores no less."""

    keys: np.ndarray
    inside: Sequence[int]
    rows: Sequence[int]
    weights: Sequence[Fraction]
    inside_weights: Sequence[Fraction]

    def check(self) -> bool:
        """Mix both sides and compare; none of the mixed keys may be one of the chosen."""
        fair = all(weight > 0 for weight in self.weights) and sum(self.weights) == 1 and sum(self.inside_weights) == 1
        apart = not set(self.rows) & set(self.inside) and len(set(self.rows)) == len(self.rows)
        return bool(
            fair and apart and _mixed(self.keys, self.rows, self.weights) == _mixed(self.keys, self.inside, self.inside_weights)
        )

    def describe(self) -> str:
        """Say what is proved."""
        if len(self.rows) == 1 and len(self.inside) == 1:
            return f"key {self.rows[0]} is the same as key {self.inside[0]}, so no query tells them apart"
        others, own = _named(self.rows), _named(self.inside)
        if len(self.inside) == 1:
            return f"key {own} is a mixture of keys {others}, so under every query one of them scores at least as high"
        mixed = f"key {others}" if len(self.rows) == 1 else f"a mixture of keys {others}"
        return (
            f"{mixed} is a combination of keys {own}, so whenever those score alike one of the others scores at least as high"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the weights too."""
        return {
            **super().to_dict(),
            "rows": list(self.rows),
            "weights": [str(weight) for weight in self.weights],
            "inside": list(self.inside),
            "inside_weights": [str(weight) for weight in self.inside_weights],
        }


@dataclass(frozen=True)
class Outside(Certificate):
    """A direction in which the target lies strictly beyond every value."""

    values: np.ndarray
    target: np.ndarray
    direction: Sequence[Fraction]

    def check(self) -> bool:
        """Compare the target with every value along the direction."""
        own = _dot(self.target, self.direction)
        return all(_dot(value, self.direction) < own for value in self.values)

    def describe(self) -> str:
        """Say what is proved."""
        return "along this direction the target lies beyond every value, and a context is a mixture of values"

    def to_dict(self) -> dict[str, Any]:
        """Return the direction too."""
        return {**super().to_dict(), "direction": [str(entry) for entry in self.direction]}


@dataclass(frozen=True)
class Together(Certificate):
    """Several certificates, one per head or part; all must hold."""

    parts: Sequence[Certificate]

    def check(self) -> bool:
        """Check every part."""
        return all(part.check() for part in self.parts)

    def describe(self) -> str:
        """Say what is proved, part by part."""
        return "; ".join(dict.fromkeys(part.describe() for part in self.parts))

    def to_dict(self) -> dict[str, Any]:
        """Return every part."""
        return {**super().to_dict(), "parts": [part.to_dict() for part in self.parts]}


def _named(rows: Sequence[int]) -> str:
    few = 6
    return ", ".join(map(str, rows[:few])) + (f" and {len(rows) - few} more" if len(rows) > few else "")


def _positions(places: Sequence[int]) -> str:
    return f"position {places[0]}" if len(places) == 1 else f"positions {_named(places)}"


def _below_top(keys: np.ndarray, query: np.ndarray) -> list[float]:
    """Return how far scores lie below the highest, each difference exact before it is rounded."""
    direction = [Fraction(float(entry)) for entry in query]
    scores = [_dot(key, direction) for key in keys]
    top = max(scores)
    return [float(score - top) for score in scores]


@dataclass(frozen=True)
class Reached(Certificate):
    """A query whose weights are within a divergence of the target."""

    keys: np.ndarray
    target: np.ndarray
    query: np.ndarray
    bound: float

    def check(self) -> bool:
        """Compute the divergence again, from exact scores."""
        below = _below_top(self.keys, self.query)
        total = math.log(math.fsum(math.exp(score) for score in below))
        found = math.fsum(
            w * (math.log(w) - (score - total)) for w, score in zip(self.target.tolist(), below, strict=True) if w > 0
        )
        return found <= self.bound

    def describe(self) -> str:
        """Say what is proved."""
        return f"the weights of this query are within a divergence of {at_most(self.bound)} of the target"


@dataclass(frozen=True)
class Spread(Certificate):
    """Weights with exactly the target's moments and more entropy.

    For weights a(q) of any query, KL(w || a(q)) = KL(p || a(q)) + H(p) - H(w) whenever p and w have the same moments: the
    log of a(q) is linear in the keys. So no query is closer to w than the difference of the entropies.
    """

    keys: np.ndarray
    target: np.ndarray
    rows: Sequence[int]
    weights: Sequence[Fraction]

    @property
    def gain(self) -> float:
        """By how much no query can come closer, in nats; a little less than computed, so that rounding cannot matter."""
        computed = _entropy([float(weight) for weight in self.weights]) - _entropy(self.target.tolist())
        return computed * (1 - 1e-9) - 1e-13 * len(self.target)

    def check(self) -> bool:
        """Compare sums and moments exactly, and the entropies with room to spare."""
        wanted = [Fraction(float(weight)) for weight in self.target]
        rows = list(range(len(wanted)))
        same = _mixed(self.keys, self.rows, self.weights) == _mixed(self.keys, rows, wanted) and sum(self.weights) == sum(
            wanted
        )
        return bool(same and min(self.weights) >= 0 and len(set(self.rows)) == len(self.rows) and self.gain > 0)

    def describe(self) -> str:
        """Say what is proved."""
        return (
            f"other weights have the same moments and an entropy that is larger by {at_least(self.gain)}, which every query's "
            "divergence from the target exceeds"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the weights too."""
        return {**super().to_dict(), "rows": list(self.rows), "weights": [str(weight) for weight in self.weights]}


def _entropy(weights: Sequence[float]) -> float:
    return -math.fsum(weight * math.log(weight) for weight in weights if weight > 0)


@dataclass(frozen=True)
class Hits(Certificate):
    """A query whose context is within a distance of the target."""

    keys: np.ndarray
    values: np.ndarray
    target: np.ndarray
    query: np.ndarray
    bound: float

    def check(self) -> bool:
        """Compute the context again, from exact scores."""
        terms = [math.exp(score) for score in _below_top(self.keys, self.query)]
        total = math.fsum(terms)
        away = [
            math.fsum(term * (float(value) - wanted) for term, value in zip(terms, column, strict=True)) / total
            for column, wanted in zip(self.values.T.tolist(), self.target.tolist(), strict=True)
        ]
        return math.hypot(*away) <= self.bound

    def describe(self) -> str:
        """Say what is proved."""
        return f"the context of this query is within {at_most(self.bound)} of the target"


@dataclass(frozen=True)
class Dependency(Certificate):
    """A combination of what is read that vanishes while the same combination of the targets does not."""

    tokens: np.ndarray
    mixtures: Sequence[Mapping[int, float]]
    targets: Sequence[np.ndarray]
    coefficients: Sequence[Fraction]

    def check(self) -> bool:
        """Combine both sides exactly."""
        read = [Fraction(0)] * self.tokens.shape[1]
        got = [Fraction(0)] * len(self.targets[0])
        for share, mixture, target in zip(self.coefficients, self.mixtures, self.targets, strict=True):
            for row, weight in mixture.items():
                part = share * Fraction(float(weight))
                read = [a + part * Fraction(float(b)) for a, b in zip(read, self.tokens[row], strict=True)]
            got = [a + share * Fraction(float(b)) for a, b in zip(got, target, strict=True)]
        return not any(read) and any(got)

    def describe(self) -> str:
        """Say what is proved."""
        return "what the positions read is linearly dependent and their targets are not, so no V maps one to the other"

    def to_dict(self) -> dict[str, Any]:
        """Return the coefficients too."""
        return {**super().to_dict(), "coefficients": [str(share) for share in self.coefficients]}


def _whole(matrix: np.ndarray) -> tuple[list[list[int]], int]:
    """Return a matrix of floats times a common power of two, as whole numbers, and that power."""
    denominator = max(float(entry).as_integer_ratio()[1] for entry in matrix.flat)
    return [[int(Fraction(float(entry)) * denominator) for entry in row] for row in matrix], denominator


def _products(left: list[list[int]], right: list[list[int]]) -> list[list[int]]:
    """Return all dot products of rows with rows."""
    return [[sum(map(int.__mul__, a, b)) for b in right] for a in left]


@dataclass(frozen=True)
class LayerWinner(Certificate):
    """Key and query matrices under which each position scores its own tokens strictly above all others.

    `shares` holds the weights that each position wants; scores differ by the logarithms of their ratios, up to `uneven`.
    """

    tokens: np.ndarray
    shares: Mapping[int, Mapping[int, float]]
    key: np.ndarray
    query: np.ndarray
    uneven: float

    def check(self) -> bool:
        """Compute every score exactly."""
        (tokens, a), (key, b), (query, c) = _whole(self.tokens), _whole(self.key), _whole(self.query)
        unit = a * a * b * c
        places = list(self.shares)
        keys, queries = _products(tokens, key), _products([tokens[place] for place in places], query)
        for place, scores in zip(places, _products(queries, keys), strict=True):
            wanted = self.shares[place]
            lowest = min(scores[j] for j in wanted)
            if any(score >= lowest for j, score in enumerate(scores) if j not in wanted):
                return False
            first = min(wanted)
            for j, weight in wanted.items():
                ratio = float(Fraction(scores[j] - scores[first], unit))
                if abs(ratio - math.log(weight / wanted[first])) > self.uneven:
                    return False
        return True

    def describe(self) -> str:
        """Say what is proved."""
        several = any(len(wanted) > 1 for wanted in self.shares.values())
        ratios = f", their weights in the wanted ratios up to a factor of 1 + {at_most(self.uneven)}" if several else ""
        return f"each position scores the tokens it shall read strictly above all others{ratios}"


@dataclass(frozen=True)
class LayerBlocked(Certificate):
    """Weights that make the wanted score differences cancel: whatever B is, some position prefers another token.

    `outside` holds (position, token, weight > 0), `inside` (position, member, weight of any sign). Each stands for the
    difference between the position's first member and the token, times the position: (x_p - x_j) x_i^T. Where members shall
    get unequal weights, `shares`, their scores differ, and it is shown that what this gains is not enough for the leak.
    """

    tokens: np.ndarray
    shares: Mapping[int, Mapping[int, float]]
    leak: float
    outside: Sequence[tuple[int, int, Fraction]]
    inside: Sequence[tuple[int, int, Fraction]]

    def _enough(self) -> bool:
        """Say whether the scores of the members, in the wanted ratios, leave too little for the others to be below."""
        gained = [float(w) * math.log(self.shares[i][min(self.shares[i])] / self.shares[i][j]) for i, j, w in self.inside]
        if not any(gained):
            return True
        odds = (1 - self.leak) / self.leak
        needed = [float(w) * math.log(self.shares[i][min(self.shares[i])] * odds) for i, _, w in self.outside]
        return math.fsum(needed) - math.fsum(gained) > 1e-9 * math.fsum(map(abs, [*needed, *gained]))

    def check(self) -> bool:
        """Add both sides up exactly."""
        (tokens, _), width = _whole(self.tokens), self.tokens.shape[1]
        terms = [*self.outside, *((place, other, -weight) for place, other, weight in self.inside)]
        common = math.lcm(*(weight.denominator for _, _, weight in terms))
        total = [[0] * width for _ in range(width)]
        for place, other, weight in terms:
            first, share = tokens[min(self.shares[place])], int(weight * common)
            for a in range(width):
                part = share * (first[a] - tokens[other][a])
                total[a] = [old + part * entry for old, entry in zip(total[a], tokens[place], strict=True)]
        fair = all(weight > 0 and other not in self.shares[place] for place, other, weight in self.outside)
        within = all(other in self.shares[place] for place, other, _ in self.inside)
        return bool(self.outside and fair and within and not any(any(row) for row in total) and self._enough())

    def describe(self) -> str:
        """Say what is proved."""
        places = sorted({place for place, _, _ in self.outside})
        if any(len(set(wanted.values())) > 1 for wanted in self.shares.values()):
            return (
                f"the score differences that {_positions(places)} need add up to less than the leak and the wanted "
                "ratios ask for, whatever K and Q are"
            )
        return (
            f"the score differences that {_positions(places)} need add up to zero, so whatever K and Q are, one of them "
            "scores another token at least as high"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the weights too."""
        return {
            **super().to_dict(),
            "outside": [[place, other, str(weight)] for place, other, weight in self.outside],
            "inside": [[place, other, str(weight)] for place, other, weight in self.inside],
        }
