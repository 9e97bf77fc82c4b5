"""Softmax sums in one pass over blocks of keys, with memory for one block.

Each query keeps sums of exp(score - peak), where the peak is the largest score so far; when the peak rises, the sums
are scaled down. This file sums. What the sums mean (entropy, leak, contexts) is said in `attention`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from jaxtyping import Bool, Float, Int

from headwise.arrays import Array, Namespace
from headwise.core.setting import Setting


@dataclass(frozen=True)
class Mixture:
    """What contexts and log-normalisers need. A query that may see none of the keys has peak -inf and zeros."""

    peak: Float[Array, "*batch q"]
    total: Float[Array, "*batch q"]  # sum of e^(s - peak)
    context: Float[Array, "*_ q v"] | None  # sum of e^(s - peak) v

    @classmethod
    def of(cls, xp: Namespace, scores: Float[Array, "*batch q k"], values: Float[Array, "*_ k v"] | None = None) -> "Mixture":
        """Sum over one block. NumPy scores are used up: their memory holds the exponentials."""
        peak = xp.max(scores, axis=-1)
        terms = _exp(xp, scores, finite(xp, peak)[..., None])
        return cls(peak, xp.sum(terms, axis=-1), None if values is None else terms @ values)

    def merge(self, xp: Namespace, later: "Mixture") -> "Mixture":
        """Return the sums over both sets of keys."""
        peak = xp.maximum(self.peak, later.peak)
        old, new = xp.exp(self.peak - finite(xp, peak)), xp.exp(later.peak - finite(xp, peak))
        context = None
        if self.context is not None and later.context is not None:
            context = self.context * old[..., None] + later.context * new[..., None]
        return Mixture(peak, self.total * old + later.total * new, context)


@dataclass(frozen=True)
class Statistics:
    """What entropy, margin and the rest need.

    The top key, whose term is exactly 1, is left out of the sums: beside it a term of 1e-200 would round away.
    """

    peak: Float[Array, "*batch q"]
    rest: Float[Array, "*batch q"]  # sum of e^(s - peak)
    moment: Float[Array, "*batch q"]  # sum of e^(s - peak) (peak - s)
    square: Float[Array, "*batch q"]  # sum of e^2(s - peak)
    second: Float[Array, "*batch q"]  # second largest score, -inf if there is none
    top: Int[Array, "*batch q"]  # row of the largest score, the first of equals

    @classmethod
    def of(cls, xp: Namespace, scores: Float[Array, "*batch q k"], rows: Int[Array, " k"]) -> "Statistics":
        """Sum over one block whose keys stand at `rows` of the whole."""
        peak = xp.max(scores, axis=-1)
        top = rows[0] + xp.argmax(scores, axis=-1)
        others = xp.where(rows == top[..., None], -xp.inf, scores)
        below = others - finite(xp, peak)[..., None]
        terms = xp.exp(below)
        # Where the score is -inf the term is 0; a finite number beside it keeps 0 * inf out of the sum.
        products = terms * xp.where(terms > 0, below, 0.0)
        return cls(
            peak=peak,
            rest=xp.sum(terms, axis=-1),
            moment=-xp.sum(products, axis=-1),
            square=xp.sum(terms * terms, axis=-1),
            second=xp.max(others, axis=-1),
            top=top,
        )

    def merge(self, xp: Namespace, later: "Statistics") -> "Statistics":
        """Return the sums over both sets of keys."""
        first = self.peak >= later.peak
        high, low = {}, {}
        for name in self.__dataclass_fields__:
            high[name] = xp.where(first, getattr(self, name), getattr(later, name))
            low[name] = xp.where(first, getattr(later, name), getattr(self, name))
        drop = finite(xp, high["peak"]) - finite(xp, low["peak"])
        factor = xp.where(low["peak"] > -xp.inf, xp.exp(-drop), 0.0)
        # 0 * inf where the lower peak is out of reach
        drop = xp.where(factor > 0, drop, 0.0)
        return Statistics(
            peak=high["peak"],
            rest=high["rest"] + factor * (1 + low["rest"]),
            moment=high["moment"] + factor * (low["moment"] + drop * (1 + low["rest"])),
            square=high["square"] + factor**2 * (1 + low["square"]),
            second=xp.maximum(high["second"], low["peak"]),
            top=high["top"],
        )


def mixture(setting: Setting) -> Mixture:
    """Sum over all keys what contexts and log-normalisers need."""
    sums: Mixture
    (sums,) = _one_pass(setting, lambda scores, keys: (_mix(setting, scores, keys),))
    setting.check_sums(sums.peak, sums.context)
    return sums


def statistics(setting: Setting) -> tuple[Statistics, Mixture]:
    """Sum over all keys what every other statistic needs, and the mixture in the same pass."""
    xp = setting.xp

    def summed(scores: Array, keys: slice) -> tuple[Statistics, Mixture]:
        rows = xp.arange(keys.start, keys.stop, device=setting.device)
        return Statistics.of(xp, scores, rows), _mix(setting, scores, keys)

    sums, mixed = _one_pass(setting, summed)
    setting.check_sums(mixed.peak, mixed.context)
    return sums, mixed


def split(setting: Setting, members: Bool[Array, " k"]) -> tuple[Mixture, Mixture]:
    """Sum over the keys outside a set and over those inside it, without values."""
    xp = setting.xp

    def summed(scores: Array, keys: slice) -> tuple[Mixture, Mixture]:
        inside = xp.where(members[keys], scores, -xp.inf)
        return Mixture.of(xp, xp.where(members[keys], -xp.inf, scores)), Mixture.of(xp, inside)

    outside, inside = _one_pass(setting, summed)
    return outside, inside


def _mix(setting: Setting, scores: Array, keys: slice) -> Mixture:
    return Mixture.of(setting.xp, scores, setting.rows_of("values", keys))


def _one_pass(setting: Setting, summed: Callable[[Array, slice], tuple[Any, ...]]) -> Any:  # noqa: ANN401
    """Pass once over the keys for every block of queries; `summed` turns a block of scores into sums."""
    xp = setting.xp
    parts = []
    # A difference of two scores may pass the largest number: exp of it is 0, as it should be.
    with np.errstate(over="ignore", under="ignore"):
        for queries in setting.query_blocks():
            scaled = setting.scaled_queries(queries)
            blocks = (summed(setting.scores(scaled, queries, keys), keys) for keys in setting.key_blocks(queries))
            parts.append(reduce(lambda seen, new: tuple(map(_merged(xp), seen, new)), blocks))
    return tuple(_joined(xp, states) for states in zip(*parts, strict=True))


def _merged(xp: Namespace) -> Callable[[Any, Any], Any]:
    return lambda one, other: one.merge(xp, other)


def _joined(xp: Namespace, parts: Sequence[Any]) -> Any:  # noqa: ANN401
    """Put the blocks of queries behind each other again."""
    kind = type(parts[0])

    def column(name: str) -> Array:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else xp.concat(found, axis=-2 if name == "context" else -1)

    return parts[0] if len(parts) == 1 else kind(**{field.name: column(field.name) for field in fields(kind)})


def finite(xp: Namespace, peak: Array) -> Array:
    """Replace -inf by 0, so that -inf minus a peak is -inf and never NaN."""
    return xp.where(peak > -xp.inf, peak, 0.0)


def _exp(xp: Namespace, scores: Array, peak: Array) -> Array:
    """Return exp(scores - peak); for NumPy in the memory of the scores, which saves two trips to main memory."""
    if is_numpy_array(scores):
        scores -= peak
        return np.exp(scores, out=scores)
    return xp.exp(scores - peak)
