"""One head or two on two keys by plain sums: the output between two values is a logistic function of differences of scores."""

import numpy as np

import headwise as hw


def logistic(x):
    return np.exp(-np.logaddexp(0, -x))


def one_head_law(mean, deviation):
    """Return mean and variance of the weight of the first key, whose score leads by N(mean, deviation^2).

    The sum is over the shorter side, where the weight itself is the small number, with steps of a tenth of a deviation.
    """
    shift = -abs(mean)
    top = min(2 * deviation**2, -shift) + 14 * deviation
    count = int((top + 14 * deviation) / min(0.05, 0.1 * deviation)) + 1
    away, step = np.linspace(-14 * deviation, top, count, retstep=True)
    mass = -0.5 * (away / deviation) ** 2 + np.log(step / np.sqrt(2 * np.pi) / deviation)
    weight = -np.logaddexp(0, -(shift + away))
    if deviation < 0.3:
        moved = -np.expm1(-away) * np.exp(weight) * logistic(-shift)
        first = float(np.exp(mass) @ moved)
        variance = float(np.exp(mass) @ moved**2) - first**2
        found = float(logistic(shift)) + first
    else:
        found = float(np.exp(mass + weight).sum())
        variance = float(np.exp(mass + 2 * weight).sum()) - found**2
    return (1 - found if mean > 0 else found), variance


def lone_setting(rng):
    """Return means and standard deviations of two scores: calm to extremely noisy, near and far, one of them known or not."""
    deviations = np.exp(rng.uniform(np.log(1e-2), np.log(rng.choice([3, 30, 400])), 2))
    if rng.random() < 0.3:
        deviations[rng.integers(2)] = 0.0
    return np.array([rng.normal() * rng.choice([1, 10, 200]), 0.0]), deviations


def two_heads_law(means, covariance):
    """Return mean and variance of half the sum of two logistic functions of a Gaussian pair."""
    first = np.sqrt(covariance[0, 0])
    slope = covariance[0, 1] / first
    rest = np.sqrt(max(covariance[1, 1] - slope**2, 0.0))
    (z, mass), (y, mass_y) = (_normal(size) for size in (max(first, abs(slope)), rest))
    own = logistic(means[0] + first * z)
    other = logistic(means[1] + (slope * z)[:, None] + rest * y)
    given, square = other @ mass_y, other**2 @ mass_y
    centres = mass @ own, mass @ given
    variance = mass @ (own - centres[0]) ** 2 + mass @ square - centres[1] ** 2
    return sum(centres) / 2, (variance + 2 * mass @ ((own - centres[0]) * (given - centres[1]))) / 4


def _normal(deviation):
    step = 0.12 / max(deviation, 1.0)
    nodes = np.arange(-9, 9, step)
    return nodes, np.exp(-0.5 * nodes**2) * step / np.sqrt(2 * np.pi)


def paired_setting(rng):
    """Return means and factors of the noise of two keys' scores in two heads: shared, opposed, nearly equal, one-sided."""
    size = np.exp(rng.uniform(np.log(1e-2), np.log(rng.choice([3, 15]))))
    factors = [rng.normal(size=(2, 2)) * size * np.exp(rng.normal(size=(2, 1))) for _ in range(2)]
    kind = rng.integers(4)
    if kind == 1:
        factors[rng.integers(2)] *= 0
    if kind == 2:
        factors[0][:, 1] = factors[0][:, 0] * rng.choice([-1, 1]) * np.exp(rng.normal())
    if kind == 3:
        factors[0][:, 1] = factors[0][:, 1] * 1e-3 + factors[0][:, 0]
    return rng.normal(size=(2, 2)) * rng.choice([1, 10]), factors


def pair_of_keys(means, factors):
    """Return random keys whose two coordinates are their scores in two heads."""
    return hw.RandomKeys(means, factors={row: np.ascontiguousarray(factor.T) for row, factor in enumerate(factors)})
