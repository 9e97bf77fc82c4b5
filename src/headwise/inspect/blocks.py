"""Row statistics by torch, block by block: scores of some queries on some keys are made, summed up and forgotten.

The sums of a row are relative to the largest score so far, its peak; when the peak rises, they are scaled down. A key
that may not be looked at gets a finite score far below every peak: its term is exactly 0, and 0 times it is 0. Two work
buffers are used over and over, sized to stay in cache. Sums are float64, and so is what the sensitivity needs of values: it
is a difference of sums that nearly cancel where a head is firm. Formulas: docs/inspect.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from headwise.arrays import Array
from headwise.inspect.task import Rows, Task

# Scores in one block, and keys; measured on two cores with 1 MB of second-level cache each.
BLOCK, WIDTH = 3 << 17, 512
# Keys whose largest score is found together; the top key is then looked for in the best such chunk only.
_CHUNK = 32


def rows(task: Task, block: int = BLOCK) -> Rows:
    """Return the statistics of every query; `block` is how many scores exist at one time."""
    _, heads, queries, _ = task.queries.shape
    each = heads // task.keys.shape[1]
    width = min(WIDTH, max(_CHUNK, block // 8))
    columns = min(width, -(-task.keys.shape[2] // _CHUNK) * _CHUNK)
    height = min(queries, max(1, block // (columns * each)))
    together = min(task.keys.shape[1], max(1, block // (columns * each * height)))
    found, buffers = Found(task), _Buffers(task, columns * each * height * together)
    done, total = 0, task.queries.shape[:3].numel()
    for place in places(task, height, together):
        tile = _TorchTile(task, place, buffers)
        for keys in slices(0, task.keys.shape[2], width):
            tile.add(keys)
        done += found.put(tile)
        if task.tick is not None:
            task.tick(done, total)
    return found.rows()


@dataclass(frozen=True)
class Place:
    """Where a tile lies: a batch entry, some key heads, some queries, and the first key of the text of each."""

    entry: int
    groups: slice
    rows: slice
    first: Array


def places(task: Task, height: int, together: int) -> Iterator[Place]:
    """Cut a task into tiles of some queries of some key heads."""
    for entry in range(task.queries.shape[0]):
        first = task.rule.first(entry)
        for groups in slices(0, task.keys.shape[1], together):
            for some in slices(0, task.queries.shape[2], height):
                yield Place(entry, groups, some, first[some])


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Cut a range into pieces of at most `step`."""
    for first in range(start, stop, step):
        yield slice(first, min(first + step, stop))


class _Buffers:
    """Memory for the scores of one block, their exponentials, and with a soft cap one more."""

    def __init__(self, task: Task, size: int) -> None:
        count = 2 if task.softcap is None else 3
        self._flat = [task.torch.empty(size, dtype=task.dtype, device=task.queries.device) for _ in range(count)]

    def __call__(self, which: int, shape: tuple[int, int, int]) -> Array:
        size = shape[0] * shape[1] * shape[2]
        return self._flat[which][:size].view(shape)


@dataclass
class Sums:
    """Running sums of a tile, each of shape (c, n); c key heads, n the queries of all heads that share one."""

    peak: Array  # largest score so far
    second: Array  # second largest
    top: Array  # key of the largest, the first of equals
    total: Array  # sum of e^(s - peak)
    moment: Array  # sum of e^(s - peak) (s - peak)
    square: Array  # sum of e^2(s - peak)
    gain: Array  # sum of e^2(s - peak) r^2, where r is how fast a score grows with the length of its key


class Tile:
    """Some queries of some heads, and what is known of them after the keys seen so far."""

    sums: Sums
    singles: list[Array]  # scores of the three keys whose weight is told by itself, once they are seen
    context: Array | None = None

    def __init__(self, task: Task, place: Place) -> None:
        """Take the queries out of the task."""
        torch = task.torch
        self.task, self.entry, self.groups, self.rows = task, place.entry, place.groups, place.rows
        self.each = task.queries.shape[1] // task.keys.shape[1]
        chosen = task.queries[self.entry].unflatten(0, (-1, self.each))[self.groups, :, self.rows].to(task.dtype)
        self.queries = (chosen * task.scale).flatten(1, 2)
        self.lowest = float(torch.finfo(task.dtype).min) / 32
        self.masked = 2 * self.lowest
        own = torch.arange(self.rows.start, self.rows.stop, device=task.queries.device) + task.rule.offset
        self.single_places = (place.first, own, own - 1)

    def sensitivity(self, share: Array, sink: Array) -> Array:
        """Return the sensitivity; `share` is the top key's weight, `sink` that of the sink."""
        raise NotImplementedError


class _TorchTile(Tile):
    """A tile that torch works on."""

    spread: Array | None = None
    spread_square: Array | None = None

    def __init__(self, task: Task, place: Place, buffers: _Buffers) -> None:
        super().__init__(task, place)
        torch, shape, self.buffers = task.torch, self.queries.shape[:2], buffers

        def filled(value: float, dtype: Any = task.dtype) -> Array:  # noqa: ANN401  a torch dtype
            return torch.full(shape, value, dtype=dtype, device=task.queries.device)

        low, nothing = self.lowest, [filled(0.0, torch.float64) for _ in range(4)]
        top = torch.full(shape, -1, dtype=torch.long, device=task.queries.device)
        self.sums = Sums(filled(low), filled(low), top, *nothing)
        self.singles = [filled(self.masked) for _ in self.single_places]
        self.reach = [(int(place.min()), int(place.max())) for place in self.single_places]
        if task.values is not None:
            size = (*shape, task.values.shape[-1])
            precise = torch.float64 if task.sensitivity else task.dtype
            self.context = torch.zeros(size, dtype=precise, device=task.queries.device)
            if task.sensitivity:
                self.spread, self.spread_square = torch.zeros_like(self.context), filled(0.0, torch.float64)

    def add(self, keys: slice) -> None:
        """Take in some more keys."""
        allowed = self.task.rule.block(self.entry, self.rows, keys)
        if allowed is False:
            return
        scores, rate = self._scores(keys, allowed)
        self._note_singles(scores, keys)
        self._raise_peak(scores, keys.start)
        self._sum(scores, rate, keys)

    def _scores(self, keys: slice, allowed: Any) -> tuple[Array, Array | None]:  # noqa: ANN401  a rule's answer
        """Return the scores, with a whole number of chunks of columns, and with a soft cap their growth with key length."""
        torch, task, count = self.task.torch, self.task, keys.stop - keys.start
        padded = -(-count // _CHUNK) * _CHUNK
        shape = (*self.queries.shape[:2], padded)
        scores = self.buffers(0, shape)
        across = task.keys[self.entry, self.groups, keys].to(task.dtype).transpose(1, 2)
        if padded == count:
            torch.bmm(self.queries, across, out=scores)
        else:
            scores[..., :count] = torch.bmm(self.queries, across)
            scores[..., count:] = self.masked
        rate = None
        if task.softcap is not None:
            rate = self.buffers(2, shape)
            rate.copy_(scores)
            torch.tanh(scores.div_(task.softcap), out=scores)
            rate.addcmul_(rate * scores, scores, value=-1.0)
            scores.mul_(task.softcap)
            scores[..., count:], rate[..., count:] = self.masked, 0.0
        if allowed is not True:
            if allowed.ndim == 3 and len(allowed) > 1:
                allowed = allowed.unflatten(0, (-1, self.each))[self.groups]
            self._by_head(scores)[..., :count].masked_fill_(~allowed, self.masked)
        return scores, rate

    def _by_head(self, found: Array) -> Array:
        """Split the axis of all queries on a key head into heads and queries."""
        return found.unflatten(1, (self.each, -1))

    def _note_singles(self, scores: Array, keys: slice) -> None:
        torch, lines = self.task.torch, None
        for place, (least, most), known in zip(self.single_places, self.reach, self.singles, strict=True):
            if most < keys.start or least >= keys.stop:
                continue
            if lines is None:
                lines = torch.arange(len(place), device=place.device)
            inside = (place >= keys.start) & (place < keys.stop)
            here = self._by_head(scores)[:, :, lines, (place - keys.start).clamp(0, keys.stop - keys.start - 1)]
            self._by_head(known).copy_(torch.where(inside, here, self._by_head(known)))

    def _raise_peak(self, scores: Array, start: int) -> None:
        """Find the two largest scores and scale the sums to the new peak."""
        torch, sums = self.task.torch, self.sums
        chunks = scores.unflatten(2, (-1, _CHUNK))
        largest = chunks.amax(-1)
        best, chunk = largest.max(-1)
        members = chunks.gather(2, chunk[..., None, None].expand(-1, -1, 1, _CHUNK)).squeeze(2)
        inside = members.argmax(-1)
        largest.scatter_(-1, chunk[..., None], self.masked)
        members.scatter_(-1, inside[..., None], self.masked)
        runner_up = torch.maximum(largest.amax(-1), members.amax(-1))
        sums.top = torch.where(best > sums.peak, start + chunk * _CHUNK + inside, sums.top)
        sums.second = torch.maximum(torch.minimum(best, sums.peak), torch.maximum(sums.second, runner_up))
        peak = torch.maximum(sums.peak, best)
        rise = peak - sums.peak
        factor = torch.exp(-rise.double())
        sums.moment = factor * (sums.moment - rise * sums.total)
        sums.total, sums.peak = factor * sums.total, peak
        for name in ("square", "gain"):
            getattr(sums, name).mul_(factor * factor)
        if self.context is not None:
            self.context.mul_(factor[..., None].to(self.context.dtype))
        if self.spread is not None and self.spread_square is not None:
            self.spread.mul_((factor * factor)[..., None])
            self.spread_square.mul_(factor * factor)

    def _sum(self, scores: Array, rate: Array | None, keys: slice) -> None:
        """Add the block to the sums; its scores are used up."""
        torch, task, sums = self.task.torch, self.task, self.sums
        below = scores.sub_(sums.peak[..., None])
        terms = torch.exp(below, out=self.buffers(1, tuple(below.shape)))
        sums.total += terms.sum(-1, dtype=torch.float64)
        sums.square += torch.linalg.vector_norm(terms, dim=-1).square_()
        below.mul_(terms)
        sums.moment += below.sum(-1)
        # From here on `moved` is how much each term moves when its key grows: e^(s - peak) r, and r = s without a cap.
        moved = below.addcmul_(terms, sums.peak[..., None]) if rate is None else torch.mul(terms, rate, out=below)
        if self.context is None or task.values is None:
            sums.gain += torch.linalg.vector_norm(moved, dim=-1).square_()
            return
        count = keys.stop - keys.start
        values = task.values[self.entry, self.groups, keys].to(self.context.dtype)
        self.context.baddbmm_(terms[..., :count].to(values.dtype), values)
        if self.spread is None:
            sums.gain += torch.linalg.vector_norm(moved, dim=-1).square_()
            return
        squares = moved[..., :count].to(values.dtype).square_()
        sums.gain += squares.sum(-1)
        self.spread.baddbmm_(squares, values)
        self.spread_square += torch.bmm(squares, values.square().sum(-1, keepdim=True)).squeeze(-1)

    def sensitivity(self, share: Array, sink: Array) -> Array:  # noqa: ARG002  the sink has no value
        """Return the sensitivity: sum w |v - c|^2 = sum w |v|^2 - 2 c . sum w v + |c|^2 sum w."""
        assert self.context is not None  # noqa: S101  for the type checker
        assert self.spread is not None  # noqa: S101
        middle = self.context * share[..., None]
        cross, own = (middle * self.spread).sum(-1), middle.square().sum(-1)
        return ((self.spread_square - 2 * cross + own * self.sums.gain) * share.square()).clamp(min=0.0)


class Found:
    """The answers of all tiles, in one array each."""

    def __init__(self, task: Task) -> None:
        """Make room."""
        torch, shape, device = task.torch, task.queries.shape[:3], task.queries.device
        value_width = 0 if task.values is None else task.values.shape[-1]
        left_out = {"context", "sensitivity"} if task.values is None else set() if task.sensitivity else {"sensitivity"}
        self.made: dict[str, Array] = {}
        for name in (field.name for field in fields(Rows) if field.name not in left_out):
            size = (*shape, value_width) if name == "context" else shape
            self.made[name] = torch.empty(size, dtype=torch.long if name == "top_index" else task.dtype, device=device)

    def put(self, tile: Tile) -> int:
        """Finish a tile, keep its answers, and return how many rows it has."""
        heads = slice(tile.groups.start * tile.each, tile.groups.stop * tile.each)
        for name, found in _finished(tile, heads).items():
            by_head = found.unflatten(1, (tile.each, -1)).flatten(0, 1)
            self.made[name][tile.entry, heads, tile.rows] = by_head.to(self.made[name].dtype)
        return (heads.stop - heads.start) * (tile.rows.stop - tile.rows.start)

    def rows(self) -> Rows:
        """Return everything."""
        return Rows(**self.made)


def _finished(tile: Tile, heads: slice) -> dict[str, Array]:
    """Turn the sums of a tile into statistics."""
    torch, task, sums = tile.task.torch, tile.task, tile.sums
    seen = sums.peak > tile.lowest
    peak = torch.where(seen, sums.peak, 0.0)
    total, moment, square, high, extra = sums.total, sums.moment, sums.square, peak, 0.0 * peak
    if task.sinks is not None:
        # The sink is one more column: the peak moves to it where it is larger, and its own term is added.
        sink = task.sinks[heads].to(task.dtype).unflatten(0, (-1, tile.each))
        sink = sink[..., None].expand(-1, -1, tile.rows.stop - tile.rows.start).flatten(1, 2)
        high = torch.where(seen, torch.maximum(peak, sink), sink)
        lower, own = torch.where(seen, torch.exp(peak - high), 0.0), torch.exp(sink - high)
        moment = lower * (moment + torch.where(seen, peak - high, 0.0) * total) + own * (sink - high)
        total, square, extra = lower * total + own, lower.square() * square + own.square(), own
    log_total = torch.log(total)
    log_normalizer = high + log_total
    safe = torch.where(total > 0, total, 1.0)
    share = torch.where(seen, torch.exp(peak - high), 0.0) / safe  # the weight of the top key
    zero = torch.zeros_like(peak)
    found = {
        "log_normalizer": log_normalizer,
        "entropy": torch.where(seen, (log_total - moment / safe).clamp(min=0.0), zero),
        "purity": torch.where(seen, square / safe.square(), zero),
        "top_weight": share,
        "top_index": sums.top,
        "top_score": torch.where(seen, peak, zero),
        "second_score": torch.where(sums.second > tile.lowest, sums.second, torch.where(seen, -torch.inf, zero)),
        "gain": sums.gain * share.square(),
    }
    for name, score in zip(("first_weight", "self_weight", "previous_weight"), tile.singles, strict=True):
        found[name] = torch.where(score > tile.lowest, torch.exp(score - log_normalizer), zero)
    if tile.context is not None:
        found["context"] = tile.context * share[..., None].to(tile.context.dtype)
        if task.sensitivity:
            found["sensitivity"] = tile.sensitivity(share, extra / safe)
    return found
