"""Starting the GPU programs: what they can take, the shape of their tiles, and their answers as rows."""

from dataclasses import dataclass
from typing import Any

import triton
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

from headwise.arrays import Array
from headwise.inspect.gpu import contexts, lengths
from headwise.inspect.gpu import rows as plain_rows
from headwise.inspect.ranges import tables
from headwise.inspect.task import Rows, Task

# Keys of one lane that are compared together; the best such chunk is looked at again for the top key.
CHUNK = 8
# Bytes of keys, or of keys and values, of heads that run together, so that the second-level cache holds them.
_CACHE, _CACHE_BOTH = 16 << 20, 8 << 20
# Coordinates that a warp reads at a time when best chunks are looked at again, at most so many of one row.
_AGAIN, _AGAIN_WIDE = 256, 64
# A product and a sum may be one instruction: Triton 3.9 warns, and later releases make two of them, unless told so.
_FUSED = {"enable_fp_fusion": True}
# Rows that are read at a time where nothing else is done with them.
_READ = 128
# Tiles that one program looks after that may have to do them again.
_WATCHED = 8
# Rows that a grid holds, whose second axis counts tiles of 64 of them.
_MOST = 65535 * 64
# By head width: rows, keys, warps, stages, registers a thread. Measured on one H200.
_ROWS = {32: (128, 128, 8, 3, 128), 64: (128, 128, 8, 3, 128), 128: (128, 128, 8, 2, 128), 256: (128, 64, 8, 3, None)}
_CONTEXT = {32: (128, 64, 8, 3, None), 64: (128, 64, 8, 3, None), 128: (128, 64, 8, 3, None), 256: (128, 64, 8, 2, None)}
_NOISE = {32: (64, 64, 4, 3, 168), 64: (64, 64, 4, 3, 168), 128: (64, 64, 4, 2, None), 256: (64, 64, 8, 2, None)}
_SINGLE = (64, 32, 4, 2, None)  # float32 needs twice the room


@dataclass(frozen=True)
class _Ready:
    """What all programs of one call share."""

    task: Task
    queries: Array
    keys: Array
    values: Array | None
    first: Array  # (b, q)
    last: Array  # (b, q)
    text: Array  # (b, q), the first key of the query's text

    @property
    def width(self) -> int:
        return int(self.queries.shape[-1])

    @property
    def tile(self) -> tuple[int, int, int, int, int | None]:
        """Return rows, keys, warps, stages and registers of the main program."""
        if self.queries.dtype == self.task.torch.float32:
            return _SINGLE
        if self.values is not None:
            return (_NOISE if self.task.sensitivity else _CONTEXT)[self.width]
        return _ROWS[self.width]

    @property
    def precision(self) -> str:
        return "ieee" if self.queries.dtype == self.task.torch.float32 else "tf32"

    @property
    def cap(self) -> float:
        """The soft cap in units of raw scores."""
        return 1.0 if self.task.softcap is None else self.task.softcap / self.task.scale


def rows(task: Task) -> Rows | None:
    """Return the statistics of every query, or None where these programs are not made for the task."""
    ready = _ready(task)
    if ready is None:
        return None
    torch, (batch, heads, count, _) = task.torch, task.queries.shape
    noisy = task.values is not None and task.sensitivity
    out = torch.empty(7 if noisy else 6, batch * heads, count, device=task.queries.device, dtype=torch.float32)
    code = torch.empty(batch * heads, count, device=task.queries.device, dtype=torch.int32)
    try:
        context = _started(ready, out, code)
        weights = _single_keys(ready, out, code)
    except OutOfResources:  # a GPU with less memory beside its cores
        return None
    if noisy and ready.queries.dtype == torch.float16 and not bool(torch.isfinite(out[6]).all()):
        return None  # squares of scores above 256 are too much for float16
    if task.tick is not None:
        task.tick(batch * heads * count, batch * heads * count)
    shape = (batch, heads, count)
    return _answers(task, out.view(-1, *shape), code.view(shape), weights.view(4, *shape), context)


def _ready(task: Task) -> _Ready | None:
    torch = task.torch
    arrays = [task.queries, task.keys, *([] if task.values is None else [task.values])]
    kinds = {array.dtype for array in arrays}
    widest = max(array.shape[-1] for array in arrays)
    fits = len(kinds) == 1 and kinds <= {torch.bfloat16, torch.float16, torch.float32} and widest <= 256
    if not fits or not 1e-6 < task.scale < 1e3 or task.keys.shape[2] >= 1 << 29 or task.queries.shape[2] > _MOST:
        return None
    found = tables(task.rule, task.queries.shape[0], torch)
    if found is None:
        return None
    wide = max(32, triton.next_power_of_2(widest))
    queries, keys, *values = (_laid_out(array, wide, torch) for array in arrays)
    return _Ready(task, queries, keys, values[0] if values else None, *found)


def _laid_out(array: Array, wide: int, torch: Any) -> Array:
    """Return an array of a width that programs are made for, in a layout that the copy engine reads."""
    if array.shape[-1] < wide:
        return torch.nn.functional.pad(array, (0, wide - array.shape[-1]))
    size = array.element_size()
    aligned = array.data_ptr() % 16 == 0 and all(stride * size % 16 == 0 for stride in array.stride()[:-1])
    return array if aligned and array.stride(-1) == 1 else array.contiguous()


def _described(array: Array, rows: int) -> TensorDescriptor:
    return TensorDescriptor(array, list(array.shape), list(array.stride()), [1, 1, rows, array.shape[-1]])


def _started(ready: _Ready, out: Array, code: Array) -> Array | None:
    """Run the main program; return the contexts if there are values."""
    task, torch = ready.task, ready.task.torch
    batch, heads, count, _ = ready.queries.shape
    groups, keys = ready.keys.shape[1:3]
    high, wide, warps, stages, registers = ready.tile
    options = _FUSED | {"num_warps": warps, "num_stages": stages} | ({} if registers is None else {"maxnreg": registers})
    z, shared = batch * heads, heads // groups
    each = keys * ready.width * ready.keys.element_size()
    room = shared * max(1, _CACHE // each if ready.values is None else _CACHE_BOTH // (2 * each))
    together = max(some for some in range(1, min(z, room) + 1) if z % some == 0)
    sinks = out if task.sinks is None else task.sinks.to(torch.float32)
    grid = (together, triton.cdiv(count, high), z // together)
    sizes = (count, task.scale, ready.cap, heads, shared, z)
    fixed = {
        "D": ready.width, "BM": high, "BN": wide, "CHUNK": CHUNK, "CAP": task.softcap is not None,
        "SINK": task.sinks is not None, "PRECISION": ready.precision, **options,
    }  # fmt: skip
    queries, described = _described(ready.queries, high), _described(ready.keys, wide)
    if ready.values is None:
        plain_rows.statistics[grid](queries, described, sinks, ready.first, ready.last, out, code, *sizes, **fixed)
        return None
    values, noisy = _described(ready.values, wide), task.sensitivity
    sides = _described(_sides(ready.values, torch), wide) if noisy else values
    context = torch.empty(batch, heads, count, ready.width, device=out.device, dtype=ready.queries.dtype)
    done = torch.empty(grid, device=out.device, dtype=torch.int8)
    fixed |= {"NOISE": noisy, "HALF": ready.queries.dtype == torch.float16}
    given = (queries, described, values, sides, sinks, ready.first, ready.last, done, context, out, code, *sizes)
    contexts.statistics[grid](*given, **fixed)
    if not fixed["HALF"]:
        contexts.rest[grid[0], triton.cdiv(grid[1], _WATCHED), grid[2]](*given, **fixed)
    return context


def _sides(values: Array, torch: Any) -> Array:
    """Return for each value its squared length in three parts of its own dtype, then 1, then zeros: 16 columns."""
    batch, groups, count, width = values.shape
    found = torch.empty(batch, groups, count, 16, device=values.device, dtype=values.dtype)
    lengths.sides[triton.cdiv(count, _READ), batch * groups](
        values, found, *values.stride()[:3], count, groups, D=width, BR=_READ, **_FUSED
    )
    return found


def _single_keys(ready: _Ready, out: Array, code: Array) -> Array:
    """Run the program for single keys; return the weights of first, own, previous and top key."""
    task, torch = ready.task, ready.task.torch
    batch, heads, count, width = ready.queries.shape
    weights = torch.empty(4, *code.shape, device=out.device, dtype=torch.float32)
    wide = min(width, _AGAIN_WIDE)
    high = _AGAIN // wide
    plain_rows.single_keys[(triton.cdiv(count, high), batch * heads)](
        ready.queries, ready.keys, ready.first, ready.last, ready.text, out, code, weights, *ready.queries.stride()[:3],
        *ready.keys.stride()[:3], count, ready.keys.shape[2], task.scale, ready.cap, heads, heads // ready.keys.shape[1],
        batch * heads, D=width, BR=high, W=wide, CHUNK=CHUNK, CAP=task.softcap is not None, num_warps=1,
        **_FUSED,
    )  # fmt: skip
    return weights


def _answers(task: Task, out: Array, code: Array, weights: Array, context: Array | None) -> Rows:
    """Return what the programs found under its names."""
    return Rows(
        log_normalizer=out[1],
        entropy=out[2],
        purity=out[3],
        top_weight=weights[3],
        top_index=code,
        top_score=out[0],
        second_score=out[5],
        first_weight=weights[0],
        self_weight=weights[1],
        previous_weight=weights[2],
        gain=out[4],
        context=None if context is None or task.values is None else context[..., : task.values.shape[-1]],
        sensitivity=out[6] if len(out) > 6 else None,
    )
