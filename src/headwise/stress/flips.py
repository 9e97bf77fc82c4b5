"""The probability that a key has the largest score of a head: one integral of normal densities, in logs."""

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from headwise.stress.assemble import Tick
from headwise.stress.estimate import Estimate

Wins = Callable[[Float[np.ndarray, " z"]], Float[np.ndarray, " z"]]

_DROP = 50.0
_NODES = 24
_MOST_PANELS = 2048
# With more keys than this, sums over them are interpolated; less than this beside 1 is nothing.
_MANY, _LEAST = 4096, 1e-18
# A normal is hardly ever so many standard deviations from its mean.
_FAR = 9.5
# Up to this a polynomial agrees with the logarithm of a sum.
_AGREED = 1e-10


def pair_flip(mean: Float[np.ndarray, " k"], deviation: Float[np.ndarray, " k"], key: int, other: int) -> Estimate:
    """Return the probability that one key scores above another."""
    gap, spread = float(mean[key] - mean[other]), float(np.hypot(deviation[key], deviation[other]))
    if spread == 0:
        return _estimate(0.0 if gap > 0 else -np.inf, 0.0)
    from scipy.special import log_ndtr  # noqa: PLC0415  slow to load

    return _estimate(float(log_ndtr(gap / spread)), 1e-14)


def flip(mean: Float[np.ndarray, " k"], deviation: Float[np.ndarray, " k"], key: int, tick: Tick | None = None) -> Estimate:
    """Return the probability that a key scores strictly above all others, down to e^-10000 and below as its logarithm.

    The logarithm of the integrand is concave, so it has one peak: the integral runs from where it has fallen by e^50 to
    where it has again, in panels that are halved until nothing changes.
    """
    rest, spread = np.delete(mean, key), np.delete(deviation, key)
    fixed = spread == 0
    bound = float(rest[fixed].max(initial=-np.inf))
    rest, spread = rest[~fixed], spread[~fixed]
    own, width = float(mean[key]), float(deviation[key])
    if width == 0:
        return _estimate(float(_log_wins(rest, spread, np.array([own]))[0]) if own > bound else -np.inf, 1e-13)
    low = (bound - own) / width

    def told(stage: int) -> None:
        if tick is not None:
            tick(stage, 3, "integral over the key's noise")

    wins: Wins = partial(_log_wins, rest, spread)

    def height(z: Float[np.ndarray, " z"]) -> Float[np.ndarray, " z"]:
        return -0.5 * z**2 - 0.5 * np.log(2 * np.pi) + wins(own + width * z)

    top = _peak(height, low)
    told(1)
    sharp = np.flatnonzero(spread < 0.2 * width)
    sharp = sharp[np.argsort(rest[sharp])[-64:]]
    steps = np.array([-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0])
    edges = _edges(height, top, low, breaks=((rest[sharp] - own)[:, None] + steps * spread[sharp, None]).ravel() / width)
    told(2)
    doubt = 0.0
    if len(rest) > _MANY:
        lost = -float(wins(np.array([own + width * top]))[0])
        wins, doubt = _quick(rest, spread, own + width * edges[0], own + width * edges[-1])
        doubt *= 1 + lost
    previous = -np.inf
    for finer in itertools.count():
        total = _integral(height, edges)
        if not np.isfinite(total):
            return Estimate(0.0, np.inf if np.isnan(total) else 0.0, -np.inf)
        if abs(total - previous) <= 1e-13 * max(1.0, abs(total)) or (len(edges) > _MOST_PANELS and finer > 0):
            told(3)
            return _estimate(total, abs(total - previous) + 1e-13 * max(1.0, abs(total)) + doubt)
        previous = total
        edges = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))
    raise AssertionError  # the count has no end


def _log_wins(
    rest: Float[np.ndarray, " r"], spread: Float[np.ndarray, " r"], scores: Float[np.ndarray, " z"]
) -> Float[np.ndarray, " z"]:
    """Return the logarithm of the probability that all others are below some scores."""
    from scipy.special import log_ndtr  # noqa: PLC0415  slow to load

    size = max(1, (1 << 20) // max(len(rest), 1))
    parts = [
        log_ndtr((scores[start : start + size, None] - rest) / spread).sum(axis=1) for start in range(0, len(scores), size)
    ]
    return np.concatenate([np.zeros(0), *parts])


def _quick(rest: Float[np.ndarray, " r"], spread: Float[np.ndarray, " r"], low: float, high: float) -> tuple[Wins, float]:
    """Return the same function between two scores, that of noisy keys by a Chebyshev polynomial, and its error.

    Keys that are never so high are left out. The degree is doubled until the polynomial agrees with the sum itself between its
    nodes; if it never does, or many keys are known too well for one, the sum is taken.
    """
    felt = low - rest < _FAR * spread
    rest, spread = rest[felt], spread[felt]
    high = min(high, float((rest + _FAR * spread).max(initial=low))) + 1e-9 * (high - low)
    smooth = spread > (high - low) / 100
    if not low < high or not smooth.any() or (~smooth).sum() > _MANY:
        return partial(_log_wins, rest, spread), 0.0
    sharp, own, rest, spread = rest[~smooth], spread[~smooth], rest[smooth], spread[smooth]

    def logs(x: Float[np.ndarray, " z"]) -> Float[np.ndarray, " z"]:
        """Return the logarithm of what is to be added up, which has no steep sides."""
        return np.log(_LEAST - _log_wins(rest, spread, (low + high) / 2 + (high - low) / 2 * x))

    for degree in (64, 128, 256):
        found = chebyshev.chebinterpolate(logs, degree)  # type: ignore[type-var]
        tried = np.cos(np.pi * np.arange(0.023, 1, 0.053))
        error = float(np.abs(chebyshev.chebval(tried, found) - logs(tried)).max())
        if error < _AGREED:
            break
    else:
        return (lambda scores: _log_wins(sharp, own, scores) + _log_wins(rest, spread, scores)), 0.0

    def wins(scores: Float[np.ndarray, " z"]) -> Float[np.ndarray, " z"]:
        x = np.minimum((2 * scores - low - high) / (high - low), 1.0)
        return _log_wins(sharp, own, scores) + _LEAST - np.exp(chebyshev.chebval(x, found))

    return wins, 10 * error


def _peak(height: object, low: float) -> float:
    """Find the highest point of a concave function above a bound, by golden sections in a window that grows."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    def cost(z: float) -> float:
        return -float(height(np.array([z]))[0])  # type: ignore[operator]

    left = max(low, -40.0)
    right = left + 1.0
    while cost(right + 1.0) < cost(right) and right < 1e8:
        right = left + 2 * (right - left)
    found = minimize_scalar(cost, bounds=(left, right + 1.0), method="bounded", options={"xatol": 1e-6 * max(1.0, abs(right))})
    return float(left if cost(left + 1e-12) <= found.fun else found.x)


def _edges(height: object, top: float, low: float, breaks: np.ndarray) -> Float[np.ndarray, " e"]:
    """Return panels between the points where the integrand has become negligible, finer about the peak and the breaks."""
    base = float(height(np.array([top]))[0])  # type: ignore[operator]

    def end(sign: float) -> float:
        step = 1e-6 * max(1.0, abs(top))
        while float(height(np.array([top + sign * step]))[0]) > base - _DROP and step < 1e9:  # type: ignore[operator]
            step *= 2
            if sign < 0 and top - step <= low:
                return low
        return top + sign * step

    first, last = end(-1.0), end(1.0)
    steps = np.concatenate([np.linspace(first, top, 9), np.linspace(top, last, 9), breaks])
    scale = (last - first) / 16
    steps = np.concatenate([steps, *(breaks + shift * scale for shift in (-0.1, -0.01, 0.01, 0.1))])
    return np.unique(steps[(steps >= first) & (steps <= last)])


def _integral(height: object, edges: Float[np.ndarray, " e"]) -> float:
    """Return the logarithm of the integral over all panels, by Gauss and Legendre."""
    from scipy.special import logsumexp  # noqa: PLC0415

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    return float(logsumexp(height(points), b=(half[:, None] * weights).ravel()))  # type: ignore[operator]


def _estimate(log: float, error: float) -> Estimate:
    value = float(np.exp(min(log, 0.0)))
    return Estimate(value, value * error, min(log, 0.0))
