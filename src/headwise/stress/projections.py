"""Questions about the whole output that moments do not answer: distribution functions, quantiles, balls.

For one head with few enough keys for Sobol points the widest key is integrated exactly: given all other scores, p.c <= x is a
threshold on its score. The rest, or all, is sampled in independent parts, and the error comes from their spread.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from jaxtyping import Float

from headwise.stress import sobol
from headwise.stress.assemble import Tick
from headwise.stress.estimate import Estimate
from headwise.stress.sampling import Sampler, contexts, roots
from headwise.stress.scores import Scores

_POWER = 12
_SPACE = 1 << 24
# Scores that are drawn for each scramble, at most, by the fused sampler.
_RANDOM_SPACE = 1 << 27
# Outputs that are looked at first: if they do not spread over so many roundings of single precision, it is not enough.
_TRIED, _CLEAR = 64, 300.0
_MOST_DIMENSIONS = 4096


class Sampled:
    """Outputs sampled once, in independent parts: from scrambled Sobol points, or at random if there are many scores."""

    def __init__(self, scores: Scores, seed: int, tick: Tick | None) -> None:
        """Prepare the sampling; nothing is drawn yet."""
        self.scores, self.seed, self.tick = scores, seed, tick
        self.dimensions = scores.count * scores.heads
        self.many = self.dimensions > _MOST_DIMENSIONS
        self.fused = Sampler(scores) if self.many else None
        if self.fused is not None:
            tried = self.fused.contexts((seed, 6 << 16), 0, _TRIED)
            if float(np.sqrt(tried.var(axis=0).sum())) < _CLEAR * self.rounding:
                self.fused = None
        space = _SPACE if self.fused is None else _RANDOM_SPACE
        self.size = 2 ** int(np.clip(np.log2(space / self.dimensions), 4, _POWER))

    @cached_property
    def root(self) -> Float[np.ndarray, "k h h"]:
        """Roots of the covariances of all scores."""
        return roots(self.scores.covariances(np.arange(self.scores.count)))

    @property
    def rounding(self) -> float:
        """How far an output may be off, along a direction of length 1: the fused sampler has single precision."""
        return 4e-7 * self.scores.length if self.fused is not None else 1e-12 * self.scores.largest

    def parts(self) -> Iterator[int]:
        """Count the parts, and tell of each when it is done."""
        for number in range(sobol.SCRAMBLES):
            yield number
            if self.tick is not None:
                self.tick(number + 1, sobol.SCRAMBLES, f"{self.size * sobol.SCRAMBLES} outputs")

    def scramble(self, number: int) -> Float[np.ndarray, "n k h"]:
        """Return the scores of one scramble of Sobol points, from the shift."""
        scores = self.scores
        rng = np.random.default_rng([self.seed, 7, number])
        order = np.argsort(-(self.root**2).sum(axis=1).ravel(), kind="stable")
        noise = np.empty((self.size, self.dimensions))
        noise[:, order] = sobol.normals(self.dimensions, self.size, rng)
        noise = noise.reshape(self.size, scores.count, scores.heads)
        return np.einsum("khg,nkg->nkh", self.root, noise, optimize=True) + (scores.mean - scores.shift)

    def chance(self, parts: list[float]) -> Estimate:
        """Return a probability from its scrambles; events that no point meets are not called impossible."""
        found = spread(parts)
        return Estimate(found.value, found.error + 3 / (self.size * len(parts)))

    def below(self, parts: Iterable[Float[np.ndarray, " n"]], at: float, slack: float) -> Estimate:
        """Return the probability of being at most a number; outputs so near to it that rounding decides are half of the error.

        Those of double precision that near are equal to it.
        """
        if self.fused is None:
            return self.chance([float((part <= at + slack).mean()) for part in parts])
        sides = np.array([[float((part <= at + way * slack).mean()) for way in (-1, 1)] for part in parts])
        found = self.chance(sides.mean(axis=1).tolist())
        return Estimate(found.value, found.error + float(np.ptp(sides, axis=1).mean()) / 2)

    def contexts(self, number: int) -> Float[np.ndarray, "n v"]:
        """Return the averaged contexts of one part."""
        if self.many and self.fused is None:
            rng = np.random.default_rng([self.seed, 7, number])
            return contexts(self.scores, self.size, rng).mean(axis=1) + self.scores.centre
        if self.fused is not None:
            size = max(1, _SPACE // self.dimensions)
            key = self.seed, 7 << 16 | number
            each = [self.fused.contexts(key, start, min(size, self.size - start)) for start in range(0, self.size, size)]
            return np.concatenate(each) + self.scores.centre
        found = self.scramble(number)
        found -= found.max(axis=1, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=1, keepdims=True)
        return found.mean(axis=2) @ self.scores.given


def spread(parts: list[float]) -> Estimate:
    """Return the mean of independent estimates and its 95% error."""
    each = np.array(parts)
    return Estimate(float(each.mean()), sobol.spread(each))


def distribution(
    scores: Scores, direction: Float[np.ndarray, " v"], at: float, seed: int, tick: Tick | None = None
) -> Estimate:
    """Return the probability that the output along a direction is at most some number."""
    sampled = Sampled(scores, seed, tick)
    along = scores.given @ direction
    if scores.heads > 1 or sampled.many:
        slack = sampled.rounding * float(np.linalg.norm(direction))
        return sampled.below((sampled.contexts(number) @ direction for number in sampled.parts()), at, slack)
    return sampled.chance([_Thresholds(sampled, number, along).at(at) for number in sampled.parts()])


def quantile(scores: Scores, direction: Float[np.ndarray, " v"], p: float, seed: int, tick: Tick | None = None) -> Estimate:
    """Return where the distribution function along a direction passes p, and where its error lets it do so."""
    sampled = Sampled(scores, seed, tick)
    along = scores.given @ direction
    if scores.heads > 1 or sampled.many:
        found = _pooled(np.concatenate([sampled.contexts(number) @ direction for number in sampled.parts()]), p)
        return Estimate(found.value, found.error + sampled.rounding * float(np.linalg.norm(direction)))
    below = [_Thresholds(sampled, number, along) for number in sampled.parts()]

    def passed(wanted: float) -> float:
        low, high = float(along.min()), float(along.max())
        for _ in range(60):
            half = (low + high) / 2
            at = float(np.mean([one.at(half) for one in below]))
            low, high = (half, high) if at < wanted else (low, half)
        return (low + high) / 2

    middle = passed(p)
    doubt = sampled.chance([one.at(middle) for one in below]).error
    return Estimate(middle, max(middle - passed(p - doubt), passed(p + doubt) - middle))


def within(scores: Scores, target: Float[np.ndarray, " v"], radius: float, seed: int, tick: Tick | None = None) -> Estimate:
    """Return the probability that the output is within a distance of a target."""
    sampled = Sampled(scores, seed, tick)
    lengths = (np.linalg.norm(sampled.contexts(number) - target, axis=1) for number in sampled.parts())
    return sampled.below(lengths, radius, sampled.rounding)


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
