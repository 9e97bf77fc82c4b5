"""The result of attention: every quantity is computed when it is first asked for, and then kept.

Contexts cost one pass over the keys; entropy, margin and their kin one more; only `scores` and `weights` build the
whole table of queries by keys.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from jaxtyping import Float, Int

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core import running, with_torch
from headwise.core.rows import check_rows
from headwise.core.running import Mixture, Statistics
from headwise.core.setting import Setting
from headwise.shown import MOST_ROWS, Shown, Summary, number

_NUMBERS = ("log_normalizer", "entropy", "effective_keys", "collision_keys", "top", "top_weight", "margin", "score_error")
_BAR = 20
_NARROW = 4


class Attention(Shown):
    """What queries read from keys and values; made by `attend`.

    Axes are written as in the call: `q` is missing when one query was given as a vector. A query that is allowed no
    key (``empty="zero"``) reads zeros, with weights, entropy and counts 0, top -1 and log-normaliser -inf. The arrays are not
    copied: changing them before a quantity is first read changes the answer.
    """

    def __init__(self, setting: Setting) -> None:
        """Hold the setting; nothing is computed yet."""
        self._setting = setting

    @cached_property
    def scores(self) -> Float[Array, "*batch k"]:
        """Scores, ``scale * keys @ query``; -inf where the query may not look. Builds the whole table."""
        return self._answer(self._scores, trailing=1)

    @cached_property
    def weights(self) -> Float[Array, "*batch k"]:
        """Softmax weights: not negative, each row sums to 1. Builds the whole table."""
        xp = self._setting.xp
        with np.errstate(over="ignore", under="ignore"):
            terms = xp.exp(self._scores - running.finite(xp, xp.max(self._scores, axis=-1, keepdims=True)))
            total = xp.sum(terms, axis=-1, keepdims=True)
        return self._answer(terms / xp.where(total > 0, total, 1.0), trailing=1)

    @cached_property
    def contexts(self) -> Float[Array, "*batch v"]:
        """The mixture of values that each query reads."""
        setting = self._setting
        if is_torch_array(setting.queries) and not setting.may_overflow:
            return self._answer(with_torch.contexts(setting), trailing=1)
        xp, sums = setting.xp, self._mixture
        return self._answer(sums.context / xp.where(sums.total > 0, sums.total, 1.0)[..., None], trailing=1)

    @cached_property
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """Log of the sum of exponentials of the scores."""
        return self._answer(self._statistics.peak + self._setting.xp.log1p(self._statistics.rest))

    @cached_property
    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy of the weights in nats; right even when it is 1e-200."""
        sums = self._statistics
        return self._answer(self._setting.xp.log1p(sums.rest) + sums.moment / (1 + sums.rest))

    @cached_property
    def effective_keys(self) -> Float[Array, "*batch"]:
        """Exponential of the entropy: that many equal weights would be as spread out."""
        sums = self._statistics
        return self._answer((1 + sums.rest) * self._setting.xp.exp(sums.moment / (1 + sums.rest)), empty=0)

    @cached_property
    def collision_keys(self) -> Float[Array, "*batch"]:
        """One over the sum of squared weights: another count of keys in use, less moved by many tiny weights."""
        sums = self._statistics
        return self._answer((1 + sums.rest) ** 2 / (1 + sums.square), empty=0)

    @cached_property
    def top(self) -> Int[Array, "*batch"]:
        """Row of the key with the largest weight: the first of equals, -1 if the query may see none."""
        return self._answer(self._statistics.top, empty=-1)

    @cached_property
    def top_weight(self) -> Float[Array, "*batch"]:
        """The largest weight."""
        return self._answer(1 / (1 + self._statistics.rest), empty=0)

    @cached_property
    def margin(self) -> Float[Array, "*batch"]:
        """Largest score minus the second largest; infinity if the query sees one key only."""
        sums = self._statistics
        with np.errstate(over="ignore", invalid="ignore"):
            return self._answer(sums.peak - sums.second, empty=0)

    @cached_property
    def score_error(self) -> Float[Array, "*batch"]:
        """A bound on the rounding error of each score of a query; weights are off by about that much, relatively."""
        found = self._setting.score_error()
        return found[0] if self._setting.single and found.ndim == 1 else found[..., 0] if self._setting.single else found

    def log_leak(self, indices: int | Iterable[int] | Given) -> Float[Array, "*batch"]:
        """Return the log of the weight outside a set of keys; -1e6 is as exact as -1.

        Parameters
        ----------
        indices
            Row of a key, or several; repeats count once. The empty set leaks everything.
        """
        return self._log_leak("log_leak", indices)

    def leak(self, indices: int | Iterable[int] | Given) -> Float[Array, "*batch"]:
        """Return the weight outside a set of keys; `log_leak` tells those too small for a number."""
        return self._setting.xp.exp(self._log_leak("leak", indices))

    def _log_leak(self, function: str, indices: Given) -> Float[Array, "*batch"]:
        setting = self._setting
        xp = setting.xp
        chosen = np.zeros(setting.key_count, dtype=bool)
        chosen[check_rows(function, indices, setting.key_count)] = True
        outside, inside = running.split(setting, xp.asarray(chosen, device=setting.device))
        # log leak = -log(1 + e^gain), where gain = log of the weight inside over the weight outside.
        alone = inside.total == 0
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = (inside.peak - outside.peak) + (xp.log(inside.total) - xp.log(outside.total))
            loss = xp.where(gain > 0, gain, 0.0) + xp.log1p(xp.exp(-xp.abs(gain)))
        loss = xp.where(alone, 0.0, loss)
        return self._answer(xp.where(outside.total > 0, -loss, -xp.inf))

    def to_dict(self, *, weights: bool = False) -> dict[str, Any]:
        """Return sizes, contexts and statistics as plain data; `weights` adds scores and weights, a table each."""
        setting = self._setting
        names = (*_NUMBERS, "contexts", *(("scores", "weights") if weights else ()))
        return {
            "kind": "attention",
            "library": arrays.library(setting.queries),
            "dtype": arrays.dtype_name(setting.dtype),
            "queries": setting.query_count,
            "keys": setting.key_count,
            "width": int(setting.keys.shape[-1]),
            "value_width": int(setting.values.shape[-1]),
            "scale": setting.scale,
            **{name: arrays.host(getattr(self, name)).tolist() for name in names},
        }

    def summary(self) -> Summary:
        """Describe the result: one query by its heaviest keys, several by a row each."""
        setting = self._setting
        count = "1 query" if setting.query_count == 1 else f"{setting.query_count} queries"
        title = (
            f"Attention of {count} on {setting.key_count} keys of width {setting.keys.shape[-1]}, "
            f"values of width {setting.values.shape[-1]}, scale {number(setting.scale)}"
        )
        worst = number(np.max(arrays.host(self.score_error), initial=0.0))
        notes = [f"{arrays.library(setting.keys)} {arrays.dtype_name(setting.dtype)}, scores within {worst} of exact"]
        if setting.batch:
            notes.append(f"the first of {np.prod(setting.batch)} batch entries, axes {setting.batch}")
        if 0 in setting.batch:
            return Summary(title, ["query"], [], ["no batch entry"])
        columns, rows, more = self._heaviest() if setting.query_count == 1 else self._per_query()
        return Summary(title, columns, rows, [*more, *notes])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        setting = self._setting
        made_of = f"{arrays.library(setting.keys)} {arrays.dtype_name(setting.dtype)}"
        return f"<Attention of {setting.query_count} queries on {setting.key_count} keys, {made_of}>"

    def _heaviest(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Return columns, rows and notes on the keys with the largest weights."""
        setting = self._setting
        weights, scores = (arrays.host(table).reshape(-1, setting.key_count)[0] for table in (self.weights, self.scores))
        order = np.argsort(-weights, kind="stable")[:MOST_ROWS]
        entropy, effective, margin, error = (
            float(arrays.host(getattr(self, name)).flat[0]) for name in ("entropy", "effective_keys", "margin", "score_error")
        )
        firm = number(margin) if margin > 2 * error else "within rounding"
        notes = [f"entropy {number(entropy)}, effective keys {number(effective)}, margin {firm}"]
        if len(order) < len(weights):
            notes.append(f"{len(weights) - len(order)} more keys")
        notes.append(f"context {_few(arrays.host(self.contexts).reshape(-1, setting.values.shape[-1])[0], MOST_ROWS)}")
        scores = np.where(np.abs(scores) > error, scores, 0.0)  # digits that rounding made
        rows = [[str(i), number(scores[i]), number(weights[i]), "█" * round(_BAR * float(weights[i]))] for i in order]
        return ["key", "score", "weight", ""], rows, notes

    def _per_query(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Return columns, rows and notes on the first few queries."""
        names = ("top", "top_weight", "margin", "effective_keys", "entropy")
        shown = min(MOST_ROWS, self._setting.query_count)
        table = [arrays.host(getattr(self, name)).reshape(-1)[:shown] for name in names]
        texts = [[str(x) for x in table[0]], *([number(x) for x in column] for column in table[1:])]
        contexts = arrays.host(self.contexts).reshape(-1, self._setting.values.shape[-1])
        rows = [[str(i), *(column[i] for column in texts), _few(contexts[i], _NARROW)] for i in range(shown)]
        left = self._setting.query_count - shown
        return ["query", *(name.replace("_", " ") for name in names), "context"], rows, [f"{left} more queries"] if left else []

    @cached_property
    def _scores(self) -> Float[Array, "*batch q k"]:
        setting = self._setting
        queries = slice(0, setting.query_count)
        scores = setting.scores(setting.scaled_queries(queries), queries, slice(0, setting.key_count))
        setting.check_sums(setting.xp.max(scores, axis=-1))
        return scores

    @cached_property
    def _statistics(self) -> Statistics:
        sums, self._mixture = running.statistics(self._setting)
        return sums

    @cached_property
    def _mixture(self) -> Mixture:
        return running.mixture(self._setting)

    def _answer(self, found: Array, *, trailing: int = 0, empty: float | None = None) -> Array:
        """Give a result the dtype and axes that the user expects, and `empty` where the query may look at nothing."""
        setting = self._setting
        xp = setting.xp
        if empty is not None and setting.mask is not None and setting.empty == "zero":
            found = xp.where(setting.mask.any_per_query(xp, setting.device), found, empty)
        if xp.isdtype(found.dtype, "real floating"):
            found = setting.narrowed(found)
        if not setting.single:
            return found
        return found[..., 0, :] if trailing else found[..., 0] if found.ndim > 1 else found[0]


def _few(vector: np.ndarray, most: int) -> str:
    """Write the first few coordinates."""
    return " ".join(number(entry) for entry in vector[:most]) + (" ..." if len(vector) > most else "")
