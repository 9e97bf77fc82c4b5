"""The probability that a key has the largest score of a head: one integral of normal densities, in logs."""

import numpy as np
from jaxtyping import Float

from headwise.stress.estimate import Estimate

_DROP = 50.0
_NODES = 24
_MOST_PANELS = 2048


def pair_flip(mean: Float[np.ndarray, " k"], deviation: Float[np.ndarray, " k"], key: int, other: int) -> Estimate:
    """Return the probability that one key scores above another."""
    gap, spread = float(mean[key] - mean[other]), float(np.hypot(deviation[key], deviation[other]))
    if spread == 0:
        return _estimate(0.0 if gap > 0 else -np.inf, 0.0)
    from scipy.special import log_ndtr  # noqa: PLC0415  slow to load

    return _estimate(float(log_ndtr(gap / spread)), 1e-14)


def flip(mean: Float[np.ndarray, " k"], deviation: Float[np.ndarray, " k"], key: int) -> Estimate:
    """Return the probability that a key scores strictly above all others, down to e^-10000 and below as its logarithm.

    The logarithm of the integrand is concave, so it has one peak: the integral runs from where it has fallen by e^50 to
    where it has again, in panels that are halved until nothing changes.
    """
    from scipy.special import log_ndtr  # noqa: PLC0415

    rest, spread = np.delete(mean, key), np.delete(deviation, key)
    fixed = spread == 0
    bound = float(rest[fixed].max(initial=-np.inf))
    rest, spread = rest[~fixed], spread[~fixed]
    own, width = float(mean[key]), float(deviation[key])

    def log_wins(scores: Float[np.ndarray, " z"]) -> Float[np.ndarray, " z"]:
        size = max(1, (1 << 20) // max(len(rest), 1))
        parts = [
            log_ndtr((scores[start : start + size, None] - rest) / spread).sum(axis=1) for start in range(0, len(scores), size)
        ]
        return np.concatenate([np.zeros(0), *parts])

    if width == 0:
        return _estimate(float(log_wins(np.array([own]))[0]) if own > bound else -np.inf, 1e-13)
    low = (bound - own) / width

    def height(z: Float[np.ndarray, " z"]) -> Float[np.ndarray, " z"]:
        return -0.5 * z**2 - 0.5 * np.log(2 * np.pi) + log_wins(own + width * z)

    top = _peak(height, low)
    sharp = np.flatnonzero(spread < 0.2 * width)
    sharp = sharp[np.argsort(rest[sharp])[-64:]]
    steps = np.array([-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0])
    edges = _edges(height, top, low, breaks=((rest[sharp] - own)[:, None] + steps * spread[sharp, None]).ravel() / width)
    previous = -np.inf
    while True:
        total = _integral(height, edges)
        if abs(total - previous) <= 1e-13 * max(1.0, abs(total)) or len(edges) > _MOST_PANELS:
            return _estimate(total, abs(total - previous) + 1e-13 * max(1.0, abs(total)))
        previous = total
        edges = np.sort(np.concatenate([edges, (edges[1:] + edges[:-1]) / 2]))


def _peak(height: object, low: float) -> float:
    """Find the highest point of a concave function above a bound, by golden sections in a window that grows."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    def cost(z: float) -> float:
        return -float(height(np.array([z]))[0])  # type: ignore[operator]

    left = max(low, -40.0)
    right = left + 1.0
    while cost(right + 1.0) < cost(right) and right < 1e8:
        right = left + 2 * (right - left)
    found = minimize_scalar(cost, bounds=(left, right + 1.0), method="bounded", options={"xatol": 1e-9 * max(1.0, abs(right))})
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
