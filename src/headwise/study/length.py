"""What one random length does, without any other noise: integrals over that length, to hold the laws of `stress` against.

Scores depend on the length z ~ N(1, tau) of key a alone, so the weights of a, b and each of the rest are closed formulas in
z; their moments are one-dimensional integrals, left to SciPy with panels that end where scores cross.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Spread:
    """Variance and mean squared error of the output, and the probability of what was conditioned on."""

    variance: float
    mean_squared_error: float
    probability: float
    error: float


def spread(keys: int, scale: float, length_variance: float, *, heads: int, positive: bool = False) -> Spread:
    """Integrate the output of one head (query scale (mu_a + mu_b)) or of two (scale mu_a and scale mu_b).

    Values are orthonormal and the average of a and b is wanted; `positive` looks at positive lengths only.

    >>> one, two = (spread(10, 10.0, 0.5, heads=heads) for heads in (1, 2))
    >>> round(one.variance, 4), round(two.variance, 4)
    (0.3905, 0.0254)
    """
    from scipy.integrate import quad_vec  # noqa: PLC0415  slow to load

    deviation = length_variance**0.5

    def moments(z: float) -> Float[np.ndarray, "6"]:
        a, b, rest = _weights(keys, scale, z, heads)
        away = (a - 0.5) ** 2 + (b - 0.5) ** 2 + (keys - 2) * rest**2
        squares = a**2 + b**2 + (keys - 2) * rest**2
        density = np.exp(-0.5 * ((z - 1) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
        return density * np.array([1.0, a, b, rest, squares, away])

    low, high = (0.0 if positive else 1 - 12 * deviation), 1 + 12 * deviation
    bends = [0.0, 1.0, *(centre + side * 20 / scale for centre in (0.0, 1.0) for side in (-1, 1))]
    points = sorted({float(point) for point in bends if low < point < high})
    total, error = quad_vec(moments, low, high, epsabs=1e-12, epsrel=1e-12, points=points, limit=2000)
    a, b, rest, squares, away = (total[1:] / total[0]).tolist()
    variance = squares - a**2 - b**2 - (keys - 2) * rest**2
    return Spread(variance, away, float(total[0]), 8 * keys * float(error) + 1e-13)


def _weights(keys: int, scale: float, z: float, heads: int) -> tuple[float, float, float]:
    """Return the weights of a, of b and of each other key when a has the length z."""
    top = max(scale * z, 0.0)
    if heads == 1:
        top = max(top, scale)
        a, b, rest = np.exp(scale * z - top), np.exp(scale - top), np.exp(-top)
        total = a + b + (keys - 2) * rest
        return float(a / total), float(b / total), float(rest / total)
    a, rest = np.exp(scale * z - top), np.exp(-top)
    total = a + (keys - 1) * rest
    fade = np.exp(-scale)
    other = 1 + (keys - 1) * fade
    return (
        float(a / total + fade / other) / 2,
        float(rest / total + 1 / other) / 2,
        float(rest / total + fade / other) / 2,
    )


def negative(length_variance: float) -> float:
    """Return the probability of a negative length.

    >>> round(negative(0.5), 4), f"{negative(0.01):.1e}"
    (0.0786, '7.6e-24')
    """
    return math.erfc(1 / math.sqrt(2 * length_variance)) / 2


def jumped(keys: int, scale: float, length_variance: float, share: float = 0.9) -> float:
    """Return the probability that one head gives a or b more than a share of the weight.

    >>> round(jumped(10, 10.0, 0.5), 3), round(jumped(10, 0.5, 0.5), 3)
    (0.756, 0.0)
    """
    odds, others = share / (1 - share), (keys - 2) * math.exp(-scale)
    deviation = math.sqrt(length_variance)
    # With b at weight 1: a wins by e^(scale (z - 1)) > odds (1 + others), b by 1 > odds (e^(scale (z - 1)) + others).
    found = math.erfc(math.log(odds * (1 + others)) / (scale * deviation * math.sqrt(2))) / 2
    room = 1 / odds - others
    return found + (math.erfc(-math.log(room) / (scale * deviation * math.sqrt(2))) / 2 if room > 0 else 0.0)


@dataclass(frozen=True)
class Limit:
    """What a number goes to for endless queries, and how well that is known."""

    value: float
    error: float


def endless(keys: int, length_variance: float, *, heads: int, positive: bool = False) -> Limit:
    """Extrapolate the variance to endless queries: it misses its limit by a multiple of 1/scale, which twice the scale halves.

    >>> round(endless(10, 0.5, heads=1).value, 5)
    0.5
    """
    far = 500 / length_variance**0.5
    ends = [spread(keys, far * 2**i, length_variance, heads=heads, positive=positive) for i in range(3)]
    first, second = (2 * ends[i + 1].variance - ends[i].variance for i in (0, 1))
    return Limit(second, abs(second - first) + 4 * ends[-1].error)


def best_scale(keys: int, length_variance: float) -> tuple[float, float]:
    """Return the scale at which one head has the least mean squared error, and that error."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  slow to load

    def error(log_scale: float) -> float:
        return spread(keys, float(np.exp(log_scale)), length_variance, heads=1).mean_squared_error

    grid = np.linspace(np.log(0.01), np.log(100), 40)
    place = int(np.argmin([error(point) for point in grid]))
    found = minimize_scalar(error, bracket=tuple(grid[place - 1 : place + 2]), method="brent", options={"xtol": 1e-6})
    return float(np.exp(found.x)), float(found.fun)
