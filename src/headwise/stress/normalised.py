"""What is left of the noise when every key is brought to the length of its mean before it is scored (QK-norm).

Scores then depend on the length of a key too, so whole keys count, not their scores alone. Where a key's noise is isotropic,
with or without a length that varies, a few coordinates are enough: those along the queries, the one along what is left of the
mean, and the length of all others, whose square is a chi-squared number.
"""

import numpy as np
from jaxtyping import Float, Int

from headwise.core.random_keys import RandomKeys
from headwise.stress.assemble import Tick
from headwise.stress.estimate import Estimate
from headwise.stress.sampling import BATCHES, STUDENT

_SPACE = 1 << 22
# How many numbers are drawn in all, about, and outputs in each batch at most.
_NUMBERS = 1 << 26
_MOST_DRAWS = 4096


class Normalised:
    """Keys of the length of their means, as scores of some heads."""

    def __init__(self, random_keys: RandomKeys, heads: Float[np.ndarray, "h d"]) -> None:
        """Turn the means to coordinates along the queries; keys with other noise are kept whole."""
        self.heads, keys = heads, random_keys
        means = np.asarray(keys.means, dtype=np.float64)
        self.lengths = np.linalg.norm(means, axis=1)
        whole = set(range(keys.count)) if keys.diagonal is not None else set(keys.factors)
        whole |= {row for row, tau in keys.along_mean.items() if tau < 0}
        self.whole = np.array(sorted(whole), dtype=np.intp)
        self.few = np.setdiff1d(np.arange(keys.count), self.whole)
        self.sampled = _only(keys, means, self.whole) if len(self.whole) else None
        left, sizes, _ = np.linalg.svd(heads.T, full_matrices=False)
        self.basis = left[:, sizes > 1e-14 * sizes.max(initial=0.0)]
        self.along = means[self.few] @ self.basis
        self.aside = np.linalg.norm(means[self.few] - self.along @ self.basis.T, axis=1)
        self.deviation = np.sqrt(np.broadcast_to(keys.isotropic, (keys.count,))[self.few])
        self.stretch = np.sqrt([max(keys.along_mean.get(row, 0.0), 0.0) for row in self.few.tolist()])
        self.stretched = np.flatnonzero(self.stretch)
        self.others = keys.width - self.basis.shape[1]
        self.each = len(self.few) * (self.basis.shape[1] + 2) + len(self.whole) * keys.width

    def scores(self, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "draws k h"]:
        """Draw scores of all keys."""
        found = np.empty((draws, len(self.lengths), len(self.heads)))
        if self.sampled is not None:
            drawn = self.sampled.sample(draws, seed=rng)
            found[:, self.whole] = self._scored(self.whole, drawn @ self.heads.T, np.linalg.norm(drawn, axis=2))
        longer = np.ones((draws, len(self.few)))
        longer[:, self.stretched] += self.stretch[self.stretched] * rng.standard_normal((draws, len(self.stretched)))
        along = rng.standard_normal((draws, *self.along.shape)) * self.deviation[:, None] + longer[:, :, None] * self.along
        square = (along**2).sum(axis=2)
        if self.others:
            square += (rng.standard_normal(longer.shape) * self.deviation + longer * self.aside) ** 2
        if self.others > 1:
            square += rng.chisquare(self.others - 1, longer.shape) * self.deviation**2
        found[:, self.few] = self._scored(self.few, along @ (self.heads @ self.basis).T, np.sqrt(square))
        return found

    def _scored(self, rows: Int[np.ndarray, " r"], products: np.ndarray, lengths: np.ndarray) -> Float[np.ndarray, "draws r h"]:
        return products * (self.lengths[rows] / np.where(lengths > 0, lengths, 1.0))[:, :, None]


def _only(keys: RandomKeys, means: Float[np.ndarray, "k d"], rows: Int[np.ndarray, " r"]) -> RandomKeys:
    """Return some of the keys."""
    place = {row: new for new, row in enumerate(rows.tolist())}
    return RandomKeys(
        means[rows],
        isotropic=np.broadcast_to(keys.isotropic, (keys.count,))[rows],
        diagonal=None if keys.diagonal is None else np.broadcast_to(keys.diagonal, means.shape)[rows],
        factors={place[row]: factor for row, factor in keys.factors.items() if row in place},
        along_mean={place[row]: tau for row, tau in keys.along_mean.items() if row in place},
    )


def normalised_errors(
    heads: Float[np.ndarray, "h d"],
    random_keys: RandomKeys,
    values: Float[np.ndarray, "k v"],
    target: Float[np.ndarray, " v"],
    seed: int,
    tick: Tick | None = None,
) -> tuple[Estimate, Estimate]:
    """Return the mean squared error and the variance of the output of normalised keys, from samples."""
    keys = Normalised(random_keys, heads)
    draws = int(np.clip(_NUMBERS / (BATCHES * keys.each), 2, _MOST_DRAWS))
    size = max(1, _SPACE // keys.each)
    errors, variances = [], []
    for batch in range(BATCHES):
        rng, parts = np.random.default_rng([seed, 11, batch]), []
        for start in range(0, draws, size):
            found = keys.scores(min(size, draws - start), rng)
            found -= found.max(axis=1, keepdims=True)
            weights = np.exp(found)
            parts.append((weights / weights.sum(axis=1, keepdims=True)).mean(axis=2) @ values)
        read = np.concatenate(parts)
        errors.append(float(((read - target) ** 2).sum(axis=1).mean()))
        variances.append(float(read.var(axis=0, ddof=1).sum()))
        if tick is not None:
            tick(batch + 1, BATCHES, f"{BATCHES * draws} outputs of normalised keys")

    def estimate(parts: list[float], most: float) -> Estimate:
        # What no draw shows has a probability of up to 3 / draws, and moves the estimate by at most `most`.
        unseen = 3 / (BATCHES * draws) * most
        return Estimate(float(np.mean(parts)), STUDENT * float(np.std(parts, ddof=1)) / np.sqrt(BATCHES) + unseen)

    far, wide = (float(((values - centre) ** 2).sum(axis=1).max()) for centre in (target, values.mean(axis=0)))
    return estimate(errors, far), estimate(variances, 4 * wide)
