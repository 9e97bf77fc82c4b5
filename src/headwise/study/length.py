"""What one random length does, without any other noise: integrals over that length, to hold the laws of `stress` against.

The scores depend on the length z ~ N(1, tau) of key a alone. Let f(z) be the share of the weight that a gains over that at
length 1: what a gains the others lose, each in proportion to its own weight. So the output is that at length 1 plus f(z) times
a fixed vector, and its variance is that of f times the squared length of the vector. Nothing is the small difference of two
large numbers, so a variance of 1e-60 comes out as 1e-60.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Further out than so many deviations there is less than this of the probability.
_DEVIATIONS, _BEYOND = 14, 1e-43
# What rounding may do to an integral, relative to it.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Spread:
    """Variance and mean squared error of the output with the error of both, and the probability of the lengths left out."""

    variance: float
    mean_squared_error: float
    error: float
    left_out: float
    left_out_error: float


def spread(keys: int, scale: float, length_variance: float, *, heads: int, positive: bool = False) -> Spread:
    """Integrate the output of one head (query scale (mu_a + mu_b)) or of two (scale mu_a and scale mu_b).

    Values are orthonormal and the average of a and b is wanted; `positive` looks at positive lengths only.

    >>> one, two = (spread(10, 10.0, 0.5, heads=heads) for heads in (1, 2))
    >>> round(one.variance, 4), round(two.variance, 4)
    (0.3905, 0.0254)
    """
    rough, fine = (_integrated(keys, scale, length_variance, points, heads=heads, positive=positive) for points in (16, 24))
    # The finer rule is far better than the difference of the two.
    errors = [4 * abs(one - other) + _ROUNDING * one for one, other in zip(fine, rough, strict=True)]
    variance, squared, left_out = fine
    return Spread(variance, squared, max(errors[:2]), left_out, errors[2] + _BEYOND)


def _integrated(
    keys: int, scale: float, length_variance: float, points: int, *, heads: int, positive: bool
) -> tuple[float, float, float]:
    """Return variance, mean squared error, and the probability of the lengths left out."""
    fade = math.exp(-scale)
    # The logarithm of what the head that looks at a sees beside it, if a weighs 1 at length 1: b and the rest, or all alike.
    beside = math.log1p((keys - 2) * fade) if heads == 1 else math.log(keys - 1) - scale
    away, shares = _nodes(scale, math.sqrt(length_variance), beside, points)
    left_out = shares * (away < -1) if positive else 0 * shares
    kept = shares - left_out
    kept /= kept.sum()
    gain = _gain(scale * away, beside)
    mean = float(kept @ gain)
    moved = float(kept @ (gain - mean) ** 2)
    # What a gains, b and each other key lose, for each 1 that a gains. Two heads are averaged, and head 2 does not move.
    if heads == 1:
        way = np.array([1, -math.exp(-beside), -math.exp(-beside) * fade])
    else:
        way = np.array([1, -1 / (keys - 1), -1 / (keys - 1)]) / 2
    many = np.array([1, 1, keys - 2])
    # At length 1 a and b are short of one half each by half of what leaks to the others.
    leak = fade / (1 + math.exp(beside))
    off = leak * np.array([1 - keys / 2, 1 - keys / 2, 1]) + mean * way
    variance = moved * float(many @ way**2)
    return variance, variance + float(many @ off**2), float(left_out.sum())


def _gain(scores: Float[np.ndarray, " z"], beside: float) -> Float[np.ndarray, " z"]:
    """Return the change of the weight 1 / (1 + e^beside) of a when its score changes."""
    from scipy.special import expit  # noqa: PLC0415  slow to load

    part = -np.expm1(-np.abs(scores))
    return np.where(scores > 0, part * expit(beside) * expit(scores - beside), -part * expit(-beside) * expit(beside - scores))


def _nodes(scale: float, deviation: float, step: float, points: int) -> tuple[Float[np.ndarray, " z"], Float[np.ndarray, " z"]]:
    """Return lengths less 1, and the probability that each stands for.

    Panels are no wider than a deviation, and near the length at which a and what is beside it weigh the same no wider than the
    step that the weights make there.
    """
    ends = _DEVIATIONS * deviation
    growing = np.concatenate([[0.0], np.geomspace(1, 1 + 2 * ends * scale, 2 + math.ceil(math.log1p(2 * ends * scale) / 0.5))])
    graded = growing / scale
    even, near = np.linspace(-ends, ends, 2 * _DEVIATIONS + 1), step / scale
    cuts: np.ndarray = np.unique(np.clip(np.concatenate([even, np.array([-1.0]), near + graded, near - graded]), -ends, ends))
    at, share = np.polynomial.legendre.leggauss(points)
    middles, halves = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    away = (middles[:, None] + halves[:, None] * at).ravel()
    density = np.exp(-0.5 * (away / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    return away, density * (halves[:, None] * share).ravel()


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
