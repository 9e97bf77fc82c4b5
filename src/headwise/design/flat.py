"""Keys on a line or a plane, exactly: the hull in two dimensions, and keys of many columns that lie flat."""

from itertools import pairwise

import numpy as np
from flint import fmpq_mat, fmpz, fmpz_mat, nmod_mat
from jaxtyping import Float, Int

from headwise.design import exact
from headwise.design.separate import UNIT, scaled
from headwise.design.witnesses import TINY, lengths

# Checking that keys lie flat multiplies this many whole numbers at most: some ten seconds.
_LARGEST_CHECK = 10**9
_PRIME = 2**61 - 1
_BLOCK = 512


def outline(keys: Float[np.ndarray, "n d"]) -> list[int]:
    """Return the vertices of distinct keys of width 1 or 2, in order around the hull, by Andrew's chain in whole numbers.

    >>> outline(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.0, 1.0]]))
    [0, 2, 3]
    """
    if len(keys) == 1:
        return [0]
    across = keys[:, 1] if keys.shape[1] > 1 else np.zeros(len(keys))
    order = np.lexsort((across, keys[:, 0])).tolist()
    whole = exact.integers(np.column_stack([keys[:, 0], across]))
    ring: list[int] = []
    for way in (order, order[::-1]):
        chain: list[int] = []
        for row in way:
            x, y = whole[row]
            while len(chain) > 1:
                (ax, ay), (bx, by) = whole[chain[-2]], whole[chain[-1]]
                if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                    break
                chain.pop()
            chain.append(row)
        ring += chain[:-1]
    return ring


def outline_margins(keys: Float[np.ndarray, "n d"], shift: int, ring: list[int]) -> Float[np.ndarray, " r"]:
    """Bound the margins of the vertices of an outline, per unit of length.

    A vertex that beats its neighbours beats all of the outline, and one that beats the outline of the other keys beats those.
    """
    inner = np.delete(np.arange(len(keys)), ring)
    inner = inner[outline(keys[inner])] if len(inner) else inner
    corners, others = (scaled(keys[rows], shift) for rows in (ring, inner))
    middle = corners.mean(axis=0)
    corners, others = corners - middle, others - middle
    sides = [corners - np.roll(corners, step, axis=0) for step in (1, -1)]
    queries = np.zeros(corners.shape)
    for side in sides:
        size = lengths(side)
        queries += side / np.where(size > 0, size, 1.0)[:, None]
    own = (corners * queries).sum(axis=1)
    best = np.maximum(*(own - (side * queries).sum(axis=1) for side in sides))
    for start in range(0, len(ring) if len(inner) else 0, _BLOCK):
        scores = (queries[start : start + _BLOCK] @ others.T).max(axis=1)
        best[start : start + _BLOCK] = np.maximum(best[start : start + _BLOCK], scores)
    long = lengths(queries) * (1 + 1e-9)
    slack = 32 * UNIT * (float(lengths(corners).max()) + float(lengths(others).max(initial=0.0)))
    return np.asarray(np.where(long > 0, (own - best) / np.where(long > 0, long, 1.0), 0.0) * (1 - 1e-9) - slack - TINY)


def enough_columns(keys: Float[np.ndarray, "n d"], points: Float[np.ndarray, "n d"]) -> list[int] | None:
    """Return columns of which all others are affine functions, exactly and on all keys; None if none can be left out.

    Keys on a plane then become keys of the plane's dimension: which of them are vertices does not change. A sample of the
    keys proposes the functions, by arithmetic modulo a prime; keys that do not obey them join the sample.
    """
    from scipy.linalg import qr  # noqa: PLC0415  slow to load

    count, width = points.shape
    sizes = np.abs(points).max(axis=0)
    rows = points[:: -(-count // 4096)] - points[0]
    turned, order = qr(rows / np.where(sizes > 0, sizes, 1.0), mode="r", pivoting=True)
    strengths = np.abs(np.diag(turned))
    rank = int((strengths > 1e-10 * strengths.max(initial=0.0)).sum())
    if rank == width or count <= width + 1 or count * (rank + 1) * (width - rank) > _LARGEST_CHECK:
        return None
    sample = np.unique(np.linspace(1, count - 1, 2 * width + 16).astype(np.intp))
    for _ in range(width - rank + 1):
        table = _differences(keys, sample, order)
        kept = _pivots(table)
        if not kept or len(kept) == width:
            return None
        anchors = _pivots([[row[c] for row in table] for c in kept])
        shares = _functions([table[a] for a in anchors], kept)
        if shares is None:
            return None
        stray = _stray(keys, order, kept, shares)
        if not len(stray):
            return sorted(order[kept].tolist())
        sample = np.append(sample, stray)
    return None


def _differences(keys: Float[np.ndarray, "n d"], rows: Int[np.ndarray, " b"], order: Int[np.ndarray, " d"]) -> list[list[int]]:
    """Return keys minus the first key as whole numbers, columns in a given order."""
    first, *others = exact.integers(keys[np.append(0, rows)][:, order])
    return [[a - b for a, b in zip(row, first, strict=True)] for row in others]


def _pivots(table: list[list[int]]) -> list[int]:
    """Return the columns that are independent of those before them modulo a prime, and therefore exactly."""
    reduced, rank = nmod_mat(fmpz_mat(table), _PRIME).rref()
    return [next(c for c in range(reduced.ncols()) if int(reduced[r, c])) for r in range(rank)]


def _functions(anchors: list[list[int]], kept: list[int]) -> tuple[fmpz_mat, fmpz] | None:
    """Solve for the columns that are not kept as functions of those that are: numerators and a common denominator."""
    inner, outer = _split(anchors, kept)
    try:
        numerators, denominator = fmpq_mat(inner).solve(fmpq_mat(outer)).numer_denom()
    except ZeroDivisionError:
        return None
    return numerators, denominator


def _split(table: list[list[int]], kept: list[int]) -> tuple[fmpz_mat, fmpz_mat]:
    dropped = [c for c in range(len(table[0])) if c not in kept]
    inner, outer = (fmpz_mat([[row[c] for c in columns] for row in table]) for columns in (kept, dropped))
    return inner, outer


def _stray(
    keys: Float[np.ndarray, "n d"], order: Int[np.ndarray, " d"], kept: list[int], shares: tuple[fmpz_mat, fmpz]
) -> Int[np.ndarray, " s"]:
    """Return the first keys that do not obey the functions; none if all do, exactly."""
    edges = [0, *range(min(64, len(keys)), len(keys), 2048), len(keys)]
    for start, stop in pairwise(edges):
        inner, outer = _split(_differences(keys, np.arange(start, stop), order), kept)
        if inner * shares[0] != outer * shares[1]:
            wrong = (inner * shares[0] - outer * shares[1]).tolist()
            return np.array([start + i for i, row in enumerate(wrong) if any(row)], dtype=np.intp)
    return np.zeros(0, dtype=np.intp)
