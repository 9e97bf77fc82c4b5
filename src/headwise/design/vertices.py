"""Which keys are vertices of the hull of all keys, where no cheap query tells.

Clarkson's way: a key is compared with the vertices found so far only. If it is a mixture of them it is blocked, and the
mixture is proved to exist by interval arithmetic or in fractions. If a direction separates it from them, the key that scores
highest in that direction is a new vertex, possibly the key itself. Floats propose and proofs decide: a key for which neither
proof goes through in the time given stays undecided.
"""

import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from flint import fmpz_mat
from jaxtyping import Bool, Float, Int

from headwise.design import exact
from headwise.design.face import contest
from headwise.design.nearest import nearest, sharpened
from headwise.design.separate import UNIT, Mixture, Separation, length, lower_bounds, scaled, separate, upper_bound
from headwise.design.witnesses import Metric, lengths, margins

_MANY = 1000
_ROUNDS = 60
_BATCH = 64

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Field:
    """What the search looks at: distinct keys, the same scaled and centred (`points`), and those seen through a metric.

    `cone` holds what is seen with a column of one number added, so that mixtures become cones.
    """

    keys: Float[np.ndarray, "n d"]
    shift: int
    points: Float[np.ndarray, "n d"]
    sizes: Float[np.ndarray, " n"]
    metric: Metric
    cone: Float[np.ndarray, "n d+1"]

    @classmethod
    def of(cls, keys: Float[np.ndarray, "n d"], shift: int, points: Float[np.ndarray, "n d"], metric: Metric) -> "Field":
        """Prepare the search."""
        cone = np.empty((len(points), points.shape[1] + 1))
        for start in range(0, len(points), 512):
            cone[start : start + 512, :-1] = metric.seen(points[start : start + 512])
        cone[:, -1] = max(float(cone[:, :-1].max()), -float(cone[:, :-1].min())) or 1.0
        return cls(keys, shift, points, lengths(points), metric, cone)


@dataclass(frozen=True)
class Found:
    """What a search found: winners with margins, blocked keys, keys still open with the mixture suspected, new vertices."""

    won: Int[np.ndarray, " w"]
    lower: Float[np.ndarray, " w"]
    blocked: Int[np.ndarray, " b"]
    open: dict[int, list[int]]
    vertices: list[int]


class _Hull:
    """The vertices known, as the generators of a cone; grows as keys are asked about."""

    def __init__(self, place: Field, known: Int[np.ndarray, " e"], frame: Int[np.ndarray, " f"]) -> None:
        self.place = place
        self.rows = known
        self.generators = place.cone if len(known) == len(place.cone) else place.cone[known]
        self.where = np.full(len(place.cone), -1, dtype=np.intp)
        self.where[known] = np.arange(len(known))
        self.frame = self.where[frame]
        width = place.cone.shape[1]
        self.few = max(20, width // 2 + 16)

    def add(self, row: int) -> None:
        self.where[row] = len(self.rows)
        self.rows = np.append(self.rows, row)
        self.generators = np.concatenate([self.generators, self.place.cone[row : row + 1]])

    def starts(self, rows: Int[np.ndarray, " b"]) -> Int[np.ndarray, "b s"]:
        """Propose generators for each key: those that score highest along it."""
        scores = self.place.cone[rows] @ self.generators.T
        few = min(self.few, scores.shape[1])
        return np.argpartition(scores, scores.shape[1] - few, axis=1)[:, scores.shape[1] - few :]

    def compare(self, row: int, working: Int[np.ndarray, " s"]) -> tuple[Float[np.ndarray, " d"] | None, list[int] | None]:
        """Return a direction in which the key beats all generators, or generators that seem to mix to it, or neither."""
        from scipy.optimize import nnls  # noqa: PLC0415  slow to load

        wanted, own = self.place.cone[row], self.where[row]
        size = float(np.linalg.norm(wanted))
        for _ in range(_ROUNDS):
            working = working[working != own] if own >= 0 else working
            if not len(working):
                return wanted[:-1], []
            chosen = self.generators[working]
            try:
                shares, rest = nnls(chosen.T, wanted, maxiter=50 * len(wanted) + 10 * len(working))
            except RuntimeError:
                break
            kept = shares > 0
            if rest < 1e-13 * size:
                return None, self.rows[working[kept]].tolist()
            direction = wanted - shares[kept] @ chosen[kept]
            prices = self.generators @ direction
            if own >= 0:
                prices[own] = -np.inf
            top = float(prices.max())
            if top < 0.5 * float(direction @ wanted):
                return direction[:-1] / rest, self.rows[working[kept]].tolist()
            if top <= 1e-11 * rest * size:
                break
            more = min(3 * self.few, int((prices > 1e-3 * top).sum()))
            working = np.union1d(working[kept], np.argpartition(prices, len(prices) - more)[len(prices) - more :])
        return None, None


def search(place: Field, task: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Found:
    """Decide keys against vertices known; the task names the vertices, some of them far apart to start with, and the keys."""
    known, frame, rows = task
    hull = _Hull(place, known, frame)
    won: dict[int, np.ndarray] = {}
    mixed: dict[int, list[int]] = {}
    unsure: list[int] = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        for row, first in zip(batch.tolist(), hull.starts(batch), strict=True):
            direction, support = _settled(hull, row, np.union1d(first, hull.frame))
            if direction is not None:
                won[row] = direction
            elif support is not None:
                mixed[row] = support
            else:
                unsure.append(row)
    winners, lower = np.array(list(won), dtype=np.intp), np.zeros(len(won))
    if won:
        lower = margins(place.points, place.sizes, winners, place.metric.queries(np.array(list(won.values()))))
    unsure += winners[lower <= 0].tolist()
    full = np.array([row for row, support in mixed.items() if len(support) == place.cone.shape[1]], dtype=np.intp)
    blocked = full[_inside(place, full, [mixed[row] for row in full.tolist()])]
    for row in blocked.tolist():
        del mixed[row]
    left = {**mixed, **{row: [] for row in unsure}}
    return Found(winners[lower > 0], lower[lower > 0], blocked, left, hull.rows[len(known) :].tolist())


def _settled(hull: _Hull, row: int, working: np.ndarray) -> tuple[np.ndarray | None, list[int] | None]:
    """Compare a key with ever more vertices until it beats all keys or is a mixture; neither if floats contradict it."""
    while True:
        direction, support = hull.compare(row, working)
        if direction is None:
            return None, support
        scores = hull.place.cone[:, :-1] @ direction
        own, scores[row] = scores[row], -np.inf
        rival = int(scores.argmax())
        if scores[rival] < own:
            if hull.where[row] < 0:
                hull.add(row)
            return direction, None
        if hull.where[rival] >= 0 or support is None:
            return None, None
        hull.add(rival)
        working = np.append(hull.where[support], hull.where[rival])


def _inside(place: Field, rows: Int[np.ndarray, " m"], supports: Sequence[Sequence[int]]) -> Bool[np.ndarray, " m"]:
    """Prove keys to lie inside simplices of d + 1 others, by Krawczyk's interval test on the weights, a few at a time."""
    proved = np.zeros(len(rows), dtype=bool)
    size = max(1, 2**20 // place.cone.shape[1] ** 2)
    for start in range(0, len(rows), size):
        chosen = np.array(supports[start : start + size], dtype=np.intp)
        others = scaled(place.keys[chosen], place.shift)
        own = scaled(place.keys[rows[start : start + size]], place.shift)
        with np.errstate(all="ignore"):  # what is singular or overflows compares as not proved
            proved[start : start + size] = _krawczyk(np.swapaxes(others - own[:, None], 1, 2))
        proved[start : start + size] &= ~(chosen == rows[start : start + size, None]).any(axis=1)
    return proved


def _krawczyk(differences: Float[np.ndarray, "m d s"]) -> Bool[np.ndarray, " m"]:
    """Say for which columns of differences, each within a unit of rounding, zero is provably a mixture with positive weights.

    With A the columns and a row of ones, R nearly its inverse and x nearly the weights: if |I - R A| < 1 then A has an
    inverse and the weights are within |R| |b - A x| / (1 - |I - R A|) of x. Every rounding is added to both.
    """
    count, width, terms = differences.shape
    largest = np.abs(differences).max(axis=(1, 2))
    fine = largest > 1e-100
    system = np.ones((count, terms, terms))
    # Powers of two, so that nothing is rounded.
    system[:, :width] = differences / np.where(fine, 2.0 ** np.ceil(np.log2(largest)), 1.0)[:, None, None]
    off = UNIT * np.abs(system) * 1.01 + 1e-190
    off[:, width] = 0.0
    inverse = _inverses(system)
    weights = inverse[:, :, width]
    wanted = np.zeros((count, terms))
    wanted[:, width] = 1.0
    weights = weights + _times(inverse, wanted - _times(system, weights))
    slack = 1.01 * (terms + 4) * UNIT
    size, turned = np.abs(system), np.abs(inverse)
    rest = np.abs(wanted - _times(system, weights)) + _times(slack * size + off, np.abs(weights)) * (1 + 1e-9) + slack * wanted
    away = np.abs(np.eye(terms) - inverse @ system) + (turned @ (slack * size + off)) * (1 + 1e-9) + slack * np.eye(terms)
    contraction = away.sum(axis=2).max(axis=1) * (1 + 1e-9)
    error = _times(turned, rest).max(axis=1) / (1 - np.minimum(contraction, 0.9)) * (1 + 1e-9) + 1e-150
    return np.asarray(fine & (contraction < 0.9) & (weights.min(axis=1) > error))


def _times(matrices: Float[np.ndarray, "m r c"], vectors: Float[np.ndarray, "m c"]) -> Float[np.ndarray, "m r"]:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _inverses(matrices: Float[np.ndarray, "m s s"]) -> Float[np.ndarray, "m s s"]:
    """Invert each matrix; zeros for those that are singular."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        half = len(matrices) // 2
        if not half:
            return np.zeros_like(matrices)
        return np.concatenate([_inverses(matrices[:half]), _inverses(matrices[half:])])


def exactly(place: Field, task: tuple[list[tuple[int, list[int]]], float]) -> list[tuple[int, int, float]]:
    """Decide keys in exact arithmetic until the deadline: row, 1, -1 or 0 for neither, and margin per unit of length."""
    found = []
    suspects, deadline = task
    for row, support in suspects:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        if support and row not in support and _mixes(place.keys, row, support):
            found.append((row, -1, 0.0))
            continue
        answer = separate(contest(place.keys, [row]).question, seconds=left)
        if isinstance(answer, Separation):
            found.append((row, 1, float(answer.margin)))
        elif isinstance(answer, Mixture):
            found.append((row, -1, 0.0))
    return found


def _mixes(keys: Float[np.ndarray, "n d"], row: int, support: list[int]) -> bool:
    """Say whether one exact linear system gives weights that mix the support to the key."""
    own, *others = exact.integers(keys[[row, *support]])
    width = keys.shape[1]
    differences = fmpz_mat(len(others), width, [a - b for other in others for a, b in zip(own, other, strict=True)])
    return exact.mixture(support, differences, fmpz_mat(0, width, [])) is not None


def measured(keys: Float[np.ndarray, "n d"], rows: list[int]) -> list[tuple[int, float, float, float]]:
    """Return row, distance to the hull of the others, and proved bounds below and above it, all in scaled units."""
    found = []
    for row in rows:
        question = contest(keys, [row]).question
        best = nearest(question.rows)
        if best is None:
            continue
        lower = 0.0
        for direction in (best.point, sharpened(best.point, question.rows[best.support])):
            size = 0.0 if direction is None else float(np.abs(direction).max())
            if direction is not None and size > 0:
                unit = direction / size
                lower = max(lower, float(lower_bounds(question, unit).min() / np.linalg.norm(unit)) * (1 - 1e-12))
        found.append((row, length(best.point), lower, upper_bound(question, best)))
    return found


_HELD: list[Any] = []


def _hold(place: Any) -> None:  # noqa: ANN401  whatever the work looks at
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _HELD[:] = [place]


def _held(work: Callable[[Any, Task], Result], task: Task) -> Result:
    return work(_HELD[0], task)


@contextmanager
def workers_on(place: Any, keys: int, workers: int) -> Iterator[Callable[..., Iterator[Any]]]:  # noqa: ANN401
    """Give a `map` of work(place, task) over tasks: in forked processes if there are many keys to decide, else here."""
    alone = workers == 1 or keys <= _MANY or sys.platform != "linux" or multiprocessing.current_process().daemon
    if alone:
        yield lambda work, tasks: (work(place, task) for task in tasks)
        return
    pool = None
    try:
        with warnings.catch_warnings():
            # Libraries with threads of their own warn of every fork; the children run NumPy, SciPy and FLINT only.
            warnings.simplefilter("ignore")
            pool = multiprocessing.get_context("fork").Pool(workers, _hold, (place,))
        started = pool
        yield lambda work, tasks: started.imap(partial(_held, work), tasks)
    finally:
        if pool is not None:
            pool.terminate()
            pool.join()
