"""Row statistics on the CPU with numba: threads take tiles, and compiled loops do a whole tile at once.

Sums of a row are float64, products float32. What a tile does is told in `blocks`.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
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
        fused.tile(tile.own_queries, *given, spans[:, place.entry, place.rows], tile.kept, tile.state, own.space)
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
        torch = task.torch
        self.own_queries = self.queries[0].detach().contiguous().numpy()
        count = len(self.own_queries)
        # Contexts, then sums that the sensitivity needs; none without values.
        products = 0 if task.values is None else 2 if task.sensitivity else 1
        known, singles = np.zeros((count, 7)), np.full((3, count), self.masked, dtype=np.float32)
        known[:, :2] = self.lowest
        top = np.full(count, -1)
        added = np.zeros((products, count, arrays.values.shape[-1]), dtype=np.float32)
        self.state = known, singles, top, added
        peak, second, total, moment, square, gain, spread = (torch.from_numpy(column)[None] for column in known.T)
        self.sums = Sums(peak, second, torch.from_numpy(top)[None], total, moment, square, gain)
        self.singles = [torch.from_numpy(row)[None] for row in singles]
        if products:
            self.context = torch.from_numpy(added[0])[None]
        if products == 2:
            self.spread, self.spread_square = torch.from_numpy(added[1])[None], spread
        self.kept = np.stack([place.numpy() for place in self.single_places])
