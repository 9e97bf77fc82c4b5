"""The keys of each query as one range, where they are one: what compiled programs know of a rule."""

from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from headwise.arrays import Array
from headwise.inspect.rules import Rule, Spans

# Entries of a rule's table that are looked at together.
_LOOK = 1 << 24
# The first key of each query and the one behind its last, each of shape (q,).
Ranges = tuple[Array, Array]
_KNOWN: "WeakKeyDictionary[Rule, dict[int, Ranges | None]]" = WeakKeyDictionary()


def tables(rule: Rule, batches: int, torch: Any) -> tuple[Array, Array, Array] | None:  # noqa: ANN401  a module
    """Return the first key of each query, the one behind its last, and the first of its text, each (b, q) of int32.

    None if for some query its keys are no range. Different heads must see the same keys.
    """
    if isinstance(rule, Spans) and rule.table is None and rule.segments is None:
        return _plain(rule.torch, rule.xp, rule.device, rule.queries, rule.keys, rule.causal, rule.window, batches)
    found = [ranges(rule, batch, torch) for batch in range(batches)]
    if any(one is None for one in found):
        return None
    first, last = (torch.stack([one[side] for one in found if one is not None]).contiguous() for side in (0, 1))
    return first, last, torch.stack([rule.first(batch) for batch in range(batches)]).to(torch.int32).contiguous()


@lru_cache(maxsize=8)
def _plain(*given: Any) -> tuple[Array, Array, Array]:  # noqa: ANN401  the fields of a rule, and the batch entries
    """Return the tables of a rule without tables and segments; layers of one model ask for the same ones."""
    *fields, batches = given
    rule = Spans(*fields)
    found = _of_spans(rule, 0, rule.torch)
    assert found is not None  # noqa: S101  for the type checker
    first, last = (one.expand(batches, -1).contiguous() for one in found)
    return first, last, rule.torch.zeros_like(first)


def ranges(rule: Rule, batch: int, torch: Any) -> Ranges | None:  # noqa: ANN401  a module
    """Return the range of keys that each query may look at, or None if for some query they are no range.

    A query that may look at nothing has an empty range. Different heads must see the same keys.
    """
    if isinstance(rule, Spans):
        found = _of_spans(rule, batch, torch)
        if found is not None:
            return found
        return _looked_at(rule, batch, torch)
    known = _KNOWN.setdefault(rule, {})
    if batch not in known:
        known[batch] = _looked_at(rule, batch, torch)
    return known[batch]


def _of_spans(rule: Spans, batch: int, torch: Any) -> Ranges | None:  # noqa: ANN401
    """Return ranges without looking at any table of queries and keys, or None where there is no such way."""
    place = torch.arange(rule.queries, device=rule.device) + rule.offset
    first, last = torch.zeros_like(place), torch.full_like(place, rule.keys)
    if rule.window is not None:
        first = (place - rule.window + 1).clamp(min=0)
    if rule.causal:
        last = place + 1
    elif rule.window is not None:
        last = (place + rule.window).clamp(max=rule.keys)
    if rule.table is not None:
        if any(size != 1 for size in rule.table.shape[-3:-1]):  # a row of its own for each query or head
            return None
        row = rule.table.block(rule.xp, rule.device, slice(0, 1), slice(0, rule.keys))
        run = _run(row.reshape(-1, rule.keys)[batch if row.ndim == 4 and row.shape[0] > 1 else 0], torch)
        if run is None:
            return None
        first, last = first.clamp(min=run[0]), last.clamp(max=run[1])
    if rule.segments is not None:
        own = _segments(rule.segments[batch if len(rule.segments) > 1 else 0], torch)
        if own is None:
            return None
        first = torch.maximum(first, own[0][rule.offset :])
        last = torch.minimum(last, own[1][rule.offset :])
    return first.to(torch.int32), torch.maximum(first, last).to(torch.int32)


def _run(row: Array, torch: Any) -> tuple[int, int] | None:  # noqa: ANN401
    """Return where the one run of True starts and ends; None if there are several."""
    count = int(row.sum())
    if count == 0:
        return 0, 0
    first = int(row.to(torch.int8).argmax())
    return (first, first + count) if bool(row[first : first + count].all()) else None


def _segments(labels: Array, torch: Any) -> Ranges | None:  # noqa: ANN401
    """Return for each key where its segment starts and ends; None if one segment comes in pieces."""
    kinds, own, counts = torch.unique_consecutive(labels, return_inverse=True, return_counts=True)
    if len(torch.unique(kinds)) != len(kinds):
        return None
    ends = counts.cumsum(0)
    return (ends - counts)[own], ends[own]


def _looked_at(rule: Rule, batch: int, torch: Any) -> Ranges | None:  # noqa: ANN401
    """Return ranges from the rule's tables, some rows at a time."""
    step = max(1, _LOOK // rule.keys)
    parts: list[Ranges] = []
    for start in range(0, rule.queries, step):
        rows = slice(start, min(start + step, rule.queries))
        table = rule.block(batch, rows, slice(0, rule.keys))
        if isinstance(table, bool):
            device = rule.first(batch).device
            table = torch.full((rows.stop - rows.start, rule.keys), table, device=device)
        if table.ndim == 3:
            if not bool((table == table[:1]).all()):
                return None
            table = table[0]
        table = table.expand(rows.stop - rows.start, rule.keys)
        count = table.sum(-1)
        first = table.to(torch.int8).argmax(-1)
        last = rule.keys - table.flip(-1).to(torch.int8).argmax(-1)
        if not bool(((last - first == count) | (count == 0)).all()):
            return None
        parts.append((first.to(torch.int32), (first + count).to(torch.int32)))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
