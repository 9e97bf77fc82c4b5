"""Queries that show of many keys at once that they can win, each with a margin bounded from below.

The first query tried for a key is the key itself, seen from the mean and through a metric: whether a key can win does not
change under a linear map, so the map is free to choose. Products are in float32, and only as many coordinates as a sample
asks for are multiplied; the rest enters by its length. Keys left over get their query corrected a few times. Nothing here
says of a key that it cannot win.

The bounds hold for IEEE arithmetic in any order of summation, not for the shortened products of an accelerator.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from headwise.design.separate import UNIT, scaled

UNIT32 = 2.0**-24
# What a float32 below the normal range may be off by, also where it is flushed to zero.
_TINY32 = 1.2e-38
# Keys are scaled to size 1: what underflow may take from a coordinate then is far below this.
TINY = 1e-300
_BLOCK = 512
_SAMPLE = 256
_CORRECTIONS = 8

Tick = Callable[[int, int, str], None]
Result = TypeVar("Result")


def over_blocks(work: Callable[[int], Result], count: int, block: int, workers: int) -> Iterator[Result]:
    """Do the work for the first row of every block, in threads, and give back the results in order."""
    starts = range(0, count, block)
    if workers == 1 or len(starts) == 1:
        yield from map(work, starts)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(work, starts)
    finally:
        pool.shutdown(cancel_futures=True)


def centred(keys: Float[np.ndarray, "k d"], shift: int, workers: int) -> Float[np.ndarray, "k d"]:
    """Return scaled keys minus their mean: one rounding per entry, whatever the rounding of the mean."""

    def total(start: int) -> np.ndarray:
        return np.asarray(scaled(keys[start : start + _BLOCK], shift).sum(axis=0))

    points = np.empty(keys.shape)
    mean = sum(over_blocks(total, len(keys), _BLOCK, workers), np.zeros(keys.shape[1])) / len(keys)

    def move(start: int) -> None:
        np.subtract(scaled(keys[start : start + _BLOCK], shift), mean, out=points[start : start + _BLOCK])

    for _ in over_blocks(move, len(keys), _BLOCK, workers):
        pass
    return points


def lengths(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """Return the lengths of rows, summed in float64 and a block at a time."""
    blocks = (rows[start : start + _BLOCK].astype(np.float64) for start in range(0, len(rows), _BLOCK))
    return np.concatenate([np.zeros(0), *(np.sqrt(np.einsum("ij,ij->i", block, block)) for block in blocks)])


@dataclass(frozen=True)
class Metric:
    """A linear map: the one matrix, or a number for all coordinates."""

    scale: float
    matrix: Float[np.ndarray, "d d"] | None = None

    def seen(self, points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map points."""
        return points * self.scale if self.matrix is None else points @ self.matrix.T

    def queries(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Map queries back: their products with the points are those of `rows` with what is seen."""
        return rows * self.scale if self.matrix is None else rows @ self.matrix

    @property
    def rounding(self) -> float:
        """Bound on |seen point - its exact value| in float64, per unit of length of the point."""
        if self.matrix is None:
            return 2 * UNIT * self.scale
        return (len(self.matrix) + 8) * UNIT * 1.01 * float(np.linalg.norm(self.matrix))

    @classmethod
    def plain(cls, points: Float[np.ndarray, "n d"]) -> "Metric":
        """Scale to entries of size about 1."""
        size = float(lengths(points).max()) / np.sqrt(points.shape[1])
        return cls(2.0 ** -np.round(np.log2(size)) if size > TINY else 1.0)

    @classmethod
    def white(cls, points: Float[np.ndarray, "n d"]) -> "Metric":
        """Give a sample of the points the same spread in all directions."""
        sample = points[:: -(-len(points) // (8 * _BLOCK))]
        spreads, axes = np.linalg.eigh(sample.T @ sample / len(sample))
        return cls(1.0, (axes / np.sqrt(np.maximum(spreads, spreads[-1] * 1e-12 + TINY))).T)


@dataclass(frozen=True)
class Seen:
    """The points through a metric in float32; row i is within `slip` + 1.01 UNIT32 norms[i] of the exact value."""

    metric: Metric
    rows: Float32[np.ndarray, "n d"]
    norms: Float[np.ndarray, " n"]
    slip: float

    @classmethod
    def through(cls, metric: Metric, points: Float[np.ndarray, "n d"], sizes: np.ndarray, workers: int) -> "Seen":
        """Map the points."""
        rows = np.empty(points.shape, dtype=np.float32)

        def fill(start: int) -> None:
            rows[start : start + _BLOCK] = metric.seen(points[start : start + _BLOCK])

        for _ in over_blocks(fill, len(points), _BLOCK, workers):
            pass
        width = points.shape[1]
        slip = metric.rounding * float(sizes.max()) + (metric.rounding / UNIT) * width * TINY + width * _TINY32
        return cls(metric, rows, lengths(rows), slip)

    def rate(self) -> float:
        """Guess from a sample which part of the keys win under themselves as query."""
        chosen = np.random.default_rng(0).choice(len(self.rows), min(_SAMPLE, len(self.rows)), replace=False)
        scores = self.rows[chosen] @ self.rows.T
        places = np.arange(len(chosen))
        own = scores[places, chosen].copy()
        scores[places, chosen] = -np.inf
        return float((scores.max(axis=1) < own).mean())


def seen_best(points: Float[np.ndarray, "n d"], workers: int) -> tuple[Seen, float]:
    """Choose the metric through which more keys of a sample win; plain scaling if both do well."""
    sizes = lengths(points)
    plain = Seen.through(Metric.plain(points), points, sizes, workers)
    rate = plain.rate()
    if rate >= 0.98:
        return plain, rate
    white = Seen.through(Metric.white(points), points, sizes, workers)
    other = white.rate()
    return (white, other) if other > rate else (plain, rate)


def own_queries(seen: Seen, workers: int, tick: Tick) -> Float[np.ndarray, " n"]:
    """Bound every key's margin under itself as query, per unit of the query's length; no more than 0 where it fails."""
    count, width = seen.rows.shape
    shortened = _coordinates(seen)
    lower = np.empty(count)
    short = _shortened(seen, shortened)
    top = np.full(count, -np.inf, dtype=np.float32)
    for done, (start, found) in enumerate(over_blocks(lambda start: (start, _tops(short, start)), count, _BLOCK, workers), 1):
        np.maximum(top[start:], found, out=top[start:])
        tick(min(done * _BLOCK, count), count, "float32 witnesses")
    everyone = np.arange(count)
    lower[:] = _per_length(seen, everyone, top, short.shape[1], workers)
    left = np.flatnonzero(lower <= 0)
    if shortened == width or not len(left):
        return lower
    short = _shortened(seen, width)

    def retry(start: int) -> Float32[np.ndarray, " m"]:
        rows = left[start : start + _BLOCK]
        best = np.full(len(rows), -np.inf, dtype=np.float32)
        for first in range(0, count, _BLOCK):
            products = short[rows] @ short[first : first + _BLOCK].T
            same = np.flatnonzero((rows >= first) & (rows < first + _BLOCK))
            products[same, rows[same] - first] = -np.inf
            np.maximum(best, products.max(axis=1), out=best)
        return best

    top = np.concatenate(list(over_blocks(retry, len(left), _BLOCK, workers)))
    lower[left] = _per_length(seen, left, top, short.shape[1], workers)
    return lower


def _coordinates(seen: Seen) -> int:
    """Choose how many coordinates to multiply, by trying a few keys against the longest; no proof depends on it."""
    count, width = len(seen.rows), int(seen.rows.shape[1])
    if width <= 128 or count < 4000:
        return width
    chosen = np.random.default_rng(1).choice(count, 64, replace=False)
    rivals = np.argpartition(-seen.norms, min(8192, count) - 1)[:8192]
    best = (float(width), width)
    for part in (width // 8, width // 6, width // 4, width // 3, width // 2):
        tails = [
            np.sqrt(np.maximum(seen.norms[rows] ** 2 - lengths(seen.rows[rows, :part]) ** 2, 0)) for rows in (chosen, rivals)
        ]
        scores = seen.rows[chosen, :part] @ seen.rows[rivals, :part].T + np.outer(*tails)
        scores[chosen[:, None] == rivals] = -np.inf
        missed = float((scores.max(axis=1) * (1 + 1e-4) >= seen.norms[chosen] ** 2).mean())
        best = min(best, (part + missed * 2 * width, part))
    return best[1]


def _shortened(seen: Seen, width: int) -> Float32[np.ndarray, "n m"]:
    """Return rows whose float32 products are never below the true products of the rows seen, apart from `slip`.

    Some coordinates as they are; the length of the others, which bounds their product by Cauchy and Schwarz; and the
    length of the row times a factor whose square covers the rounding of the product and of the row.
    """
    count, full = seen.rows.shape
    tail = width < full
    short = np.empty((count, width + tail + 1), dtype=np.float32)
    short[:, :width] = seen.rows[:, :width]
    if tail:
        short[:, width] = np.nextafter((lengths(seen.rows[:, width:]) * (1 + 1e-6)).astype(np.float32), np.float32(np.inf))
    factor = np.sqrt(1.05 * (short.shape[1] + 8) * UNIT32)
    short[:, -1] = np.nextafter((seen.norms * (factor * (1 + 1e-6))).astype(np.float32), np.float32(np.inf))
    return short


def _tops(short: Float32[np.ndarray, "n m"], start: int) -> Float32[np.ndarray, " r"]:
    """Return, from `start` on, the largest product of a row with a row of this block or, in the block, of any later one."""
    rows = short[start : start + _BLOCK]
    top = np.full(len(short) - start, -np.inf, dtype=np.float32)
    space = np.empty(_BLOCK * _BLOCK, dtype=np.float32)
    for first in range(start, len(short), _BLOCK):
        others = short[first : first + _BLOCK]
        products = space[: len(rows) * len(others)].reshape(len(rows), len(others))
        np.matmul(rows, others.T, out=products)
        if first == start:
            np.fill_diagonal(products, -np.inf)
        place = slice(first - start, first - start + len(others))
        np.maximum(top[: len(rows)], products.max(axis=1), out=top[: len(rows)])
        np.maximum(top[place], products.max(axis=0), out=top[place])
    return top


def _per_length(
    seen: Seen, rows: Int[np.ndarray, " m"], top: Float32[np.ndarray, " m"], terms: int, workers: int
) -> Float[np.ndarray, " m"]:
    """Turn largest products into margins per unit of length of the query; -inf where there is no query."""
    norms = seen.norms[rows]
    # The query is exactly what float32 holds; what it scores on its own key is off by the rounding of that row.
    own = norms**2 * (1 - 1e-9) - norms * (1.02 * UNIT32 * norms + seen.slip)
    margin = own - top.astype(np.float64) - norms * seen.slip * (1 + 1e-6) - 4 * terms * _TINY32
    if seen.metric.matrix is None:
        sizes = norms * seen.metric.scale
    else:
        metric = seen.metric
        parts = over_blocks(
            lambda start: lengths(metric.queries(seen.rows[rows[start : start + _BLOCK]].astype(np.float64))),
            len(rows),
            _BLOCK,
            workers,
        )
        sizes = np.concatenate([np.zeros(0), *parts])
    return _divided(margin - 1e-9 * np.abs(margin), sizes)


def _divided(margin: Float[np.ndarray, " n"], sizes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    return np.where((sizes > 0) & np.isfinite(margin), margin / np.where(sizes > 0, sizes, 1.0), -np.inf)


def corrected_queries(
    seen: Seen, points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, " m"], workers: int, tick: Tick
) -> Float[np.ndarray, " m"]:
    """Correct the queries of some keys towards their strongest rival, and bound the margins of those that come to win.

    Tries a sample first, and gives up on all of them if few of it succeed.
    """
    few = np.random.default_rng(2).choice(rows, min(_SAMPLE // 2, len(rows)), replace=False)
    if _corrected(seen, few)[1].mean() <= 0.3:
        return np.full(len(rows), -np.inf)
    sizes, block = lengths(points), _BLOCK // 2

    def work(start: int) -> Float[np.ndarray, " b"]:
        chosen = rows[start : start + block]
        queries, done = _corrected(seen, chosen)
        lower = np.full(len(chosen), -np.inf)
        lower[done] = margins(points, sizes, chosen[done], seen.metric.queries(queries[done].astype(np.float64)))
        return lower

    found = []
    for part in over_blocks(work, len(rows), block, workers):
        found.append(part)
        tick(min(len(found) * block, len(rows)), len(rows), "corrected queries")
    return np.concatenate(found)


def _corrected(seen: Seen, rows: Int[np.ndarray, " m"]) -> tuple[Float32[np.ndarray, "m d"], Bool[np.ndarray, " m"]]:
    """Return queries and which of them seem to win; each step makes the key beat its strongest rival by a little."""
    queries = seen.rows[rows]
    live = np.arange(len(rows))
    for _ in range(_CORRECTIONS + 1):
        places = np.arange(len(live))
        scores = queries[live] @ seen.rows.T
        own = scores[places, rows[live]].copy()
        scores[places, rows[live]] = -np.inf
        rivals = scores.argmax(axis=1)
        behind = own - scores[places, rivals] <= 1e-5 * np.abs(own)
        live, rivals = live[behind], rivals[behind]
        if not len(live):
            break
        steps = seen.rows[rows[live]] - seen.rows[rivals]
        squares = np.einsum("ij,ij->i", steps, steps) + np.float32(1e-30)
        moved = np.float32(0.02) - np.einsum("ij,ij->i", steps, queries[live]) / squares
        queries[live] += steps * moved[:, None]
    won = np.ones(len(rows), dtype=bool)
    won[live] = False
    return queries, won & np.isfinite(queries).all(axis=1)


def margins(
    points: Float[np.ndarray, "n d"],
    sizes: Float[np.ndarray, " n"],
    rows: Int[np.ndarray, " m"],
    queries: Float[np.ndarray, "m d"],
) -> Float[np.ndarray, " m"]:
    """Bound the margins of keys under given queries from below, in float64 and per unit of length; `sizes` are lengths."""
    width, block = points.shape[1], _BLOCK // 2
    terms = 1.02 * (width + 8) * UNIT
    lower = np.full(len(rows), -np.inf)
    for start in range(0, len(rows), block):
        chosen = rows[start : start + block]
        given = queries[start : start + block]
        largest = np.abs(given).max(axis=1, keepdims=True)
        given = given / np.where(largest > 0, largest, 1.0)
        size = lengths(given) * (1 + 1e-9)
        places = np.arange(len(chosen))
        scores = given @ points.T
        own = scores[places, chosen] - terms * size * sizes[chosen]
        scores += (terms * size)[:, None] * sizes
        scores[places, chosen] = -np.inf
        best = scores.max(axis=1)
        margin = own - best - 4 * UNIT * (np.abs(own) + np.abs(best)) - width * TINY
        lower[start : start + block] = _divided(margin - 1e-9 * np.abs(margin), size)
    return lower
