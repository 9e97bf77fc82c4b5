"""Questions about the whole output that moments do not answer: distribution functions, quantiles, balls.

For one head the widest key is integrated exactly: given all other scores, p.c <= x is a threshold on its score. The rest is
sampled, with independent scramblings of Sobol points where there are few enough scores, and the error comes from their spread.
"""

import numpy as np
from jaxtyping import Float

from headwise.stress import sobol
from headwise.stress.estimate import Estimate
from headwise.stress.sampling import roots
from headwise.stress.scores import Scores

_POWER = 12
_SPACE = 1 << 24
_MOST_DIMENSIONS = 4096


class Sampled:
    """Scores of all keys in every head, sampled once: scrambles x points x keys x heads, by blocks of scrambles."""

    def __init__(self, scores: Scores, seed: int) -> None:
        """Prepare the sampling; nothing is drawn yet."""
        self.scores, self.seed = scores, seed
        self.root = roots(scores.covariances(np.arange(scores.count)))
        self.size = 2 ** int(np.clip(np.log2(_SPACE / (scores.count * scores.heads)), 4, _POWER))

    def scramble(self, number: int) -> Float[np.ndarray, "n k h"]:
        """Return the scores of one scramble, from the shift."""
        scores = self.scores
        dimensions = scores.count * scores.heads
        rng = np.random.default_rng([self.seed, 7, number])
        if dimensions <= _MOST_DIMENSIONS:
            order = np.argsort(-(self.root**2).sum(axis=1).ravel(), kind="stable")
            noise = np.empty((self.size, dimensions))
            noise[:, order] = sobol.normals(dimensions, self.size, rng)
            noise = noise.reshape(self.size, scores.count, scores.heads)
        else:
            noise = rng.standard_normal((self.size, scores.count, scores.heads))
        return np.einsum("khg,nkg->nkh", self.root, noise, optimize=True) + (scores.mean - scores.shift)

    def chance(self, parts: list[float]) -> Estimate:
        """Return a probability from its scrambles; events that no point meets are not called impossible."""
        found = spread(parts)
        return Estimate(found.value, found.error + 3 / (self.size * len(parts)))

    def contexts(self, number: int) -> Float[np.ndarray, "n v"]:
        """Return the averaged contexts of one scramble."""
        found = self.scramble(number)
        found -= found.max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found.mean(axis=2) @ self.scores.given


def spread(parts: list[float]) -> Estimate:
    """Return the mean of independent estimates and its 95% error."""
    each = np.array(parts)
    return Estimate(float(each.mean()), sobol.spread(each))


def distribution(scores: Scores, direction: Float[np.ndarray, " v"], at: float, seed: int) -> Estimate:
    """Return the probability that the output along a direction is at most some number."""
    sampled = Sampled(scores, seed)
    if scores.heads > 1:
        slack = 1e-12 * float(np.abs(scores.given @ direction).max())
        values = (sampled.contexts(number) @ direction for number in range(sobol.SCRAMBLES))
        return sampled.chance([float((value <= at + slack).mean()) for value in values])
    along = scores.given @ direction
    return sampled.chance([_Thresholds(sampled, number, along).at(at) for number in range(sobol.SCRAMBLES)])


def quantile(scores: Scores, direction: Float[np.ndarray, " v"], p: float, seed: int) -> Estimate:
    """Return where the distribution function along a direction passes p, and where its error lets it do so."""
    sampled = Sampled(scores, seed)
    along = scores.given @ direction
    if scores.heads > 1:
        return _pooled(np.concatenate([sampled.contexts(number) @ direction for number in range(sobol.SCRAMBLES)]), p)
    below = [_Thresholds(sampled, number, along) for number in range(sobol.SCRAMBLES)]

    def passed(wanted: float) -> float:
        low, high = float(along.min()), float(along.max())
        for _ in range(60):
            middle = (low + high) / 2
            at = float(np.mean([one.at(middle) for one in below]))
            low, high = (middle, high) if at < wanted else (low, middle)
        return (low + high) / 2

    found = passed(p)
    doubt = sampled.chance([one.at(found) for one in below]).error
    return Estimate(found, max(found - passed(p - doubt), passed(p + doubt) - found))


def within(scores: Scores, target: Float[np.ndarray, " v"], radius: float, seed: int) -> Estimate:
    """Return the probability that the output is within a distance of a target."""
    sampled = Sampled(scores, seed)
    slack = 1e-12 * scores.length
    lengths = (np.linalg.norm(sampled.contexts(number) - target, axis=1) for number in range(sobol.SCRAMBLES))
    return sampled.chance([float((length <= radius + slack).mean()) for length in lengths])


def _pooled(values: Float[np.ndarray, " n"], p: float) -> Estimate:
    """Return a quantile of all points, with the error that the number of points below it may have."""
    wide = 2.5 * np.sqrt(p * (1 - p) / len(values)) + 3 / len(values)
    low, found, high = np.quantile(values, [max(p - wide, 0.0), p, min(p + wide, 1.0)]).tolist()
    error = max(found - low, high - found)
    # Beyond all points nothing is known but the range of the output.
    return Estimate(found, float(error if 0 < p - wide < p + wide < 1 else error + np.ptp(values)))


class _Thresholds:
    """One head, one scramble: the distribution function with the widest key integrated exactly."""

    def __init__(self, sampled: Sampled, number: int, along: Float[np.ndarray, " k"]) -> None:
        scores = sampled.scores
        self.widest = int(scores.variance[:, 0].argmax())
        found = np.delete(sampled.scramble(number)[:, :, 0], self.widest, axis=1)
        self.top = found.max(axis=1, initial=-np.inf)
        self.x = np.exp(found - self.top[:, None])
        self.others, self.own = np.delete(along, self.widest), float(along[self.widest])
        self.mean = float(scores.mean[self.widest, 0] - scores.shift[0])
        self.deviation = float(scores.deviation[self.widest, 0])

    def at(self, level: float) -> float:
        """Return the probability of being at most this level, given the sampled scores, on average."""
        from scipy.special import ndtr  # noqa: PLC0415

        level += 1e-12 * max(abs(self.own), float(np.abs(self.others).max(initial=0.0)))
        rest = self.x @ (level - self.others)
        gap = self.own - level
        # e^s gap <= rest: certain or impossible where the signs say so, a threshold on s where they agree.
        certain = np.where(gap <= 0, rest >= 0, rest > 0) & (gap <= 0)
        open_ = (rest > 0) & (gap > 0) | (rest < 0) & (gap < 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            threshold = np.log(np.abs(rest)) - np.log(abs(gap) or 1.0) + self.top
        if self.deviation > 0:
            chance = ndtr((threshold - self.mean) / self.deviation)
        else:
            chance = (threshold >= self.mean).astype(float)
        return float(np.where(open_, chance if gap > 0 else 1 - chance, certain.astype(float)).mean())
