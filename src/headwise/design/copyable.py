"""Which keys can be copied: for every key, whether some query makes it win, each verdict proved."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from headwise.arrays import Array, Given
from headwise.core.blas import one_blas_thread
from headwise.core.rows import check_rows
from headwise.design.certificates import Blocked, Winner
from headwise.design.distinct import distinct
from headwise.design.door import check_count, check_matrix, check_seconds
from headwise.design.face import face_design
from headwise.design.flat import enough_columns, outline, outline_margins
from headwise.design.separate import ROUNDING, power_of_two
from headwise.design.vertices import (
    Field,
    Found,
    exactly,
    measured,
    search,
    workers_on,
)
from headwise.design.witnesses import (
    Seen,
    Tick,
    centred,
    corrected_queries,
    own_queries,
    seen_best,
)
from headwise.errors import check_option
from headwise.shown import MOST_ROWS, Shown, Summary, number

_VERDICTS = ("impossible", "undecided", "possible")
_METHODS = ("none", "duplicate", "float32 bound", "float64 bound", "interval arithmetic", "exact arithmetic")
_DUPLICATE, _FLOAT32, _FLOAT64, _INTERVAL, _EXACT = range(1, 6)
_FEW_KEYS = 2000
_PLANAR = 2
_BLOCK = 512
_TASKS = 8
_SAMPLE = 24


@dataclass(frozen=True, repr=False)
class Copyable(Shown):
    """The verdict on every key.

    Attributes
    ----------
    distances
        ``(k,)``, the distance of each key from the hull of the others, which is the best margin per unit of query length:
        0 where it is impossible to win, NaN where that is undecided, infinite for an only key.
    distance_errors
        ``(k,)``, bound on the error of each distance; infinite where the distance is only a proved lower bound.
    distance
        "exact" or "bound": what the distances are.
    reason
        One sentence on what was left undecided and why; "interrupted" after Ctrl-C.
    """

    keys: Float[np.ndarray, "k d"]
    codes: Int8[np.ndarray, " k"]
    methods: Int8[np.ndarray, " k"]
    distances: Float[np.ndarray, " k"]
    distance_errors: Float[np.ndarray, " k"]
    distance: str
    reason: str

    @property
    def verdicts(self) -> np.ndarray:
        """Verdicts as words, "possible", "impossible" or "undecided"."""
        return np.asarray(np.array(_VERDICTS)[self.codes + 1])

    @property
    def possible(self) -> Bool[np.ndarray, " k"]:
        """Which keys some query lets win."""
        return self.codes > 0

    @property
    def impossible(self) -> Bool[np.ndarray, " k"]:
        """Which keys no query lets win."""
        return self.codes < 0

    @property
    def undecided(self) -> Bool[np.ndarray, " k"]:
        """Which keys are left open."""
        return np.asarray(self.codes == 0)

    @property
    def how(self) -> np.ndarray:
        """How every key was decided: "duplicate", "float32 bound", ..., or "none"."""
        return np.asarray(np.array(_METHODS)[self.methods])

    @property
    def rounding_only(self) -> Bool[np.ndarray, " k"]:
        """Which winners have a distance that is known and below 1e-12 of the keys' size."""
        with np.errstate(invalid="ignore"):
            below = self.distances + self.distance_errors < ROUNDING * float(np.abs(self.keys - self.keys[0]).max())
        return self.possible & below

    @property
    def table(self) -> Float[np.ndarray, "k 3"]:
        """One row per key: 1, -1 or 0 for possible, impossible or undecided, the distance and its error."""
        return np.column_stack([self.codes, self.distances, self.distance_errors])

    def certificate(self, row: int, *, seconds: float = 20.0) -> Winner | Blocked | None:
        """Decide one key again, alone, and return the proof that anyone can check; None if it is undecided."""
        (chosen,) = check_rows("certificate", [row], len(self.keys), "row").tolist()
        proof = face_design("copy", self.keys, [chosen], 1e-3, values=None, seconds=seconds).certificate
        return proof if isinstance(proof, (Winner, Blocked)) else None

    def verify(self, rows: Iterable[int] | Given = None) -> bool:
        """Check the certificates of some keys, or of all that are decided, in exact arithmetic, and that they say the same.

        Every key is decided again alone, which takes milliseconds each, more for wide keys: name some of a large set.
        """
        chosen = np.flatnonzero(self.codes) if rows is None else check_rows("verify", rows, len(self.keys), "rows")
        kinds = {1: Winner, -1: Blocked}
        proofs = ((self.certificate(int(row)), kinds.get(int(self.codes[row]))) for row in chosen)
        return all(
            proof is not None and kind is not None and isinstance(proof, kind) and proof.check() for proof, kind in proofs
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the keys as plain data."""
        return {
            "kind": "copyable",
            "possible": int(self.possible.sum()),
            "impossible": int(self.impossible.sum()),
            "undecided": int(self.undecided.sum()),
            "verdicts": self.verdicts.tolist(),
            "how": self.how.tolist(),
            "distance": self.distance,
            "distances": self.distances.tolist(),
            "distance_errors": self.distance_errors.tolist(),
            "reason": self.reason,
        }

    def summary(self) -> Summary:
        """Count the verdicts, say how they were reached, and name the keys that come closest to losing."""
        rows = []
        for code, verdict in enumerate(_VERDICTS, -1):
            chosen = self.codes == code
            ways = Counter(self.how[chosen].tolist()) if code else Counter()
            if chosen.any():
                rows.append([verdict, str(chosen.sum()), ", ".join(f"{way} {count}" for way, count in ways.most_common())])
        winners = np.flatnonzero(self.possible)
        close = winners[np.argsort(self.distances[winners], kind="stable")[: MOST_ROWS // 2]]
        what = "smallest distances" if self.distance == "exact" else "smallest distances, at least"
        named = ", ".join(f"key {row}: {number(self.distances[row])}" for row in close)
        slight = int(self.rounding_only.sum())
        notes = [self.reason, *([f"{what}: {named}"] if named else [])]
        notes += [f"{slight} of the winners win by rounding only"] if slight else []
        title = f"copyable: {self.possible.sum()} of {len(self.codes)} keys"
        return Summary(title, ["verdict", "keys", "decided by"], rows, notes)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        counts = ", ".join(f"{(self.codes == code).sum()} {verdict}" for code, verdict in ((1, "possible"), (-1, "impossible")))
        return f"<Copyable: {counts}, {self.undecided.sum()} undecided>"


def copyable(
    keys: Float[Array, "k d"] | Given,
    *,
    distance: str = "auto",
    seconds: float = 20.0,
    workers: int = 2,
    progress: Callable[[int, int, str], object] | None = None,
) -> Copyable:
    """Find out for every key whether some query makes it win strictly: whether it is a vertex of the hull of all keys.

    Every verdict is proved. What neither floats nor exact arithmetic settle in the time given is "undecided".

    Parameters
    ----------
    keys
        ``(k, d)``.
    distance
        "exact" finds the distance of every key from the hull of the others, "bound" gives what the proofs give: a lower
        bound. "auto" is "exact" up to 2000 keys.
    seconds
        How long exact arithmetic may take, for all keys together, before the rest is "undecided".
    workers
        How many threads, or processes where many keys are left to exact search. The verdicts do not depend on it.
    progress
        Called with the keys done, the keys to do and the name of the stage. Ctrl-C ends early, with the verdicts so far.

    Examples
    --------
    >>> found = copyable([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.5, 0.5], [2.0, 0.0]])
    >>> found.verdicts.tolist()
    ['possible', 'impossible', 'possible', 'impossible', 'impossible']
    >>> found
    <Copyable: 2 possible, 3 impossible, 0 undecided>
    >>> found.distances[0].round(6), found.certificate(3).describe()
    (np.float64(0.707107), 'key 3 is a mixture of keys 0, 1, 2, so under every query one of them scores at least as high')
    """
    given = check_matrix("copyable", "keys", keys, "(k, d)")
    check_option("copyable", "distance", distance, ("auto", "exact", "bound"))
    threads = check_count("copyable", "workers", workers)
    check_seconds("copyable", seconds)
    kind = ("exact" if len(given) <= _FEW_KEYS else "bound") if distance == "auto" else distance
    codes, methods = np.zeros((2, len(given)), dtype=np.int8)
    distances, errors = np.full((2, len(given)), np.nan)
    reason = ""
    run = None
    with one_blas_thread(), np.errstate(under="ignore"):
        try:
            rows, repeated = distinct(given, threads)
            codes[repeated], methods[repeated] = -1, _DUPLICATE
            run = _Run.on(given if len(rows) == len(given) else given[rows], codes[rows], seconds, threads, progress)
            run.decide()
            if kind == "exact":
                run.measure()
        except KeyboardInterrupt:
            reason = "interrupted"
    if run is not None:
        alone = ~repeated[rows]
        chosen = rows[alone]
        codes[chosen], methods[chosen] = run.codes[alone], run.methods[alone]
        distances[chosen], errors[chosen] = run.distances[alone], run.errors[alone]
    distances[codes < 0], errors[codes < 0] = 0.0, 0.0
    distances[codes == 0], errors[codes == 0] = np.nan, np.nan
    if kind == "exact" and not np.isfinite(errors[codes > 0]).all():
        kind = "bound"
    if not reason:
        left = int((codes == 0).sum())
        reason = f"exact arithmetic was not done with {left} keys after {seconds:g} s" if left else "every key is decided"
    return Copyable(given, codes, methods, distances, errors, kind, reason)


@dataclass
class _Run:
    """Distinct keys and what is known of them so far, in arrays that are filled as proofs come in."""

    keys: Float[np.ndarray, "n d"]
    codes: Int8[np.ndarray, " n"]
    methods: Int8[np.ndarray, " n"]
    distances: Float[np.ndarray, " n"]
    errors: Float[np.ndarray, " n"]
    shift: int
    seconds: float
    workers: int
    tick: Tick

    @classmethod
    def on(
        cls,
        keys: np.ndarray,
        codes: np.ndarray,
        seconds: float,
        workers: int,
        progress: Callable[[int, int, str], object] | None,
    ) -> "_Run":
        def tick(done: int, total: int, stage: str) -> None:
            if progress is not None:
                progress(done, total, stage)

        empty = np.zeros(len(keys), dtype=np.int8), np.full(len(keys), np.nan), np.full(len(keys), np.nan)
        return cls(keys, codes.copy(), *empty, power_of_two(keys), seconds, workers, tick)

    def settle(self, rows: np.ndarray, code: int, method: int, lower: np.ndarray | float = 0.0) -> None:
        """Write down a verdict where there is none yet, and the margin proved with it."""
        fresh = self.codes[rows] == 0
        chosen = rows[fresh]
        self.codes[chosen], self.methods[chosen] = code, method
        self.distances[chosen] = self._real(np.broadcast_to(lower, rows.shape)[fresh])
        self.errors[chosen] = np.inf

    def _real(self, lower: np.ndarray) -> np.ndarray:
        """Undo the scaling of lower bounds, never upwards."""
        with np.errstate(over="ignore"):
            real = np.ldexp(np.maximum(lower, 0.0), self.shift)
        return np.asarray(np.minimum(np.nextafter(real, 0.0), np.finfo(np.float64).max))

    def decide(self) -> None:
        """Try the cheap proofs first, then the search, then exact arithmetic."""
        count, width = self.keys.shape
        if count == 1:
            self.settle(np.arange(1), 1, _EXACT)
            self.distances[:], self.errors[:] = np.inf, 0.0
            return
        if width <= _PLANAR:
            ring = outline(self.keys)
            self.settle(np.array(ring), 1, _EXACT, outline_margins(self.keys, self.shift, ring))
            self.settle(np.arange(count), -1, _EXACT)
            return
        points = centred(self.keys, self.shift, self.workers)
        self.tick(0, count, "choosing a metric")
        seen, rate = seen_best(points, self.workers)
        if rate > 0.1:
            lower = own_queries(seen, self.workers, self.tick)
            won = np.flatnonzero(lower > 0)
            self.settle(won, 1, _FLOAT32, lower[won])
        left = np.flatnonzero(self.codes == 0)
        if len(left):
            lower = corrected_queries(seen, points, left, self.workers, self.tick)
            self.settle(left[lower > 0], 1, _FLOAT64, lower[lower > 0])
        if (self.codes == 0).any():
            columns = enough_columns(self.keys, points)
            if columns is None:
                self._search(points, seen)
            else:
                kept = np.ascontiguousarray(self.keys[:, columns])
                shared = self.codes, self.methods, self.distances, self.errors
                _Run(kept, *shared, power_of_two(kept), self.seconds, self.workers, self.tick).decide()

    def _search(self, points: Float[np.ndarray, "n d"], seen: Seen) -> None:
        """Compare the keys left with the vertices found, and what floats cannot decide exactly."""
        count = len(points)
        rng = np.random.default_rng(4)
        place = Field.of(self.keys, self.shift, points, seen.metric)
        left = np.flatnonzero(self.codes == 0)
        everyone, nobody = np.arange(count), np.zeros(0, dtype=np.intp)
        tried = search(place, (everyone, nobody, rng.choice(left, min(_SAMPLE, len(left)), replace=False)))
        self._take(tried)
        suspects = dict(tried.open)
        known, frame = everyone, nobody
        if len(tried.won) <= 0.7 * min(_SAMPLE, len(left)):
            known = np.union1d(np.flatnonzero(self.codes > 0), _extremes(seen, rng))
            frame = _far_apart(place, known)
        left = left[np.argsort(-seen.norms[left], kind="stable")]
        left = left[(self.codes[left] == 0) & ~np.isin(left, list(suspects))]
        with workers_on(place, len(left) + len(suspects), self.workers) as mapped:
            done, size = 0, _BLOCK
            while done < len(left):
                part = left[done : done + size]
                tasks = [(known, frame, part[first::_TASKS]) for first in range(min(_TASKS, len(part)))]
                for found, task in zip(mapped(search, tasks), tasks, strict=True):
                    self._take(found)
                    suspects.update(found.open)
                    known = np.union1d(known, found.vertices).astype(np.intp)
                    done += len(task[2])
                    self.tick(done, len(left), "search")
                size = min(2 * size, 16 * _BLOCK)
            pairs = [(row, suspects[row]) for row in sorted(suspects)]
            deadline = time.monotonic() + self.seconds
            parts = [(pairs[first : first + _TASKS], deadline) for first in range(0, len(pairs), _TASKS)]
            for number_done, answers in enumerate(mapped(exactly, parts), 1):
                for row, code, lower in answers:
                    if code:
                        self.settle(np.array([row]), code, _EXACT, lower)
                self.tick(min(number_done * _TASKS, len(pairs)), len(pairs), "exact arithmetic")

    def _take(self, found: Found) -> None:
        self.settle(found.won, 1, _FLOAT64, found.lower)
        self.settle(found.blocked, -1, _INTERVAL)

    def measure(self) -> None:
        """Find the distance of every key that can win, and keep the better of two lower bounds."""
        winners = np.flatnonzero((self.codes > 0) & (self.distances < np.inf))
        tasks = [winners[first : first + 4 * _TASKS].tolist() for first in range(0, len(winners), 4 * _TASKS)]
        with workers_on(self.keys, len(winners), self.workers) as mapped:
            for done, answers in enumerate(mapped(measured, tasks), 1):
                for row, distance, lower, upper in answers:
                    below = max(float(self.distances[row]), float(self._real(np.array(lower))))
                    with np.errstate(over="ignore"):
                        value, above = np.ldexp([distance, upper], self.shift).tolist()
                    self.distances[row] = max(min(value, np.finfo(np.float64).max), below)
                    self.errors[row] = np.nextafter(max(above - self.distances[row], self.distances[row] - below, 0.0), np.inf)
                self.tick(min(done * 4 * _TASKS, len(winners)), len(winners), "distances")


def _extremes(seen: Seen, rng: np.random.Generator) -> Int[np.ndarray, " e"]:
    """Return the keys that score highest in random directions, as vertices to start with."""
    count, width = seen.rows.shape
    most = min(64 * width, max(2 * width, 10**10 // (count * width)))
    found = [
        (seen.rows @ rng.standard_normal((width, min(256, most - first)), dtype=np.float32)).argmax(axis=0)
        for first in range(0, most, 256)
    ]
    return np.unique(np.concatenate(found))


def _far_apart(place: Field, known: Int[np.ndarray, " e"]) -> Int[np.ndarray, " f"]:
    """Return vertices each of which is far from those before it: a simplex of some of them holds many keys."""
    rows = place.cone[known]
    chosen = [int(np.einsum("ij,ij->i", rows, rows).argmax())]
    gaps = np.full(len(rows), np.inf)
    for _ in range(min(len(known), 2 * (rows.shape[1] - 1), 64) - 1):
        gaps = np.minimum(gaps, np.linalg.norm(rows - rows[chosen[-1]], axis=1))
        chosen.append(int(gaps.argmax()))
    return np.unique(known[chosen])
