"""The point of least norm in the convex hull of many rows, in floating point.

It answers both questions of `design` at once: if the point is not zero, it is the direction that separates the rows from
zero by the widest margin; if it is zero, its weights write zero as a mixture. A working set of rows is solved by
SciPy's non-negative least squares, all rows are priced by one product, and the worst join the set. Proofs are made
elsewhere: nothing here is trusted.
"""

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Below this, relative to the rows, the point counts as zero and the mixture is tried first.
_ZERO = 1e-15
_ROUNDS = 60


@dataclass(frozen=True)
class Nearest:
    """The point, the rows that make it up and their weights."""

    point: Float[np.ndarray, " d"]
    support: Int[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]

    @property
    def is_zero(self) -> bool:
        """Whether the hull seems to contain zero."""
        return bool(self.point @ self.point <= _ZERO**2)


def nearest(rows: Float[np.ndarray, "n d"], *, tolerance: float = 1e-10, deadline: float = np.inf) -> Nearest | None:
    """Return the point of least norm in the hull of rows of size about 1; None if the solver gives up.

    Stops when no row promises more than a relative `tolerance` of the squared norm.
    """
    from scipy.optimize import nnls  # noqa: PLC0415  slow to load

    count, width = rows.shape
    size = min(count, max(40, width // 2 + 16))
    first = rows @ rows.mean(axis=0)
    working = _smallest(first, size)
    wanted = np.zeros(width + 1)
    wanted[width] = 1.0
    found: Nearest | None = None
    for _ in range(_ROUNDS):
        system = np.ones((width + 1, len(working)))
        system[:width] = rows[working].T
        try:
            solved, _ = nnls(system, wanted, maxiter=50 * (width + 1) + 10 * len(working))
        except RuntimeError:
            return found
        kept = np.flatnonzero(solved > 0)
        if not len(kept):
            return found
        weights = solved[kept] / solved[kept].sum()
        support = working[kept]
        point = weights @ rows[support]
        square = float(point @ point)
        priced = rows @ point
        gap = square - float(priced.min())
        found = Nearest(point, support, weights)
        if time.monotonic() > deadline or found.is_zero or gap <= tolerance * square + 1e-17:
            break
        worse = _smallest(priced, min(size, int((priced < square * (1 - 0.5 * tolerance)).sum())))
        joined = np.union1d(support, worse)
        if len(joined) == len(support):
            break
        working = joined
    return found


def _smallest(values: Float[np.ndarray, " n"], count: int) -> Int[np.ndarray, " m"]:
    """Return the places of the smallest values."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, count - 1)[:count] if count else np.zeros(0, dtype=np.intp)


def sharpened(point: Float[np.ndarray, " d"], support: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " d"] | None:
    """Return the direction at right angles to all differences of the support's rows; None if there is none.

    The point is a mixture whose terms nearly cancel when the distance is small, and its direction is then mostly
    rounding. Projecting the differences away, a few times, brings it back.
    """
    differences = support[1:] - support[0]
    direction = point / (np.abs(point).max() or 1.0)
    if len(differences):
        sizes = np.abs(differences).max(axis=1, keepdims=True)
        basis = np.linalg.qr((differences / np.where(sizes > 0, sizes, 1.0)).T)[0]
        if basis.shape[1] >= len(point):
            return None
        for _ in range(3):
            direction = direction - basis @ (basis.T @ direction)
            direction = direction / (np.abs(direction).max() or 1.0)
    return direction if support[0] @ direction >= 0 else -direction


def reduced(rows: Float[np.ndarray, "m d"], weights: Float[np.ndarray, " m"]) -> Int[np.ndarray, " s"]:
    """Drop rows from a mixture that is zero until the rest is affinely independent; returns the places kept."""
    places, weights = np.arange(len(weights)), weights.copy()
    while len(places) > 1:
        system = np.vstack([rows[places].T, np.ones(len(places))])
        scale = np.linalg.norm(system)
        if len(places) <= len(system) and np.linalg.matrix_rank(system, 1e-11 * scale) == len(places):
            break
        turn = np.linalg.svd(system)[2][-1]
        turn = turn if turn.max() > -turn.min() else -turn
        down = np.flatnonzero(turn > 1e-14)
        step = (weights[places][down] / turn[down]).min()
        weights[places] -= step * turn
        places = np.delete(places, down[np.argmin(weights[places][down])])
    return places
