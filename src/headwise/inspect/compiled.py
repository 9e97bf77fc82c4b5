"""Row statistics on the CPU with numba: threads take tiles, and compiled loops do a whole tile at once.

Sums of a row are float64, products float32. What a tile does is told in `blocks`.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from headwise.arrays import Array
from headwise.core.blas import one_blas_thread
from headwise.inspect.blocks import Found, Place, Sums, Tile, places
from headwise.inspect.ranges import tables
from headwise.inspect.task import Rows, Task

# Queries of one tile.
_HEIGHT = 384
# Rows that are summed up again together, and from which ratio of sums to their difference on.
_TOGETHER, _CANCELLED = 128, 16
# Fewer scores than these are found before the loops are compiled or read from their cache.
WORTH = 1 << 22


def rows(task: Task) -> Rows | None:
    """Return the statistics of every query, or None where these loops are not made for a task, or not worth starting."""
    found = _spans(task)
    return None if found is None else _found(task, found)


def _spans(task: Task) -> np.ndarray | None:
    """Return the range of keys of each query of each batch entry, (2, b, q), if all the rest fits."""
    batch, heads, queries, _ = task.queries.shape
    if (
        task.queries.device.type != "cpu"
        or task.dtype != task.torch.float32
        or task.softcap is not None
        or batch * heads * queries * task.keys.shape[2] < WORTH
        or find_spec("numba") is None
    ):
        return None
    found = tables(task.rule, batch, task.torch)
    return None if found is None else np.stack([one.numpy() for one in found[:2]]).astype(np.int64)


def _found(task: Task, spans: np.ndarray) -> Rows:
    from headwise.inspect import fused  # noqa: PLC0415  compiles on first use

    found, arrays, own = Found(task), _Arrays(task), threading.local()

    def work(place: Place) -> int:
        if not hasattr(own, "space"):
            own.space = np.empty(2 * fused.HEIGHT * fused.WIDTH, dtype=np.float32)
        tile = _CompiledTile(task, place, arrays)
        at = place.entry, place.groups.start
        given = arrays.keys[at], arrays.values[at], arrays.lengths[at]
        some = spans[:, place.entry, place.rows]
        fused.tile(tile.own_queries, *given, some, tile.kept, tile.state, own.space)
        tile.complete(*given[:2], some)
        return found.put(tile)

    done, total = 0, task.queries.shape[:3].numel()
    with one_blas_thread(), ThreadPoolExecutor(task.torch.get_num_threads()) as pool:
        # The last queries of causal heads have most to do: first come first.
        waiting: list[Future[int]] = [pool.submit(work, place) for place in reversed([*places(task, _HEIGHT, 1)])]
        try:
            for future in as_completed(waiting):
                done += future.result()
                if task.tick is not None:
                    task.tick(done, total)
        except BaseException:  # Ctrl-C as well
            pool.shutdown(cancel_futures=True)
            raise
    return found.rows()


class _Arrays:
    """Keys, values and their squared lengths as NumPy sees them; values of no width if there are none."""

    def __init__(self, task: Task) -> None:
        self.keys = _seen(task.keys, task.dtype)
        shape = self.keys.shape[:3]
        self.values = np.zeros((*shape, 0), dtype=np.float32) if task.values is None else _seen(task.values, task.dtype)
        self.lengths = np.zeros(shape, dtype=np.float32)
        if task.sensitivity:
            np.einsum("bgkv,bgkv->bgk", self.values, self.values, out=self.lengths)


def _seen(array: Array, dtype: Any) -> np.ndarray:  # noqa: ANN401  a torch dtype
    found: np.ndarray = array.detach().to(dtype).contiguous().numpy()
    return found


class _CompiledTile(Tile):
    """Some queries of one group of heads."""

    def __init__(self, task: Task, place: Place, arrays: _Arrays) -> None:
        super().__init__(task, place)
        self.own_queries = self.queries[0].detach().contiguous().numpy()
        count = len(self.own_queries)
        # Contexts, then sums that the sensitivity needs; none without values.
        products = 0 if task.values is None else 2 if task.sensitivity else 1
        known, singles = np.zeros((count, 7)), np.full((3, count), self.masked, dtype=np.float32)
        known[:, :2] = self.lowest
        added = np.zeros((products, count, arrays.values.shape[-1]), dtype=np.float32)
        self.state = known, singles, np.full(count, -1), added
        self.kept = np.stack([place.numpy() for place in self.single_places])

    def complete(self, keys: np.ndarray, values: np.ndarray, spans: np.ndarray) -> None:
        """Add the top keys, which the loops leave out of all sums, and show the sums as tensors."""
        torch, (known, singles, top, added) = self.task.torch, self.state
        seen = top >= 0
        peak = np.where(seen, known[:, 0], 0.0)
        if len(added) == 2:
            self._others = _Others(keys, values, spans, known.copy(), top, added)
        known[:, 2] += seen
        known[:, 4] += seen
        known[:, 5] += peak * peak
        if len(added):
            self.context = torch.from_numpy(added[0] + seen[:, None] * values[top])[None]
        best, second, total, moment, square, gain, _ = (torch.from_numpy(column)[None] for column in known.T)
        self.sums = Sums(best, second, torch.from_numpy(top)[None], total, moment, square, gain)
        self.singles = [torch.from_numpy(row)[None] for row in singles]

    def sensitivity(self, share: Array, sink: Array) -> Array:
        """Return the sensitivity, from what the top key and all others add."""
        found = self._others.sensitivity(self.own_queries, share[0].double().numpy(), sink[0].double().numpy())
        return self.task.torch.from_numpy(found)[None]


@dataclass(frozen=True)
class _Others:
    """What the loops found of all keys but the top ones, and what they were given."""

    keys: np.ndarray
    values: np.ndarray
    spans: np.ndarray
    known: np.ndarray
    top: np.ndarray
    added: np.ndarray

    def sensitivity(self, queries: np.ndarray, share: np.ndarray, sink: np.ndarray) -> np.ndarray:
        """Return the sensitivity; `share` is the top key's weight, `sink` that of the sink."""
        from headwise.inspect import fused  # noqa: PLC0415  compiles on first use

        found, plain = fused.sensitivities(self.values, self.known, self.top, self.added, share, sink)
        # Other values near the context cancel in float32: such rows are summed up again.
        again = np.flatnonzero(plain > _CANCELLED * found)
        for start in range(0, len(again), _TOGETHER):
            some = again[start : start + _TOGETHER]
            found[some] = self.again(queries[some], some, 1 - sink[some])
        return np.maximum(found, 0.0)

    def again(self, queries: np.ndarray, rows: np.ndarray, real: np.ndarray) -> np.ndarray:
        """Return the sensitivity of some rows from sums in float64; `real` is the weight that no sink takes."""
        from headwise.inspect import fused  # noqa: PLC0415  compiles on first use

        width, spans = self.values.shape[1], self.spans[:, rows % self.spans.shape[1]]
        out, values = np.zeros((len(rows), 3 + 2 * width)), self.values.astype(np.float64)
        fused.noise(queries, self.keys, values, spans, self.known[rows, 0], out)
        share = real / out[:, 0]
        middle = share[:, None] * out[:, 3 : 3 + width]
        found = out[:, 2] - 2 * (middle * out[:, 3 + width :]).sum(-1) + (middle * middle).sum(-1) * out[:, 1]
        return share**2 * found
