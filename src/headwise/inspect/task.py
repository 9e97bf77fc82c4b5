"""What is asked of a head, and what is known of each of its queries afterwards; the two ends of every engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwise.arrays import Array
from headwise.inspect.rules import Rule

Tick = Callable[[int, int], object]


@dataclass(frozen=True)
class Task:
    """Queries (b, h, q, d) on keys (b, g, k, d) and values (b, g, k, v); head i reads key head i // (h // g)."""

    torch: Any
    queries: Array
    keys: Array
    values: Array | None
    rule: Rule
    scale: float
    softcap: float | None = None
    sinks: Array | None = None  # (h,)
    sensitivity: bool = True  # with values: also tell what the noise of lengths does to contexts
    tick: Tick | None = None  # called with the rows done and the rows to do

    @property
    def dtype(self) -> Any:  # noqa: ANN401  a torch dtype
        """The dtype to compute in: that of the queries, at least float32."""
        return self.queries.dtype if self.queries.dtype.itemsize >= 4 else self.torch.float32


@dataclass(frozen=True)
class Rows:
    """What an engine finds, all of shape (b, h, q) except the context (b, h, q, v).

    A query that may look at no key has -inf for log_normalizer (the sink's logit, where there is a sink), -1 for top_index
    and 0 everywhere else. One that may look at one key only has second_score -inf.
    """

    log_normalizer: Array
    entropy: Array
    purity: Array  # sum of squared weights
    top_weight: Array
    top_index: Array
    top_score: Array
    second_score: Array
    first_weight: Array
    self_weight: Array
    previous_weight: Array
    gain: Array
    context: Array | None = None
    sensitivity: Array | None = None
