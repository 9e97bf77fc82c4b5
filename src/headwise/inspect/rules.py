"""Which query may look at which key, told for one block at a time; nothing here is as large as queries times keys.

A rule answers for a block of rows (queries) and columns (keys): all of it, nothing of it, or a table.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from headwise.arrays import Array
from headwise.core.masks import Mask

# What a rule says of a block: True for all of it, False for nothing, or a table (q, k) or (h, q, k).
Answer = bool | Any


class Rule(ABC):
    """Which query of which batch entry may look at which key."""

    queries: int
    keys: int

    @abstractmethod
    def block(self, batch: int, rows: slice, columns: slice) -> Answer:
        """Say which keys of a block may be looked at."""

    @abstractmethod
    def first(self, batch: int) -> Array:
        """Return for each query the first key that any query of the same text may look at, of shape (q,)."""

    @property
    def offset(self) -> int:
        """Where the first query stands among the keys; the last stands at the last key."""
        return self.keys - self.queries


@dataclass(frozen=True)
class Spans(Rule):
    """Causal, a window, segments and a table, any of them together."""

    torch: Any
    xp: Any  # torch as the masks of `core` know it
    device: Any
    queries: int
    keys: int
    causal: bool = False
    window: int | None = None
    segments: Array | None = None  # (b or 1, k)
    table: Mask | None = None

    def block(self, batch: int, rows: slice, columns: slice) -> Answer:
        """Say which keys of a block may be looked at; most blocks are decided by their corners."""
        # How far a key lies behind a query, at the two corners of the block.
        least = rows.start + self.offset - (columns.stop - 1)
        most = rows.stop - 1 + self.offset - columns.start
        lowest, highest = self._reach()
        if most < lowest or least > highest:
            return False
        answer: Answer = True
        if least < lowest or most > highest:
            behind = self._positions(rows)[:, None] - self._range(columns)
            answer = (behind >= lowest) & (behind <= highest)
        for more in (self._segment_block(batch, rows, columns), self._table_block(batch, rows, columns)):
            if more is False:
                return False
            if more is not True:
                answer = more if answer is True else answer & more
        return answer

    def first(self, batch: int) -> Array:
        """Return for each query the first key that any query of the same text may look at."""
        torch = self.torch
        seen = torch.ones(self.keys, dtype=torch.bool, device=self.device) if self.table is None else self._seen(batch)
        if self.segments is None:
            return seen.to(torch.int8).argmax().expand(self.queries)
        labels = self._labels(batch)
        _, own = torch.unique(labels, return_inverse=True)
        places = torch.where(seen, self._range(slice(0, self.keys)), self.keys)
        least = torch.full((int(own.max()) + 1,), self.keys, device=self.device).scatter_reduce(0, own, places, "amin")
        return least[own][self.offset :].clamp(max=self.keys - 1)

    def _reach(self) -> tuple[float, float]:
        """Return how far behind a query its keys may lie, least and most."""
        most = float("inf") if self.window is None else self.window - 1
        return (0 if self.causal else -most), most

    def _range(self, places: slice) -> Array:
        return self.torch.arange(places.start, places.stop, device=self.device)

    def _positions(self, rows: slice) -> Array:
        return self._range(rows) + self.offset

    def _labels(self, batch: int) -> Array:
        assert self.segments is not None  # noqa: S101  for the type checker
        return self.segments[batch if len(self.segments) > 1 else 0]

    def _segment_block(self, batch: int, rows: slice, columns: slice) -> Answer:
        if self.segments is None:
            return True
        labels = self._labels(batch)
        of_rows, of_columns = labels[rows.start + self.offset : rows.stop + self.offset], labels[columns]
        same = of_rows[:, None] == of_columns
        return _settled(same)

    def _table_block(self, batch: int, rows: slice, columns: slice) -> Answer:
        if self.table is None:
            return True
        return _settled(self._entry(self.table.block(self.xp, self.device, rows, columns), batch))

    def _seen(self, batch: int) -> Array:
        """Say for each key whether any query may look at it, in blocks of rows."""
        assert self.table is not None  # noqa: S101  for the type checker
        step = max(1, (1 << 22) // self.keys)
        found = self.torch.zeros(self.keys, dtype=self.torch.bool, device=self.device)
        for start in range(0, self.table.shape[-2], step):
            rows = slice(start, min(start + step, self.table.shape[-2]))
            block = self._entry(self.table.block(self.xp, self.device, rows, slice(0, self.keys)), batch)
            found |= block.reshape(-1, block.shape[-1]).any(0)
        return found

    @staticmethod
    def _entry(block: Array, batch: int) -> Array:
        """Return the part of a table (..., q, k) that belongs to one batch entry."""
        while block.ndim > 3:
            block = block[batch if block.shape[0] > 1 else 0]
        return block


def _settled(table: Array) -> Answer:
    """Replace a table that is all one answer by that answer."""
    if bool(table.all()):
        return True
    return table if bool(table.any()) else False
