"""Scrambled Sobol points as normals, and the error that independent scramblings show."""

import numpy as np
from jaxtyping import Float

SCRAMBLES = 16
# Two-sided 95% point of Student's t with 15 degrees of freedom (2.13), and some more: scrambles are not normal.
_STUDENT = 2.5


def normals(dimensions: int, count: int, rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Return `count` points, a power of two, each coordinate standard normal."""
    from scipy.special import ndtri  # noqa: PLC0415  slow to load
    from scipy.stats import qmc  # noqa: PLC0415

    return np.asarray(ndtri(np.clip(qmc.Sobol(dimensions, rng=rng).random(count), 1e-16, 1 - 1e-16)))


def spread(parts: np.ndarray) -> float:
    """Return the 95% error of the mean of independent estimates, numbers or arrays in the first axis; 0 for a single one."""
    count = len(parts)
    return 0.0 if count == 1 else _STUDENT * float(np.sqrt(((parts - parts.mean(axis=0)) ** 2).sum() / (count * (count - 1))))
