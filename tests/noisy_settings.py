"""Random settings for the law of the output, and whole keys sampled by hand to compare with."""

import numpy as np

import headwise as hw


def setting(seed, most_keys=60, most_heads=3):
    """Return queries, random keys, values: low-rank, diagonal and isotropic noise, heads with and without noise in common."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, rng.choice([6, 20, most_keys])))
    width, heads = int(rng.integers(2, 12)), int(rng.integers(1, most_heads + 1))
    means = rng.normal(size=(count, width)) / np.sqrt(width)
    scale = 10 ** rng.uniform(-0.5, 1.2)
    queries = 1.5 * scale * rng.normal(size=(heads, width)) / np.sqrt(width)
    if rng.random() < 0.3:
        queries = scale * np.linalg.qr(rng.normal(size=(width, width)))[0][: min(heads, width)]
    kind = rng.integers(4)
    noise = {"diagonal": 10 ** rng.uniform(-3, 0, size=width)} if kind == 1 else {"isotropic": 10 ** rng.uniform(-3, 0)}
    if kind >= 2:
        noise["along_mean"] = {int(rng.integers(count)): float(rng.uniform(0.1, 1))}
    if kind == 3:
        rows = rng.choice(count, min(count, 3), replace=False)
        noise["factors"] = {int(row): 0.4 * rng.normal(size=(width, 2)) for row in rows}
    return queries, hw.RandomKeys(means, **noise), rng.normal(size=(count, int(rng.integers(1, 7))))


def quieter(random_keys, factor):
    """Return the same keys with every variance smaller by a factor."""
    parts = {row: np.sqrt(factor) * part for row, part in random_keys.factors.items()}
    diagonal = None if random_keys.diagonal is None else factor * random_keys.diagonal
    lengths = {row: factor * tau for row, tau in random_keys.along_mean.items()}
    isotropic = factor * random_keys.isotropic
    return hw.RandomKeys(random_keys.means, isotropic=isotropic, diagonal=diagonal, factors=parts, along_mean=lengths)


def brute_force(queries, random_keys, values, draws, seed):
    """Return contexts from whole keys."""
    keys = random_keys.sample(draws, seed=seed)
    scores = np.einsum("nkd,hd->nhk", keys, queries)
    scores -= scores.max(axis=2, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(axis=2, keepdims=True)
    return weights.mean(axis=1) @ values
