"""The query whose context is a given vector: proved impossible outside the hull of the values, searched for inside."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpz_mat
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.attend import attend
from headwise.design import exact
from headwise.design.certificates import Certificate, Hits, Outside
from headwise.design.door import check_between, check_matrix, check_seconds, check_vector
from headwise.design.nearest import nearest
from headwise.design.result import Design
from headwise.design.separate import (
    UNIT,
    Mixture,
    Question,
    Separation,
    distances,
    length,
    power_of_two,
    scaled,
    separate,
)
from headwise.design.weights import moments_query, project
from headwise.shown import at_least

_STARTS = 6


def context(
    keys: Float[Array, "k d"] | Given,
    values: Float[Array, "k v"] | Given,
    target: Float[Array, " v"] | Given,
    *,
    within: float = 1e-6,
    seconds: float = 20.0,
) -> Design:
    """Find the query whose context is the target, or prove that no attention has it.

    A context is a mixture of values, so a target outside their hull is impossible, and a separating direction proves it.
    Inside, not every mixture can be reached by a query. When the values are the keys, every target in the hull can be
    (on its boundary in the limit of long queries); otherwise the best query found is told, and it is said that it is not
    proved best.

    Parameters
    ----------
    keys, values
        ``(k, d)`` and ``(k, v)``.
    target
        ``(v,)``.
    within
        How far the context may be from the target, relative to the largest distance between the target and a value.
    seconds
        How long exact arithmetic may take.

    Returns
    -------
    Design
        "possible" with a query, "impossible" with a direction that separates the target from every value, or "undecided"
        with the best query found. ``numbers["error"]`` is its distance, ``error_bound`` bounds it.

    Examples
    --------
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    >>> design = context(corners, corners, [0.2, 0.3])
    >>> design.verdict, attend(design.query, np.array(corners), np.array(corners)).contexts.round(6)
    ('possible', array([0.2, 0.3]))
    >>> context(corners, corners, [1.0, 1.0]).verdict
    'impossible'
    """
    found = check_matrix("context", "keys", keys, "(k, d)")
    others = check_matrix("context", "values", values, "(k, v)")
    arrays.check_agree("context", "k", {"keys": len(found), "values": len(others)})
    wanted = check_vector("context", "target", target, "v", {"values": others.shape[1]})
    check_between("context", "within", within)
    check_seconds("context", seconds)
    asked = _question(others, wanted)
    answer = separate(asked, seconds=seconds)
    goal = _Goal(found, others, wanted, within)
    shares = np.zeros(len(found))
    if isinstance(answer, Separation):
        # No mixture of values is nearer than the proved margin, in the units of the question.
        if answer.margin > goal.distance:
            whole = exact.integers(answer.direction[None])[0] if answer.exact is None else answer.exact
            proof = Outside(others, wanted, [Fraction(entry) for entry in whole])
            distance = float(np.ldexp(answer.margin, goal.shift))
            reason = f"every context stays at least {at_least(distance)} away from the target"
            return Design("context", "impossible", reason, certificate=proof, numbers={"distance": distance})
        near = nearest(asked.rows)
        if near is None:
            return Design("context", "undecided", "the target lies outside the hull of the values, but nearer than `within`")
        shares[near.support] = near.weights
    elif isinstance(answer, Mixture):
        shares[answer.rows] = [float(weight) for weight in answer.weights]
    else:
        return Design("context", "undecided", answer.reason)
    return _searched(goal, shares / shares.sum(), seconds)


class _Goal:
    """What is wanted, with keys, and values and target, times powers of two that bring them to size 1/2 at most."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, target: np.ndarray, within: float) -> None:
        self.given = keys, values, target
        self.key_shift = power_of_two(keys)
        self.keys, self.within = scaled(keys, self.key_shift), within
        self.shift = power_of_two(np.vstack([values, target]))
        self.values, self.target = scaled(values, self.shift), scaled(target, self.shift)
        self.far = float(distances(self.values, self.target).max())
        self.distance = within * self.far

    def miss(self, query: Float[np.ndarray, " d"]) -> float:
        """Return how far the context of a query is from the target."""
        return length(attend(query, self.keys, self.values).contexts - self.target)


def _question(values: Float[np.ndarray, "k v"], target: Float[np.ndarray, " v"]) -> Question:
    """Ask for a direction in which the target lies beyond every value."""
    both = np.vstack([target, values])
    small = scaled(both, power_of_two(both))
    width = values.shape[1]

    def exact_rows(places: Sequence[int]) -> fmpz_mat:
        own, *rows = exact.integers(both[[0, *(place + 1 for place in places)]], exact.exponent(both))
        return fmpz_mat(len(rows), width, [a - b for row in rows for a, b in zip(own, row, strict=True)])

    return Question(small[0] - small[1:], exact_rows, np.zeros((0, width)), lambda: fmpz_mat(0, width, []))


def _searched(goal: _Goal, shares: Float[np.ndarray, " k"], seconds: float) -> Design:
    """Look for a query: from the weights that are known to give the target, from zero, and from a few random starts."""
    keys = goal.keys
    # With values = keys the best weights have the moments of the given ones: that is the target itself.
    starts = [moments_query(keys, shares)]
    spot = None if goal.miss(starts[0]) <= goal.distance else project(keys, shares, seconds=seconds)
    if spot is not None:
        for leak in (1e-3, 0.1 * goal.within):
            query = spot.query_for(keys, leak)
            starts += [] if query is None else [query]
    rng = np.random.default_rng(0)
    unit = 3.0 / (float(np.abs(keys - keys.mean(axis=0)).max()) or 1.0)
    starts += [np.zeros(keys.shape[1]), *(unit * rng.standard_normal((_STARTS, keys.shape[1])))]
    best, error = starts[0], np.inf
    for start in starts:
        for query in (start, _descended(goal, start)):
            found = goal.miss(query)
            if found < error:
                best, error = query, found
        if error <= goal.distance:
            break
    return _judged(goal, best, error)


def _judged(goal: _Goal, query: Float[np.ndarray, " d"], error: float) -> Design:
    """Give the verdict that the best query allows."""
    out = attend(query, goal.keys, goal.values)
    # Scores are rounded, and so is the sum; both move the context by no more than this.
    with np.errstate(over="ignore"):
        rounding = goal.far * float(np.expm1(4 * float(out.score_error)))
    bound = error + rounding + 4 * (len(goal.values) + 4) * UNIT * float(np.abs(goal.values).max())
    with np.errstate(over="ignore"):
        stated, missed = (float(np.ldexp(number, goal.shift)) for number in (bound, error))
    shared: dict[str, Any] = {"error_bound": stated, "numbers": {"error": missed}}
    with np.errstate(over="ignore"):
        query = scaled(query, goal.key_shift)
    if not (np.isfinite(query).all() and np.isfinite(stated)):
        return Design("context", "undecided", "the query, or the bound on its error, is too large for float64")
    if bound <= goal.distance:
        proof: Certificate = Hits(*goal.given, query, stated)
        return Design(
            "context", "possible", "this query has the target as its context", query[None], certificate=proof, **shared
        )
    if error <= goal.distance:
        reason = f"the best query found misses by {missed:.3g}, but the rounding of its scores allows {stated:.3g}"
    else:
        reason = f"the best query found misses the target by {missed:.3g}; it is not proved best"
    return Design("context", "undecided", reason, query[None], **shared)


def _descended(goal: _Goal, start: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """Reduce the distance of the context from the target by damped least squares."""
    from scipy.optimize import least_squares  # noqa: PLC0415  slow to load

    keys, values, target, scale = goal.keys, goal.values, goal.target, goal.far or 1.0

    def weights(query: np.ndarray) -> np.ndarray:
        scores = keys @ query
        terms = np.exp(scores - scores.max())
        return terms / terms.sum()

    def missed(query: np.ndarray) -> np.ndarray:
        return (weights(query) @ values - target) / scale

    def slope(query: np.ndarray) -> np.ndarray:
        shares = weights(query)
        mixed = (values * shares[:, None]).T
        return (mixed @ keys - np.outer(shares @ values, shares @ keys)) / scale

    with np.errstate(over="ignore", invalid="ignore"):
        solved = least_squares(missed, start, jac=slope, method="trf", xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=200)
    return solved.x if np.isfinite(solved.x).all() else start
