"""Variance and mean squared error against the scale of the queries, every point an exact evaluation with its error."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.errors import OptionError
from headwise.shown import Shown, Summary, number
from headwise.stress.estimate import Estimate
from headwise.stress.law import law

# About so many scales are tried in the search for the best.
_USUAL = 60
# No scale is tried at which a score has a larger standard deviation.
_WIDEST = 300.0


@dataclass(frozen=True)
class Best:
    """The factor on the queries with the least mean squared error, and that error, each with what it may be off by.

    It is a `valley` if the error is higher on both sides, and otherwise an end of the scales looked at.
    """

    scale: float
    scale_error: float
    error: float
    error_error: float
    valley: bool


@dataclass(frozen=True)
class Series:
    """One set of queries: variances and mean squared errors at each scale, their errors, and the best scale found."""

    variances: Float[np.ndarray, " s"]
    variance_errors: Float[np.ndarray, " s"]
    errors: Float[np.ndarray, " s"]
    error_errors: Float[np.ndarray, " s"]
    best: Best

    best_scale = property(lambda self: self.best.scale)
    best_error = property(lambda self: self.best.error)


@dataclass(frozen=True, repr=False)
class Curve(Shown):
    """Curves over the same scales, by name."""

    scales: Float[np.ndarray, " s"]
    series: Mapping[str, Series]

    def to_dict(self) -> dict[str, Any]:
        """Return all curves as plain data."""
        return {
            "kind": "curve",
            "scales": self.scales.tolist(),
            "series": {
                name: {
                    "variance": one.variances.tolist(),
                    "variance_error": one.variance_errors.tolist(),
                    "mean_squared_error": one.errors.tolist(),
                    "mean_squared_error_error": one.error_errors.tolist(),
                    "best_scale": one.best.scale,
                    "best_scale_error": one.best.scale_error,
                    "best_scale_is_a_valley": one.best.valley,
                    "best_mean_squared_error": one.best.error,
                    "best_mean_squared_error_error": one.best.error_error,
                }
                for name, one in self.series.items()
            },
        }

    def summary(self) -> Summary:
        """Describe each curve by its best scale and both ends."""
        rows = [
            [
                name,
                str(Estimate(one.best.scale, one.best.scale_error)) if one.best.valley else f"{number(one.best.scale)}, an end",
                str(Estimate(one.best.error, one.best.error_error)),
                number(one.errors[0]),
                number(one.errors[-1]),
            ]
            for name, one in self.series.items()
        ]
        ends = [f"error at {number(scale)}" for scale in (self.scales[0], self.scales[-1])]
        return Summary("Error against scale", ["queries", "best scale", "error there", *ends], rows)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Curve: {len(self.scales)} scales, {', '.join(self.series)}>"


def curve(
    queries: Mapping[str, Float[Array, "*h d"]] | Float[Array, "*h d"] | Given,
    random_keys: RandomKeys | Given,
    values: Float[Array, "k v"] | Given,
    target: Float[Array, " v"] | Given,
    *,
    scales: Sequence[float] | Given = None,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> Curve:
    """Find how the variance and the mean squared error depend on the scale of the queries.

    Parameters
    ----------
    queries
        One set of queries, or several by name, for example one head and two.
    scales
        Factors on the queries; 41 between 1/10 and 10 unless given.

    Examples
    --------
    >>> import headwise as hw
    >>> e = np.eye(10)
    >>> noisy = hw.RandomKeys(e, along_mean={0: 0.5})
    >>> found = curve({"one head": e[0] + e[1], "two heads": e[:2]}, noisy, e, (e[0] + e[1]) / 2, scales=[1, 2, 5, 10, 20])
    >>> round(found.series["one head"].best_scale, 2), found.series["two heads"].errors.round(3)
    (2.14, array([0.288, 0.164, 0.045, 0.031, 0.026]))
    """
    named = dict(queries) if isinstance(queries, Mapping) else {"queries": queries}
    factors = np.geomspace(0.1, 10, 41) if scales is None else arrays.float64("curve", "scales", scales)
    if factors.ndim != 1 or not len(factors) or not (factors > 0).all():
        raise OptionError("curve", "scales must be positive numbers, at least one, but they are not")
    goal = arrays.float64("curve", "target", target)
    found = {}
    for number_done, (name, given) in enumerate(named.items()):
        heads = np.atleast_2d(arrays.float64("curve", "queries", given))
        points = []
        for place, factor in enumerate(factors):
            one = law(factor * heads, random_keys, values, tolerance=tolerance, seed=seed)
            away = one.mean_squared_error(goal)
            points.append((one.variance, one.variance_error, away.value, away.error))
            if progress is not None:
                progress(number_done * len(factors) + place + 1, len(named) * len(factors), name)
        table = np.array(points)
        window = (float(factors.min()), float(factors.max())) if len(factors) > 1 else (factors[0] / 10, factors[0] * 10)
        best = best_scale(heads, random_keys, values, goal, window=window, tolerance=tolerance, seed=seed, progress=progress)
        found[name] = Series(table[:, 0], table[:, 1], table[:, 2], table[:, 3], best)
    return Curve(factors, found)


def best_scale(  # noqa: PLR0913  what a law takes, a target, and how to look
    queries: Float[np.ndarray, "h d"],
    random_keys: RandomKeys | Given,
    values: Float[Array, "k v"] | Given,
    target: Float[np.ndarray, " v"],
    *,
    window: tuple[float, float] = (0.01, 10.0),
    moves: int = 0,
    tolerance: float = 1e-3,
    seed: int = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> Best:
    """Return the factor on the queries with the least mean squared error, and that error.

    A grid finds the valley; finer integrals follow it down to a point of the grid that is no higher than its neighbours, and
    a search between those finds the bottom. With `moves`, a valley at the lower end of the window moves the window down, so
    often at most, and one at the upper end moves that up for as long as errors fall noticeably and scores vary by less than
    some hundreds. The scale is known up to where the error is higher on both sides by more than it may be off by, the next
    points of the grid at most.
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  slow to load

    given = law(queries, random_keys, values, tolerance=tolerance, seed=seed)
    fine = tolerance if given.method in ("hybrid", "montecarlo") else min(tolerance, 1e-8)
    done = count(1)

    @cache
    def left(log_scale: float, wanted: float = fine) -> Estimate:
        found = law(np.exp(log_scale) * queries, random_keys, values, tolerance=wanted, seed=seed).mean_squared_error(target)
        if progress is not None:
            progress(min(next(done), _USUAL), _USUAL, "best scale")
        return found

    def error(log_scale: float) -> float:
        return left(float(log_scale)).value

    grid = np.linspace(np.log(window[0]), np.log(window[1]), 25).tolist()
    while (start := int(np.argmin([left(point, tolerance).value for point in grid]))) == 0 and moves > 0:
        moves -= 1
        grid = [point + grid[0] - grid[-2] for point in grid]
    highest = np.log(_WIDEST / max(float(given.scores.deviation.max()), 1e-300)) if moves else -np.inf
    while start == len(grid) - 1 and (higher := 2 * grid[-1] - grid[-2]) <= highest:
        grid.append(higher)
        if left(higher, tolerance).value >= (1 - tolerance) * left(grid[start], tolerance).value:
            break
        start += 1
    place = _downhill(lambda other: error(grid[other]), start, len(grid))
    log_scale, ends = grid[place], (grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)])
    valley = 0 < place < len(grid) - 1 and all(error(end) > error(log_scale) for end in ends)
    if valley:
        found = minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": 1e-4})
        log_scale = min(log_scale, float(found.x), key=error)
    low, high = (_higher(left, log_scale, end) for end in ends)
    scale, least = float(np.exp(log_scale)), left(log_scale)
    return Best(scale, scale * float(np.expm1(max(log_scale - low, high - log_scale))), least.value, least.error, valley)


def _higher(left: Callable[[float], Estimate], place: float, end: float) -> float:
    """Return where, on the way to an end, the error is certainly higher than at a place; the end if it is not before."""
    step, least = 1e-4, left(place)
    while step < abs(end - place):
        other = place + float(np.copysign(step, end - place))
        if left(other).value - left(other).error > least.value + least.error:
            return other
        step *= 2
    return end


def _downhill(height: Callable[[int], float], place: int, count: int) -> int:
    """Go to the lower neighbour until neither is lower."""
    while True:
        near = [other for other in (place, place - 1, place + 1) if 0 <= other < count]
        lowest = min(near, key=height)
        if lowest == place:
            return place
        place = lowest
