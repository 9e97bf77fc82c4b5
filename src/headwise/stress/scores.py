"""A head's law in score space: the means and covariances of the scores, and the many keys whose noise averages out.

Only scores matter: those of key i over the heads are Gaussian, and keys are independent. Keys are split in two. A few
carry the randomness and are integrated one by one; the rest, the bulk, enters through the joint cumulants of its sums up to
third order, which for lognormal terms are closed formulas.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from headwise.core.random_keys import RandomKeys

# Laws of the scores with fewer numbers than this are kept, larger ones are computed again when needed.
_KEPT = 1 << 24
_BLOCK = 1 << 15
# Up to so many keys are all looked at one by one.
_FEW = 32
# The logarithm of the smallest covariance beside the values that is looked for.
_RAREST = 600.0
# Keys whose scores have a larger variance are never part of the bulk.
_CALM = 4.0


@dataclass(frozen=True)
class Bulk:
    """Sums over the bulk of cumulants, alone and times the values: what is left of the keys that are not looked at one by one.

    The last column of each array belongs to values of 1. With x the exponential of the (shifted) score: `plain` sums
    e^mean, `extra` what the noise adds to the mean of x, `second[h, g]` and `third[h, g]` the cumulants x_h x_g, x_h x_h x_g,
    `fourth` those of x_h alone, without values.
    """

    plain: Float[np.ndarray, "h w"]
    extra: Float[np.ndarray, "h w"]
    second: Float[np.ndarray, "h h w"]
    third: Float[np.ndarray, "h h w"]
    fourth: Float[np.ndarray, " h"]

    def more(self, head: int) -> float:
        """Return the ratio of fourth to third cumulant of a head; 0 without noise."""
        third = float(self.third[head, head, -1])
        return float(self.fourth[head]) / third if third > 0 else 0.0


class Scores:
    """Queries, random keys and values, as one law of scores; values are taken from their mean-score context."""

    def __init__(self, queries: Float[np.ndarray, "h d"], keys: RandomKeys, values: Float[np.ndarray, "k v"]) -> None:
        """Read means and variances of all scores."""
        self.queries, self.keys, self.given = queries, keys, values
        self.count, self.heads = keys.count, len(queries)
        self.mean = np.empty((self.count, self.heads))
        self.variance = np.empty((self.count, self.heads))
        self.coupled = np.zeros((self.heads, self.heads), dtype=bool)
        self._law: Float[np.ndarray, "k h h"] | None = None
        self._chosen: dict[float, np.ndarray] = {}
        self.unseen: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # by the power of two of the draws
        if self.count * self.heads**2 <= _KEPT:
            self._law = np.empty((self.count, self.heads, self.heads))
        for rows, mean, covariance in self._law_blocks():
            self.mean[rows] = mean
            self.variance[rows] = np.einsum("khh->kh", covariance)
            if self.heads > 1:
                size = np.sqrt(self.variance[rows])
                self.coupled |= (np.abs(covariance) > 1e-13 * size[:, :, None] * size[:, None, :]).any(axis=0)
            if self._law is not None:
                self._law[rows] = covariance
        np.maximum(self.variance, 0.0, out=self.variance)
        # What the highest score is hardly ever below: from there, nothing that always counts is tiny or huge.
        self.shift = (self.mean - 9 * np.sqrt(self.variance)).max(axis=0)
        self.centre = (self.given[self.tops] + self._pulls).mean(axis=0)

    def _law_blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield rows with means and covariances of their scores; a head at right angles to a key's noise sees none of it."""
        lengths = np.maximum((self.queries**2).sum(axis=1), 1e-300)
        for rows, mean, covariance in self.keys.score_blocks(self.queries):
            seen = np.einsum("khh->kh", covariance) / lengths
            blind = seen <= 1e-28 * seen.max(axis=1, keepdims=True)  # no more than rounding
            yield rows, mean, np.where(blind[:, :, None] | blind[:, None, :], 0.0, covariance) if blind.any() else covariance

    @cached_property
    def deviation(self) -> Float[np.ndarray, "k h"]:
        """Standard deviations of the scores."""
        return np.sqrt(self.variance)

    @cached_property
    def shares(self) -> Float[np.ndarray, "k h"]:
        """The weights at the mean scores."""
        found = np.exp(self.mean - self.mean.max(axis=0))
        return found / found.sum(axis=0)

    @cached_property
    def tops(self) -> Int[np.ndarray, " h"]:
        """The key with the highest mean score in each head."""
        return np.asarray(self.mean.argmax(axis=0))

    @cached_property
    def _pulls(self) -> Float[np.ndarray, "h v"]:
        """How far the other keys pull the context of each head at the mean scores from the value of its highest."""
        others = self.shares.copy()
        others[self.tops, np.arange(self.heads)] = 0.0
        near = self.given[self.tops[0]]
        pulls = -others.sum(axis=0)[:, None] * (self.given[self.tops] - near)
        for rows in self._rows():
            pulls += others[rows].T @ (self.given[rows] - near)
        return pulls

    @cached_property
    def offsets(self) -> Float[np.ndarray, "h v"]:
        """Where the context of each head lies at the mean scores, from the centre of all heads."""
        return self.values(self.tops) + self._pulls

    def values(self, rows: slice | Int[np.ndarray, " r"]) -> Float[np.ndarray, "r v"]:
        """Return values from the centre."""
        return self.given[rows] - self.centre

    def away(self, rows: slice | Int[np.ndarray, " r"], head: int) -> Float[np.ndarray, "r v"]:
        """Return values from the context of a head at the mean scores, to all digits even where that is nearly one of them."""
        return (self.given[rows] - self.given[self.tops[head]]) - self._pulls[head]

    def blocks(self) -> Iterator[tuple[slice, Float[np.ndarray, "b h h"]]]:
        """Yield rows and the covariances of their scores, in bounded memory."""
        if self._law is not None:
            size = max(1, _BLOCK // self.heads**2)
            for start in range(0, self.count, size):
                rows = slice(start, min(start + size, self.count))
                yield rows, self._law[rows]
            return
        for rows, _, covariance in self._law_blocks():
            yield rows, covariance

    def covariances(self, rows: Int[np.ndarray, " r"]) -> Float[np.ndarray, "r h h"]:
        """Return the covariances of the scores of some keys."""
        if self._law is not None:
            return self._law[rows]
        found = np.empty((len(rows), self.heads, self.heads))
        for block, covariance in self.blocks():
            inside = np.flatnonzero((rows >= block.start) & (rows < block.stop))
            found[inside] = covariance[rows[inside] - block.start]
        return found

    @cached_property
    def length(self) -> float:
        """The largest distance of a value from the centre."""
        return float(np.sqrt(max(float((self.values(rows) ** 2).sum(axis=1).max()) for rows in self._rows())))

    @cached_property
    def largest(self) -> float:
        """The largest entry of a value, without its sign."""
        return max(float(self.given.max()), -float(self.given.min()))

    def _rows(self) -> Iterator[slice]:
        """Yield the keys, block by block."""
        return (slice(start, start + _BLOCK) for start in range(0, self.count, _BLOCK))

    def rounding(self, trace: float, vary: float) -> tuple[float, float]:
        """Return what rounding may do to a mean, and to a covariance of some trace where weights vary by `vary`.

        Values keep their digits from any context (see `away`), so outputs are off by a little of what their weights vary by.
        """
        moved = 1e-14 * self.length * vary
        return 1e-15 * self.largest, moved * (2 * float(np.sqrt(max(trace, 0.0))) + moved)

    @property
    def certain(self) -> bool:
        """Whether the output cannot vary: one key, one value, or no noise."""
        return self.count == 1 or float(self.variance.max()) == 0 or self.length <= 1e-14 * self.largest

    @cached_property
    def spread(self) -> float:
        """Guess the covariance, relative to the values: the delta method with every key's noise cut at 1."""
        guess = 0.0
        with np.errstate(over="ignore"):
            for lift in (0.0, 1.0, 2.0):
                odds = np.exp(np.minimum(np.log(np.maximum(self.shares, 1e-300)) + lift * self.deviation, 600.0))
                share = odds / (1 - np.minimum(self.shares, 1 - 1e-12) + odds)
                moved = (share * (1 - share)) ** 2 * np.minimum(self.variance, 1.0) * np.exp(-(lift**2) / 2)
                guess = max(guess, float(moved.sum(axis=0).mean()))
        return guess

    @cached_property
    def rare(self) -> float:
        """Guess the logarithm of how small the covariance is beside the values because the output moves in rare draws only.

        One key against the others at their means: with log odds of size l and noise of s it is either the draw of probability
        exp(-(l / s)^2 / 2) that turns the odds round, or, if these are too long for that, the moments exp(2 s^2 - 2 l).
        """
        heads = np.arange(self.heads)
        top = self.tops
        odds = np.exp(self.mean - self.mean[top, heads])
        odds[top, heads] = 0.0
        below = odds.sum(axis=0)
        others = below + 1 - odds
        others[top, heads] = below
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            long = np.abs(self.mean - self.mean[top, heads] - np.log(others))
            turn = np.minimum(long / self.deviation, 1e3)
            logs = np.where(long <= 2 * self.variance, -0.5 * turn**2, 2 * (self.variance - long)) - np.log(2.5 * (1 + turn))
            logs = np.where(self.variance > 0, logs + np.log(np.minimum(self.variance, 1.0)), -np.inf)
            guess = -np.logaddexp.reduce(logs.ravel()) + np.log(self.heads)
        # An error of some twenty times what integrals aim for is still within what they state.
        return float(np.clip(guess - 3, 0.0, _RAREST))

    def wide(self, error: float) -> Int[np.ndarray, " w"]:
        """Return the keys to look at one by one, so that cumulants of fourth order of the others count less than `error`."""
        if self.count <= _FEW:
            return np.arange(self.count)
        # Fourth cumulants change the covariance by far less than their size.
        room = min(150 * error * self.spread, 1.0)
        digits = max(-np.log(error), 1.0)
        if error not in self._chosen:
            chosen = np.zeros(self.count, dtype=bool)
            for head in range(self.heads):
                chosen |= self._wide_in(head, room, digits)
            self._chosen[error] = np.flatnonzero(chosen)
        return self._chosen[error]

    def _wide_in(self, head: int, room: float, digits: float) -> Bool[np.ndarray, " k"]:
        variance = self.variance[:, head]
        log_mean = self.mean[:, head] - self.shift[head] + variance / 2
        w = np.exp(np.minimum(variance, 40.0))
        # Cumulants of a lognormal of mean 1.
        second, fourth = w - 1, _fourth(w)
        # The cumulants of a very noisy key say little about it, however small they are.
        calm = variance < _CALM
        order = np.argsort(np.where(calm, 4 * log_mean + np.log(fourth + 1e-300), np.inf))
        size = np.exp(np.minimum(log_mean[order], 150.0))
        down = max(4.0, 1 + float(np.sqrt(2 * self.rare))) * self.deviation[order, head]
        always = np.exp(np.minimum(self.mean[order, head] - self.shift[head] - down, 150.0))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [np.cumsum(size**power * cumulant[order]) for power, cumulant in ((2, second), (4, fourth))]
            # What the sum is never much below: the bulk's mean, and the others at some standard deviations.
            base = np.cumsum(size) + always.sum() - np.cumsum(always)
            small = (sums[1] <= room * base**4) & (sums[0] <= 0.3 / (digits + 3) * base**2) & calm[order]
        good = np.flatnonzero(small)
        keep = np.ones(self.count, dtype=bool)
        if len(good):
            keep[order[: good[-1] + 1]] = False
        return keep

    def bulk(self, wide: Int[np.ndarray, " w"]) -> Bulk:
        """Sum the cumulants of all keys that are not wide."""
        heads, width = self.heads, self.given.shape[1] + 1
        upper = np.triu_indices(heads)
        sums = np.zeros((2 * heads + len(upper[0]) + heads**2, width))
        fourth = np.zeros(heads)
        for rows, covariance in self.bulk_blocks(wide):
            values = np.column_stack([self.values(rows), np.ones(len(covariance))])
            plain, extra, x = self.bulk_means(rows)
            second, third = cumulants(x, covariance)
            parts = [plain, extra, second[:, *upper], third.reshape(len(x), -1)]
            sums += np.concatenate(parts, axis=1).T @ values
            fourth += ((x**2) ** 2 * _fourth(np.exp(self.variance[rows]))).sum(axis=0)
        second = np.empty((heads, heads, width))
        second[upper] = sums[2 * heads : -(heads**2)]
        second[upper[::-1]] = second[upper]
        third = sums[-(heads**2) :].reshape(heads, heads, width)
        return Bulk(sums[:heads], sums[heads : 2 * heads], second, third, fourth)

    def bulk_blocks(self, wide: Int[np.ndarray, " w"]) -> Iterator[tuple[Int[np.ndarray, " b"], Float[np.ndarray, "b h h"]]]:
        """Yield the rows of the bulk and their covariances, block by block."""
        if len(wide) == self.count:
            return
        inside = np.ones(self.count, dtype=bool)
        inside[wide] = False
        for block, covariance in self.blocks():
            chosen = np.flatnonzero(inside[block])
            if len(chosen):
                yield chosen + block.start, covariance if len(chosen) == len(covariance) else covariance[chosen]

    def bulk_means(self, rows: Int[np.ndarray, " b"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return e^mean, what noise adds to the mean of x, and the mean of x, for some keys."""
        plain = np.exp(self.mean[rows] - self.shift)
        extra = plain * np.expm1(self.variance[rows] / 2)
        return plain, extra, plain + extra


def cumulants(
    x: Float[np.ndarray, "b h"], covariance: Float[np.ndarray, "b h h"]
) -> tuple[Float[np.ndarray, "b h h"], Float[np.ndarray, "b h h"]]:
    """Return the joint cumulants x_h x_g and x_h x_h x_g of lognormals with means x, without cancellation."""
    lift = np.expm1(covariance)
    own = np.einsum("khh->kh", lift)[:, :, None]
    products = x[:, :, None] * x[:, None, :]
    second = products * lift
    # E[xxy] - ... with a = e^C_hh - 1 and b = e^C_hg - 1: (1+a)(1+b)^2 - (1+a) - 2 (1+b) + 2 = b^2 (1 + a) + 2 a b.
    third = x[:, :, None] * products * (lift**2 * (1 + own) + 2 * own * lift)
    return second, third


def _fourth(w: np.ndarray) -> np.ndarray:
    """Return the fourth cumulant of a lognormal of mean 1 whose score has the variance log w."""
    return np.asarray((w - 1) ** 2 * np.maximum(((w + 2) * w + 3) * w**2 - 6, 0.0))
