"""The question behind all of `design`, decided with a proof either way.

Given rows p_i and a span E: is there an x with p_i . x > 0 for every i and E x = 0? The proof of yes is x itself, its
margins bounded from below against every rounding error, or in exact arithmetic. The proof of no is a mixture of the rows
that lies in the span, in exact fractions. What neither settles in the time given is undecided.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpz_mat
from jaxtyping import Float

from headwise.design import exact
from headwise.design.nearest import Nearest, nearest, reduced, sharpened

UNIT = 2.0**-53
_TINY = 5e-324
# A margin below this part of the rows' size is called one by rounding only.
ROUNDING = 1e-12
_ORDINARY = 900
_BLOCK = 128


def power_of_two(array: np.ndarray) -> int:
    """Return the power of two that brings all entries to size at most 1/2."""
    return int(np.frexp(max(array.max(), -array.min()))[1]) + 1


def scaled(array: np.ndarray, shift: int, out: np.ndarray | None = None) -> np.ndarray:
    """Return entries times 2^-shift, which rounds nothing but what underflows."""
    # ldexp also where the power of two itself is out of range, but it is slow.
    return np.multiply(array, 2.0**-shift, out=out) if abs(shift) < _ORDINARY else np.ldexp(array, -shift, out=out)


def length(vector: Float[np.ndarray, " d"]) -> float:
    """Return the length of a vector of any size, without squares that leave the range of floats."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if 0 < largest < np.inf else largest


def distances(rows: Float[np.ndarray, "n d"], point: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
    """Return the distance of every row from a point, likewise."""
    with np.errstate(over="ignore"):
        away = rows - point
    largest = float(np.abs(away).max(initial=0.0))
    return largest * np.linalg.norm(away / largest, axis=1) if 0 < largest < np.inf else np.full(len(rows), largest)


def sizes_of_products(
    rows: Float[np.ndarray, "n d"], direction: Float[np.ndarray, " d"], shift: int = 0
) -> Float[np.ndarray, " n"]:
    """Return |row| . |direction| times 2^-shift for every row.

    A block at a time: a large array that is not kept costs more than the sums do.
    """
    found = np.empty(len(rows))
    for start in range(0, len(rows), _BLOCK):
        part = rows[start : start + _BLOCK]
        found[start : start + _BLOCK] = np.abs(scaled(part, shift) if shift else part) @ np.abs(direction)
    return found


@dataclass(frozen=True)
class Question:
    """Rows and a span, as floats for speed and as whole numbers for proof.

    Every float entry is within `roundings` units of rounding of a common power of two times the exact entry, and of
    size at most about 1. `exact_rows` gives the whole numbers of the rows asked for, `exact_span` those of the span.
    """

    rows: Float[np.ndarray, "n d"]
    exact_rows: Callable[[Sequence[int]], fmpz_mat]
    span: Float[np.ndarray, "m d"]
    exact_span: Callable[[], fmpz_mat]
    roundings: int = 1


@dataclass(frozen=True)
class Separation:
    """Yes: a direction and, for each row, a proved lower bound on its margin along the direction.

    `exact` holds whole numbers that satisfy everything exactly, where the float direction only nearly does (with a span)
    or where floats could not decide. `distance` bounds the margin per unit of length of any direction from above.
    """

    direction: Float[np.ndarray, " d"]
    lower: Float[np.ndarray, " n"]
    distance: float
    exact: list[int] | None
    how: str

    @property
    def margin(self) -> float:
        """The smallest proved margin per unit of length; 0 where only exact arithmetic proved it positive."""
        size = length(self.direction)
        return max(0.0, float(self.lower.min(initial=np.inf))) / size if size else np.inf


@dataclass(frozen=True)
class Mixture:
    """No: exact weights that mix some rows into the span."""

    rows: list[int]
    weights: list[Fraction]
    span_weights: list[Fraction]


@dataclass(frozen=True)
class Undecided:
    """Neither was proved."""

    reason: str


def separate(question: Question, *, seconds: float = 20.0) -> Separation | Mixture | Undecided:
    """Decide the question, in floats where they suffice and exactly where they do not."""
    rows, span = question.rows, question.span
    count, width = rows.shape
    if not count:
        return Separation(np.zeros(width), np.zeros(0), np.inf, [0] * width, "there is nothing to separate from")
    duplicate = _zero_row(question)
    if duplicate is not None:
        return duplicate
    flat = _without(rows, span) if len(span) else rows
    deadline = time.monotonic() + seconds
    found = nearest(flat, deadline=deadline)
    if found is not None:
        answer = _proved(question, flat, found)
        if answer is not None:
            return answer
    start = [0] if found is None else [int(i) for i in found.support[reduced(flat[found.support], found.weights)]]
    settled = exact.decide(question.exact_rows(range(count)), question.exact_span(), start, deadline - time.monotonic())
    if isinstance(settled, exact.Mixed):
        return Mixture(settled.rows, settled.weights, settled.span_weights)
    if isinstance(settled, exact.Separated):
        distance = upper_bound(question, found) if found is not None else np.inf
        direction = _rounded(settled.direction)
        return Separation(direction, lower_bounds(question, direction), distance, settled.direction, "exact Wolfe")
    return Undecided(f"exact arithmetic was not done after {seconds:g} s")


def lower_bounds(question: Question, direction: Float[np.ndarray, " d"]) -> Float[np.ndarray, " n"]:
    """Return numbers that no margin is below, whatever the rounding and the order of summation."""
    rows = question.rows
    terms = (rows.shape[1] + question.roundings + 4) * UNIT
    scores = rows @ direction
    slack = terms / (1 - terms) * sizes_of_products(rows, direction) * (1 + 1e-6)
    return scores - slack - 2 * UNIT * np.abs(scores) - (4 * rows.shape[1] + 4) * _TINY


def upper_bound(question: Question, found: Nearest) -> float:
    """Bound the margin per unit of length of every direction at right angles to the span.

    For such a direction x the smallest margin is at most that of the mixture, (sum theta_i p_i - E^T w) . x, whatever w is.
    """
    rows, span = question.rows[found.support], question.span
    mixed = found.weights @ rows
    sizes = found.weights @ np.abs(rows)
    if len(span):
        shares = np.linalg.lstsq(span.T, mixed, rcond=None)[0]
        mixed, sizes = mixed - shares @ span, sizes + np.abs(shares) @ np.abs(span)
    terms = (len(rows) + len(span) + question.roundings + 8) * UNIT
    return float((length(mixed) + 2 * terms * length(sizes)) * (1 + 1e-12)) + len(mixed) * _TINY


def _proved(question: Question, flat: Float[np.ndarray, "n d"], found: Nearest) -> Separation | Mixture | None:
    """Try to prove what the float solution suggests."""
    distance = upper_bound(question, found)
    if not found.is_zero:
        answer = _witness(question, found.point / np.abs(found.point).max(), distance, exactly=False)
        if answer is not None:
            return answer
    sharper = sharpened(found.point, flat[found.support])
    answer = None if sharper is None else _witness(question, sharper, distance, exactly=True)
    if answer is not None:
        return answer
    support = [int(i) for i in found.support[reduced(flat[found.support], found.weights)]]
    mixed = exact.mixture(support, question.exact_rows(support), question.exact_span())
    return None if mixed is None else Mixture(mixed.rows, mixed.weights, mixed.span_weights)


def _witness(question: Question, direction: np.ndarray, distance: float, *, exactly: bool) -> Separation | None:
    """Prove that a direction separates, by rounding-error bounds or, if asked, exactly for the rows that they leave open."""
    whole = None
    if len(question.span):
        whole = exact.projected(direction, question.exact_span())
        if whole is None:
            return None
        direction = _rounded(whole)
    lower = lower_bounds(question, direction)
    if lower.min() > 0:
        return Separation(direction, lower, distance, whole, "rounding-error bound")
    if not exactly:
        return None
    unsure = [int(i) for i in np.flatnonzero(lower <= 0)]
    whole = exact.integers(direction[None])[0] if whole is None else whole
    if min(exact.margins(question.exact_rows(unsure), whole)) > 0:
        return Separation(direction, lower, distance, whole, "exact arithmetic")
    return None


def _zero_row(question: Question) -> Mixture | None:
    """Return a row that is zero, which is a mixture by itself."""
    places = np.flatnonzero(question.rows[:, 0] == 0)
    for i in places[~question.rows[places].any(axis=1)]:
        if not any(question.exact_rows([int(i)]).entries()):
            return Mixture([int(i)], [Fraction(1)], [Fraction(0)] * len(question.span))
    return None


def _without(rows: Float[np.ndarray, "n d"], span: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n d"]:
    """Take the part along the span out of every row, twice, so that rounding leaves nothing of it."""
    sizes = np.linalg.norm(span, axis=1, keepdims=True)
    _, strengths, turned = np.linalg.svd(span / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    basis = turned[strengths > 1e-12 * strengths.max(initial=0.0)] if strengths.max(initial=0.0) else turned[:0]
    for _ in range(2):
        rows = rows - (rows @ basis.T) @ basis
    return rows


def _rounded(whole: list[int]) -> Float[np.ndarray, " d"]:
    """Return whole numbers as floats of size 1, each correctly rounded."""
    largest = max(map(abs, whole)) or 1
    return np.array([float(Fraction(entry, largest)) for entry in whole])
