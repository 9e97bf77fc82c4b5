"""The setting of one attention call: validated queries, keys and values, and their scores block by block.

This file checks what came in and multiplies queries by keys. It does not normalise, sum or store anything.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
from array_api_compat import device
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Namespace
from headwise.core.masks import Mask, as_mask
from headwise.errors import EmptyError, OptionError, ScoreOverflowError, ShapeError, check_option

# Scores held at one time: small enough for the cache of one core, large enough for the matrix product.
_BLOCK = 1 << 20
_MOST_QUERIES = 1024
_FEWEST_KEYS = 256


@dataclass(frozen=True)
class Setting:
    """Queries, keys and values that may meet; made by `prepare`.

    `single` says that the user gave one query as a vector: the query axis is there, and the answer drops it.
    `magnitudes` holds the largest absolute value of each array, except of those that live in a file, unread so far.
    """

    function: str
    xp: Namespace
    queries: Array
    keys: Array
    values: Array
    scale: float
    mask: Mask | None
    empty: str
    single: bool
    magnitudes: dict[str, float]

    @cached_property
    def dtype(self) -> object:
        """The dtype of the answer."""
        return self.xp.result_type(self.queries, self.keys, self.values)

    @cached_property
    def computing(self) -> object:
        """The dtype of every sum on the way, at least float32."""
        return arrays.computing_dtype(self.xp, self.queries, self.keys, self.values)

    @cached_property
    def batch(self) -> tuple[int, ...]:
        """The batch axes of scores."""
        masks = () if self.mask is None else (self.mask.shape[:-2],)
        return np.broadcast_shapes(self.queries.shape[:-2], self.keys.shape[:-2], *masks)

    @property
    def device(self) -> object:
        """Where the arrays live."""
        return device(self.queries)

    @property
    def query_count(self) -> int:
        """How many queries each batch entry has."""
        return int(self.queries.shape[-2])

    @property
    def key_count(self) -> int:
        """How many keys each batch entry has."""
        return int(self.keys.shape[-2])

    def query_blocks(self) -> Iterator[slice]:
        """Cut the queries into blocks; one pass over the keys serves a whole block."""
        # Without queries there is still one block, an empty one, so that results get their shapes.
        return _cut(self.query_count, _MOST_QUERIES) if self.query_count else iter([slice(0, 0)])

    def key_blocks(self, rows: slice) -> Iterator[slice]:
        """Cut the keys into blocks that keep the scores of `rows` small."""
        entries = max(1, math.prod(self.batch) * (rows.stop - rows.start))
        return _cut(self.key_count, max(_FEWEST_KEYS, _BLOCK // entries))

    def scaled_queries(self, rows: slice) -> Float[Array, "*batch q d"]:
        """Return scale * queries, in the computing dtype."""
        with np.errstate(over="ignore"):
            return self.xp.astype(self.queries[..., rows, :], self.computing) * self.scale

    def scores(self, scaled: Float[Array, "*_ q d"], rows: slice, columns: slice) -> Float[Array, "*batch q k"]:
        """Return the scores of one block, -inf where the query may not look."""
        xp = self.xp
        keys = self.rows_of("keys", columns)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = scaled @ xp.matrix_transpose(keys)
        risky = self.may_overflow and not bool(xp.all(xp.isfinite(scores)))
        if risky:
            scores = xp.where(xp.isfinite(scores), scores, self._rescued(keys, rows, columns))
        if self.mask is not None:
            scores = xp.where(self.mask.block(xp, self.device, rows, columns), scores, -xp.inf)
        if risky and bool(xp.any(scores == xp.inf)):
            raise self.overflow()
        return scores

    def rows_of(self, name: str, columns: slice) -> Float[Array, "*_ k d"]:
        """Return a block of keys or values in the computing dtype; a file is read here, and nowhere else."""
        part = getattr(self, name)[..., columns, :]
        return self.xp.astype(np.asarray(part) if arrays.is_mapped(part) else part, self.computing, copy=False)

    def magnitude(self, name: str) -> float:
        """Return the largest absolute value of an array, reading it block by block if it lives in a file."""
        if name not in self.magnitudes:
            blocks = _cut(self.key_count, max(_FEWEST_KEYS, _BLOCK // max(1, self.keys.shape[-1])))
            self.magnitudes[name] = max(
                arrays.check_finite(self.function, name, self.rows_of(name, columns), first_row=columns.start)
                for columns in blocks
            )
        return self.magnitudes[name]

    @cached_property
    def may_overflow(self) -> bool:
        """Whether some score could pass the largest number; assumed of keys in a file, unread so far."""
        if "keys" not in self.magnitudes:
            return True
        parts = [self.magnitudes["queries"], self.magnitudes["keys"], abs(self.scale), self.keys.shape[-1]]
        largest = float(self.xp.finfo(self.computing).max)
        return sum(max(0.0, math.log2(part)) for part in parts if part) >= math.log2(largest) - 2

    def _rescued(self, keys: Array, rows: slice, columns: slice) -> Array:
        """Compute a block again from queries and keys of size 1, so that only a score that truly overflows is infinite."""
        xp = self.xp
        key_size = arrays.check_finite(self.function, "keys", keys, first_row=columns.start) or 1.0
        query_size = self.magnitudes["queries"] or 1.0
        queries = xp.astype(self.queries[..., rows, :], self.computing) / query_size
        scores = (queries @ xp.matrix_transpose(keys / key_size)) * math.copysign(1.0, self.scale)
        # Smallest factor first: what overflows then overflows for good.
        with np.errstate(over="ignore"):
            for factor in sorted([query_size, key_size, abs(self.scale)]):
                scores = scores * factor
        return scores

    def overflow(self) -> ScoreOverflowError:
        """Return the error for scores that no number of this dtype can hold."""
        largest = float(self.xp.finfo(self.computing).max)
        return ScoreOverflowError(
            self.function,
            f"scores must fit {arrays.dtype_name(self.computing)}, but some are larger than {largest:.1e}",
            "Divide queries, keys or scale.",
        )

    def narrowed(self, found: Array) -> Array:
        """Bring a result from the computing dtype to that of the answer, and refuse one that does not fit."""
        xp = self.xp
        if self.dtype == self.computing:
            return found
        with np.errstate(over="ignore"):
            answer = xp.astype(found, self.dtype, copy=False)
        if bool(xp.any(xp.isinf(answer) & xp.isfinite(found))):
            name = arrays.dtype_name(self.dtype)
            raise ScoreOverflowError(
                self.function,
                f"the result must fit {name}, but some numbers are larger than {float(xp.finfo(self.dtype).max):.1e}",
                "Convert the arrays to float32.",
            )
        return answer

    def check_sums(self, peak: Array, context: Array | None = None) -> None:
        """Refuse finished sums that overflowed: every score of a query below the range, or values too large to add."""
        xp = self.xp
        if self.may_overflow:
            lost = peak == -xp.inf
            if self.mask is not None:
                lost = lost & self.mask.any_per_query(xp, self.device)
            if bool(xp.any(lost)):
                raise self.overflow()
        if context is not None and "values" not in self.magnitudes and not bool(xp.all(xp.isfinite(context))):
            _check_value_size(self.function, xp, self.values, self.magnitude("values"))

    def score_error(self) -> Float[Array, "*batch q"]:
        """Bound the rounding error of every score of a query by gamma_(d+2) |scale| |q|_1 max|k|.

        A score told in a narrower dtype than the computing one is rounded once more.
        """
        xp = self.xp
        terms = (self.keys.shape[-1] + 2) * float(xp.finfo(self.computing).eps) / 2
        told = float(xp.finfo(self.dtype).eps) if self.dtype != self.computing else 0.0
        lengths = xp.sum(xp.abs(self.scaled_queries(slice(0, self.query_count))), axis=-1)
        bound = lengths * ((terms / (1 - terms) + told) * self.magnitude("keys"))
        return xp.broadcast_to(bound, (*self.batch, self.query_count))


def _cut(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def prepare(
    function: str,
    given: dict[str, object],
    *,
    scale: float = 1.0,
    allowed: object = None,
    empty: str = "error",
) -> Setting:
    """Check everything that the user gave to `function` and return the setting; `given` holds queries, keys, values."""
    check_option(function, "empty", empty, ("error", "zero"))
    if not isinstance(scale, Real) or isinstance(scale, bool) or not math.isfinite(scale):
        raise OptionError(function, f"scale must be a finite number, but got {scale!r}")
    xp, found = arrays.admit(function, **given)
    _check_shapes(function, found)
    if arrays.is_mapped(found["queries"]):  # needed whole; only keys and values stream
        found["queries"] = np.asarray(found["queries"])
    magnitudes = {
        name: arrays.check_finite(function, name, array) for name, array in found.items() if not arrays.is_mapped(array)
    }
    single = found["queries"].ndim == 1
    if "values" in magnitudes:
        _check_value_size(function, xp, found["values"], magnitudes["values"])
    if single:
        found["queries"] = found["queries"][None, :]
    mask = None if allowed is None else as_mask(function, allowed)
    setting = Setting(function, xp, **found, scale=float(scale), mask=mask, empty=empty, single=single, magnitudes=magnitudes)
    if mask is not None:
        _check_mask(setting, mask)
    return setting


def _check_shapes(function: str, found: dict[str, Array]) -> None:
    queries, keys, values = found["queries"], found["keys"], found["values"]
    arrays.check_rank(function, "queries", queries, 1, "(d,) or (..., q, d)")
    arrays.check_rank(function, "keys", keys, 2, "(..., k, d)")
    arrays.check_rank(function, "values", values, 2, "(..., k, v)")
    arrays.check_agree(function, "d", {"queries": queries.shape[-1], "keys": keys.shape[-1]})
    arrays.check_agree(function, "k", {"keys": keys.shape[-2], "values": values.shape[-2]})
    if not keys.shape[-2]:
        raise EmptyError(function, "there must be at least one key, but keys has k=0")
    if not keys.shape[-1]:
        raise EmptyError(function, "keys must have at least one coordinate, but keys has d=0")
    batches = [tuple(array.shape[:-2]) for array in (queries, keys, values)]
    try:
        np.broadcast_shapes(*batches)
    except ValueError:
        raise ShapeError(
            function,
            f"batch axes of queries, keys and values must broadcast, but they are {batches[0]}, {batches[1]} and {batches[2]}",
        ) from None


def _check_value_size(function: str, xp: Namespace, values: Array, largest: float) -> None:
    """Refuse values whose weighted sum could pass the largest number before it is divided by the sum of weights."""
    limit = float(xp.finfo(arrays.computing_dtype(xp, values)).max) / values.shape[-2]
    if largest >= limit:
        raise OptionError(
            function,
            f"values must be smaller than {limit:.2g}, so that {values.shape[-2]} of them can be added, "
            f"but the largest is {largest:.2g}",
            "Divide them.",
        )


def _check_mask(setting: Setting, mask: Mask) -> None:
    whole = (*setting.queries.shape[:-2], setting.query_count, setting.key_count)
    try:
        fits = np.broadcast_shapes(mask.shape, whole)[-2:] == whole[-2:] and setting.batch is not None
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            setting.function,
            f"allowed must broadcast to (..., q, k) with q={setting.query_count} and k={setting.key_count}, "
            f"but its shape is {mask.shape}",
        )
    if setting.empty == "zero":
        return
    seeing = arrays.host(mask.any_per_query(setting.xp, setting.device))
    if not seeing.all():
        blind = np.argwhere(~np.broadcast_to(seeing, (*seeing.shape[:-1], setting.query_count)))
        raise EmptyError(
            setting.function,
            f"every query must be allowed at least one key, but {len(blind)} of "
            f"{seeing[..., :1].size * setting.query_count} have none (first: query {', '.join(map(str, blind[0]))})",
            'Pass empty="zero" to let them read zeros.',
        )
