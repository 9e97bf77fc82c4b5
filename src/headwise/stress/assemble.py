"""From integrals of heads and pairs to the mean and covariance of the averaged output, with an error for each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float

from headwise.stress.laplace import Moments, Split, one_head
from headwise.stress.pairs import two_heads
from headwise.stress.quadrature import Accuracy
from headwise.stress.scores import Bulk, Scores, cumulants

Tick = Callable[[int, int, str], object]
Triple = tuple[Moments, Moments, Moments]


@dataclass(frozen=True)
class Found:
    """Mean and covariance of the output, bounds on their errors, and how they came about."""

    mean: Float[np.ndarray, " v"]
    covariance: Float[np.ndarray, "v v"]
    mean_error: float
    covariance_error: float
    variance_error: float
    mass: float
    evaluations: int
    # What of the covariance's error comes from the bulk, and not from the rules.
    bulk_error: float = 0.0
    # What of it comes from noise that is too rare to be looked at.
    cut_error: float = 0.0
    # What of it comes from rounding, which finer rules do not mend.
    rounding_error: float = 0.0
    # For a block between two heads: the size of the heads' own covariances, which it may be far smaller than.
    scale: float = 0.0


@dataclass(frozen=True)
class Integrals:
    """All integrals that the law of some heads needs."""

    scores: Scores
    split: Split
    accuracy: Accuracy
    heads: list[Triple]
    pairs: dict[tuple[int, int], Triple]

    @classmethod
    def of(cls, scores: Scores, aims: tuple[float, float, float], tick: Tick | None = None) -> "Integrals":
        """Integrate every head and every pair of heads that have noise in common.

        Aims are the error of the rules, that of the bulk, and how rare noise may be that is looked at.
        """
        error, left, rare = aims
        split = Split.of(scores, left)
        accuracy = Accuracy(error, len(split.wide), rare)
        heads = [one_head(scores, head, split, accuracy) for head in range(scores.heads)]
        coupled = [pair for pair in combinations(range(scores.heads), 2) if scores.coupled[pair]]
        pairs = {}
        for done, (h, g) in enumerate(coupled, 1):
            pairs[h, g] = two_heads(scores, (h, g), split, accuracy, (heads[h][0].span, heads[g][0].span))
            if tick is not None:
                tick(done, len(coupled), "pairs of heads")
        return cls(scores, split, accuracy, heads, pairs)

    @property
    def mass(self) -> float:
        """What the expected weights sum to, from the integral that is worst."""
        found = [triple[0].mass for triple in [*self.heads, *self.pairs.values()]]
        return max(found, key=lambda mass: abs(mass - 1))

    @property
    def evaluations(self) -> int:
        """How many nodes."""
        return sum(triple[0].nodes for triple in [*self.heads, *self.pairs.values()])

    def means(self, grade: int) -> Float[np.ndarray, "h v"]:
        """Return the mean of each head's context from its context at the mean scores."""
        return np.stack([triple[grade].left.T @ triple[grade].first for triple in self.heads])

    def found(self, block: tuple[int, int] | None = None) -> Found:
        """Return the law of the mean over all heads, or one head-by-head block of the covariance."""
        heads = self.scores.heads
        diagonal = {(h, h): triple for h, triple in enumerate(self.heads)}
        units = {k: v for k, v in (diagonal | self.pairs).items() if block is None or set(k) <= set(block)}
        share = 1 / heads**2 if block is None else 1.0
        turn = self._coordinates(units)
        means = np.stack([self.means(grade) for grade in range(3)]) @ turn
        away = [self.scores.away(self.split.wide, head) @ turn for head in range(heads)]
        totals = np.zeros((3, turn.shape[1], turn.shape[1]))
        factors = np.zeros((3, 2, heads, heads))
        own = np.zeros(totals.shape[1:])
        for (h, g), triple in units.items():
            left, right = triple[0].left @ turn, triple[0].right @ turn
            twice = share * (1 + (h != g)) if block is None else float((h, g) == block)
            for grade, moments in enumerate(triple[: 2 if self.split.bulk is None else 3]):
                part = left.T @ (moments.core @ right) - np.outer(means[grade, h], means[grade, g])
                part += (away[h].T * moments.keys) @ away[g]
                if self.split.bulk is not None:
                    part += self._bulk_part(self.split.bulk, moments, (h, g), turn)
                totals[grade] += twice * part
                if grade == 0 and h == g:
                    own += part
                factors[grade, 0, h, g] += twice * moments.bulk[0]
                factors[grade, 1, h, g] += twice * moments.bulk[1]
                factors[grade, 1, g, h] += twice * moments.bulk[2]
        if self.split.bulk is None:
            totals[2] = totals[0]
        if block is None:
            totals = (totals + np.swapaxes(totals, 1, 2)) / 2
        grams = self._keys(factors)
        best = 2 if self.split.bulk is not None else 0
        covariance = turn @ totals[best] @ turn.T + grams[best]
        added = share * _added(own, units if block is None else [block])
        size = max(float(np.linalg.norm(covariance)), added, 1e-300)
        changes = [
            float(np.linalg.norm(totals[grade] - totals[0]) + np.linalg.norm(grams[grade] - grams[0])) for grade in (1, 2)
        ]
        traces = [abs(float(np.trace(totals[grade] - totals[0]) + np.trace(grams[grade] - grams[0]))) for grade in (1, 2)]
        shifts = [float(np.linalg.norm((means[grade] - means[0]).mean(axis=0))) for grade in (1, 2)]
        trace = max(float(np.trace(covariance)), size)
        length = float(np.sqrt(trace))
        doubt, rounding = self.scores.rounding(trace, float(np.exp(-0.5 * self.scores.rare)))
        # Draws beyond the reach, in either score of a pair: means move by the largest value at most, moments by its square.
        noisiest = self.scores.deviation[self.split.wide].max(axis=1, initial=0.0)
        rare = 2 * self.accuracy.cut(noisiest)
        cut = (rare + self.accuracy.least(noisiest)) * self.scores.length**2
        error = self._error(changes[0] / size, changes[1] / size) * size + rounding + cut
        return Found(
            self.scores.centre + (self.scores.offsets + self.means(best)).mean(axis=0),
            covariance,
            self._error(shifts[0] / length, shifts[1] / length) * length + doubt + rare * self.scores.length,
            error,
            max(error, self._error(traces[0] / trace, traces[1] / trace) * trace + rounding + cut),
            self.mass,
            self.evaluations,
            changes[1],
            cut,
            rounding,
            added if block is not None and block[0] != block[1] else 0.0,
        )

    def _coordinates(self, units: dict[tuple[int, int], Triple]) -> Float[np.ndarray, "v c"]:
        """Return orthonormal columns that span all vectors in use, where they are fewer than the width of the values."""
        width = self.scores.given.shape[1]
        vectors = [part for triple in units.values() for part in {id(p): p for p in (triple[0].left, triple[0].right)}.values()]
        if sum(map(len, vectors)) + self.scores.heads >= width:
            return np.eye(width)
        return np.linalg.qr(np.concatenate([*vectors, self.scores.values(self.split.wide), self.scores.offsets]).T)[0]

    def _bulk_part(self, bulk: Bulk, moments: Moments, pair: tuple[int, int], turn: np.ndarray) -> Float[np.ndarray, "c c"]:
        """Return what the offsets of two heads add to the sum of weights times v v^T over the bulk."""
        h, g = pair
        left, right = self.scores.offsets[[h, g]] @ turn
        parts = zip(moments.bulk, (bulk.second[h, g], bulk.third[h, g], bulk.third[g, h]), strict=True)
        vector = np.asarray(sum(factor * part for factor, part in parts))
        summed = vector[:-1] @ turn
        return float(vector[-1]) * np.outer(left, right) - np.outer(summed, right) - np.outer(left, summed)

    def _error(self, coarse: float, fourth: float) -> float:
        """Turn the changes from a coarser rule, and those that the guess of the last order made, into a relative error.

        A rule with half as many nodes is worse by a factor that the width of the strip gives; 10 is for what grows on its edge.
        Both may agree by chance, so what such a rule may be off by is added.
        """
        rule = coarse * min(1.0, 10 * self.accuracy.gain) + max(40 * self.accuracy.error, self.accuracy.alias)
        return float(rule + fourth + 1e-15 * (10 + self.accuracy.rare))

    def _keys(self, factors: Float[np.ndarray, "3 2 h h"]) -> Float[np.ndarray, "3 v v"]:
        """Return the sum of weights times v v^T over the bulk, for each set of weights."""
        width = self.scores.given.shape[1]
        grams = np.zeros((3, width, width))
        if self.split.bulk is not None:
            flat = factors.reshape(3, -1).T
            for rows, covariance in self.scores.bulk_blocks(self.split.wide):
                x = self.scores.bulk_means(rows)[2]
                features = np.concatenate([part.reshape(len(x), -1) for part in cumulants(x, covariance)], axis=1)
                values = self.scores.values(rows)
                for grade, weights in enumerate((features @ flat).T):
                    grams[grade] += weighted_gram(values, weights)
        return grams


def weighted_gram(values: Float[np.ndarray, "b v"], weights: Float[np.ndarray, " b"]) -> Float[np.ndarray, "v v"]:
    """Return the sum of w v v^T; as a matrix times its own transpose, for each sign of w, that is half the work."""
    rooted = values * np.sqrt(np.abs(weights))[:, None]
    below = weights < 0
    if not below.any():
        return rooted.T @ rooted
    above, under = rooted[~below], rooted[below]
    return above.T @ above - under.T @ under


def _added(own: Float[np.ndarray, "c c"], units: Iterable[tuple[int, int]]) -> float:
    """Bound what errors are relative to, where heads may cancel, by the sum of the heads' own covariances L_h L_h^T.

    A relative error of 1 in each block of second moments is L W L^T with L = (L_1 .. L_H) and blocks of norm 1 in W, so it is
    at most |L|^2 |W|, the norm of sum L_h L_h^T times the root of the number of blocks.
    """
    blocks = sum(1 + (h != g) for h, g in units)
    return float(np.sqrt(blocks)) * float(np.linalg.norm(own, 2))
