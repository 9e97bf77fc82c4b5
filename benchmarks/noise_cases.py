"""The cases that the law of the output is timed on, and what a careful user would write instead."""

from dataclasses import dataclass

import numpy as np

import headwise as hw


@dataclass(frozen=True)
class Case:
    """Means, noise, queries and values; `factors` are the keys with noise along one direction."""

    means: np.ndarray
    alpha: float
    factors: dict[int, np.ndarray]
    queries: np.ndarray
    values: np.ndarray

    @property
    def keys(self) -> hw.RandomKeys:
        return hw.RandomKeys(self.means, isotropic=self.alpha, factors=self.factors)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def small(heads: int) -> Case:
    """Ten orthonormal keys, one of varying length: one head that averages two, or two that copy one each."""
    means = hw.orthonormal(10, 64)
    queries = 10 * (means[:1] + means[1:2]) if heads == 1 else 10 * means[:2]
    values = np.random.default_rng(0).standard_normal((10, 64))
    return Case(means, 1e-3, {0: np.sqrt(0.5) * means[0][:, None]}, queries, values)


def large(count: int, width: int, heads: int, seed: int) -> Case:
    """Many keys, twenty of them with noise along one direction, most of those shared between heads."""
    rng = np.random.default_rng(seed)
    means = _unit(rng.standard_normal((count, width)))
    factors = {i: np.sqrt(0.5) * means[i][:, None] for i in range(heads)}
    middle = means[:heads].sum(axis=0) / (np.sqrt(heads) if heads > 2 else 1)
    for i in range(heads, 20):
        factors[i] = np.sqrt(0.5) * _unit(middle + _unit(rng.standard_normal(width)))[:, None]
    return Case(means, 1e-2, factors, 10 * means[:heads], rng.standard_normal((count, width)))


CASES = {
    "A1": lambda: small(1),
    "A2": lambda: small(2),
    "B": lambda: large(1000, 512, 2, 1),
    "C": lambda: large(100_000, 128, 8, 2),
}


def whole_keys(case: Case, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Sample whole keys, all at once, and attend."""
    keys = rng.standard_normal((draws, *case.means.shape))
    keys *= np.sqrt(case.alpha)
    keys += case.means
    for row, factor in case.factors.items():
        keys[:, row] += rng.standard_normal((draws, factor.shape[1])) @ factor.T
    scores = keys @ case.queries.T
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.mean(axis=2) @ case.values
