"""Exact arithmetic on floats: they are whole numbers times a power of two, so every question about them has an answer.

Linear algebra over the whole numbers is FLINT's. The question here is the one behind all of `design`: given rows p_i and
a span E, is there an x with p_i . x > 0 for all i and E x = 0, or a mixture of the p_i that lies in the span?
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpz, fmpz_mat, nmod_mat

_PRIME = 2**61 - 1


@dataclass(frozen=True)
class Separated:
    """Whole numbers x with row . x > 0 for every row and span . x = 0."""

    direction: list[int]


@dataclass(frozen=True)
class Mixed:
    """Weights of some rows, positive and of sum 1, whose mixture is the combination `span_weights` of the span's rows."""

    rows: list[int]
    weights: list[Fraction]
    span_weights: list[Fraction]


def exponent(array: np.ndarray) -> int:
    """Return the largest e for which every entry is a whole multiple of 2^e; 0 if all are zero.

    >>> exponent(np.array([0.75, 8.0]))
    -2
    """
    whole, exponents = _parts(array)
    return int(exponents[whole != 0].min()) if whole.any() else 0


def integers(array: np.ndarray, power: int | None = None) -> list[list[int]]:
    """Return the entries of a matrix as whole multiples of 2^power, which is the `exponent` of the matrix unless given.

    >>> integers(np.array([[0.5, -3.0]]))
    [[1, -6]]
    """
    power = exponent(array) if power is None else power
    whole, exponents = _parts(array)
    shifts = np.where(whole == 0, 0, exponents - power)
    return [
        [number << shift for number, shift in zip(*pair, strict=True)]
        for pair in zip(whole.tolist(), shifts.tolist(), strict=True)
    ]


def _parts(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return odd whole numbers and exponents with entry = whole * 2^exponent."""
    mantissas, exponents = np.frexp(np.asarray(array, dtype=np.float64))
    whole = (mantissas * 2.0**53).astype(np.int64)
    zeros = np.log2(np.where(whole == 0, 1, whole & -whole).astype(np.float64)).astype(np.int64)
    return whole >> zeros, exponents.astype(np.int64) - 53 + zeros


def spanned(array: np.ndarray, rows: Sequence[int]) -> int:
    """Return the exact dimension of the affine hull of some rows.

    >>> spanned(np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]), [0, 1, 2])
    1
    """
    first, *others = integers(array[list(rows)])
    table = [[a - b for a, b in zip(row, first, strict=True)] for row in others]
    if not table:
        return 0
    # Independent modulo a prime is independent; only if some seem to be missing is the exact rank computed.
    quick = int(nmod_mat(fmpz_mat(table), _PRIME).rank())
    return quick if quick == min(len(table), array.shape[1]) else int(fmpz_mat(table).rank())


def margins(rows: fmpz_mat, direction: Sequence[int]) -> list[int]:
    """Return row . direction for every row."""
    return _column(rows * fmpz_mat([[entry] for entry in direction]))


def projected(direction: np.ndarray, span: fmpz_mat) -> list[int] | None:
    """Return whole numbers at right angles to the span that point along `direction`; None if nothing is left of it."""
    column = fmpz_mat([[entry] for entry in integers(direction[None])[0]])
    basis = _independent(span)
    if basis.nrows():
        solved, denominator = _solved(basis * basis.transpose(), basis * column)
        column = column * denominator - basis.transpose() * solved
    return _shortened(_column(column))


def mixture(support: Sequence[int], rows: fmpz_mat, span: fmpz_mat) -> Mixed | None:
    """Return exact weights of these rows that bring their mixture into the span, if there are any that can be found.

    Only one linear system is solved; None proves nothing.
    """
    basis = _independent(span)
    upper = [[*row, *(-entry for entry in line)] for row, line in zip(_turned(rows), _turned(basis), strict=True)]
    system = fmpz_mat([*upper, [1] * rows.nrows() + [0] * basis.nrows()])
    wanted = fmpz_mat([[0]] * rows.ncols() + [[1]])
    try:
        # A square system as it is, any other by its normal equations; the result is checked in both cases.
        if system.nrows() == system.ncols():
            solved, denominator = _solved(system, wanted)
        else:
            solved, denominator = _solved(system.transpose() * system, system.transpose() * wanted)
    except ZeroDivisionError:
        return None
    if system * solved != wanted * denominator:
        return None
    found = [Fraction(entry, int(denominator)) for entry in _column(solved)[: rows.nrows()]]
    if min(found) < 0:
        return None
    kept = [i for i, share in enumerate(found) if share]
    return with_span([support[i] for i in kept], [found[i] for i in kept], rows_of(rows, kept), span)


def with_span(support: list[int], weights: list[Fraction], rows: fmpz_mat, span: fmpz_mat) -> Mixed:
    """Complete weights of rows by the combination of span rows that equals their mixture."""
    if span.nrows() == 0:
        return Mixed(support, weights, [])
    common = int(np.lcm.reduce(np.array([weight.denominator for weight in weights], dtype=object)))
    mixed = rows.transpose() * fmpz_mat([[int(weight * common)] for weight in weights])
    chosen = _pivots(span.transpose())
    basis = rows_of(span, chosen)
    shares = dict.fromkeys(range(span.nrows()), Fraction(0))
    if chosen:
        solved, denominator = _solved(basis * basis.transpose(), basis * mixed)
        shares.update(zip(chosen, (Fraction(entry, int(denominator) * common) for entry in _column(solved)), strict=True))
    return Mixed(support, weights, list(shares.values()))


def decide(everything: fmpz_mat, span: fmpz_mat, start: Sequence[int], seconds: float) -> Separated | Mixed | None:
    """Settle the question by Wolfe's algorithm for the point of least norm in the hull, in exact arithmetic.

    It ends by itself, with one answer or the other, if it is given the time; None says that it was not.
    """
    deadline = time.monotonic() + seconds
    points, basis = everything, None
    if span.nrows():
        null, width = span.nullspace()
        if width == 0:
            return with_span([start[0]], [Fraction(1)], rows_of(everything, [start[0]]), span)
        basis = fmpz_mat([row[:width] for row in null.tolist()])
        points = everything * basis
    support, weights = list(start), [fmpq(1, len(start))] * len(start)
    while True:
        nearest = _least_norm(points, support, weights, deadline)
        if nearest is None:
            return None
        if not any(nearest):
            shares = [Fraction(int(weight.p), int(weight.q)) for weight in weights]
            return with_span(support, shares, rows_of(everything, support), span)
        found = margins(points, nearest)
        if min(found) > 0:
            if basis is not None:
                nearest = _column(basis * fmpz_mat([[entry] for entry in nearest]))
            return Separated(_shortened(nearest) or nearest)
        support.append(min(range(len(found)), key=found.__getitem__))
        weights.append(fmpq(0))


def _least_norm(points: fmpz_mat, support: list[int], weights: list[fmpq], deadline: float) -> list[int] | None:
    """Move weights to the point of least norm of the support's affine hull, dropping rows that would get a negative one.

    Changes support and weights, and returns a positive multiple of the point; None if time is up.
    """
    while time.monotonic() < deadline:
        chosen, size = rows_of(points, support), len(support)
        gram = chosen * chosen.transpose()
        bordered = fmpz_mat([[entry + 1 for entry in row] for row in gram.tolist()])
        try:
            solved, _ = _solved(bordered, fmpz_mat([[1]] * size))
        except ZeroDivisionError:  # affinely dependent: the lightest row goes
            lightest = min(range(size), key=weights.__getitem__)
            del support[lightest], weights[lightest]
            total = sum(weights, fmpq(0))
            weights[:] = [weight / total for weight in weights] if total else [fmpq(1, size - 1)] * (size - 1)
            continue
        mass = sum(solved.entries(), fmpz(0))
        wanted = [fmpq(entry, mass) for entry in solved.entries()]
        if size == 1 or min(wanted) > 0:
            weights[:] = wanted
            return _column(chosen.transpose() * solved * (1 if mass > 0 else -1))
        steps = [old / (old - new) for old, new in zip(weights, wanted, strict=True) if new <= 0 and old > new]
        step = min(steps, default=fmpq(0))
        moved = [old + step * (new - old) for old, new in zip(weights, wanted, strict=True)]
        kept = [i for i in range(size) if moved[i] > 0]
        support[:], weights[:] = [support[i] for i in kept], [moved[i] for i in kept]
    return None


def rows_of(matrix: fmpz_mat, chosen: Sequence[int]) -> fmpz_mat:
    """Return some rows of a matrix."""
    return fmpz_mat(len(chosen), matrix.ncols(), [matrix[i, c] for i in chosen for c in range(matrix.ncols())])


def _solved(matrix: fmpz_mat, wanted: fmpz_mat) -> tuple[fmpz_mat, fmpz]:
    """Return numerators and the common denominator of the solution; ZeroDivisionError if there is not exactly one."""
    solution: Any = matrix.solve(wanted)
    numerators, denominator = solution.numer_denom()
    return numerators, denominator


def _independent(span: fmpz_mat) -> fmpz_mat:
    return rows_of(span, _pivots(span.transpose()))


def _pivots(matrix: fmpz_mat) -> list[int]:
    """Return columns that are independent and span all columns."""
    if matrix.ncols() == 0:
        return []
    reduced, _, rank = matrix.rref()
    table = reduced.tolist()
    return [next(c for c, entry in enumerate(table[r]) if entry) for r in range(rank)]


def _turned(matrix: fmpz_mat) -> list[list[fmpz]]:
    return matrix.transpose().tolist() if matrix.nrows() else [[] for _ in range(matrix.ncols())]


def _column(matrix: fmpz_mat) -> list[int]:
    return [int(entry) for entry in matrix.entries()]


def _shortened(entries: list[int]) -> list[int] | None:
    """Divide by the common factor; None for zero."""
    common = math.gcd(*entries)
    return [entry // common for entry in entries] if common else None


def matched(rows: np.ndarray, wanted: np.ndarray, nearly: np.ndarray) -> list[Fraction] | None:
    """Return exact weights close to `nearly` that have exactly the sum and the moments of `wanted`.

    Only a few weights are changed, heavy ones; None if one of them would have to be negative.
    """
    table = integers(rows)
    both = integers(np.stack([wanted, nearly]))
    unit = Fraction(2) ** exponent(np.stack([wanted, nearly]))
    columns = fmpz_mat([[*row, 1] for row in table]).transpose()
    missing = columns * fmpz_mat([[a - b] for a, b in zip(*both, strict=True)])
    order = np.argsort(-nearly, kind="stable").tolist()
    turned = fmpz_mat([[columns[r, c] for c in order] for r in range(columns.nrows())])
    chosen = [order[place] for place in _pivots(turned)]
    picked = fmpz_mat([[columns[r, c] for c in chosen] for r in range(columns.nrows())])
    solved, denominator = _solved(picked.transpose() * picked, picked.transpose() * missing)
    if picked * solved != missing * denominator:
        return None
    found = [Fraction(entry) for entry in both[1]]
    for place, entry in zip(chosen, _column(solved), strict=True):
        found[place] += Fraction(entry, int(denominator))
    return [share * unit for share in found] if min(found) >= 0 else None
