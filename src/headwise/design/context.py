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
from headwise.design.door import check_between, check_keys, check_matrix, check_vector
from headwise.design.result import Design
from headwise.design.separate import UNIT, Mixture, Question, Separation, separate
from headwise.design.weights import project

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
    found, _ = check_keys("context", keys)
    others = check_matrix("context", "values", values, "(k, v)")
    arrays.check_agree("context", "k", {"keys": len(found), "values": len(others)})
    wanted = check_vector("context", "target", target, "v", {"values": others.shape[1]})
    check_between("context", "within", within)
    answer = separate(_question(others, wanted), seconds=seconds)
    if isinstance(answer, Separation):
        whole = exact.integers(answer.direction[None])[0] if answer.exact is None else answer.exact
        proof = Outside(others, wanted, [Fraction(entry) for entry in whole])
        # No mixture of values is nearer than the proved margin, in the units of the question.
        distance = float(np.ldexp(answer.margin, _shift(others, wanted)))
        reason = f"every context stays at least {distance:.4g} away from the target"
        return Design("context", "impossible", reason, certificate=proof, numbers={"distance": distance})
    if not isinstance(answer, Mixture):
        return Design("context", "undecided", answer.reason)
    shares = np.zeros(len(found))
    shares[answer.rows] = [float(weight) for weight in answer.weights]
    return _searched(found, others, wanted, shares / shares.sum(), within, seconds)


def _shift(values: Float[np.ndarray, "k v"], target: Float[np.ndarray, " v"]) -> int:
    """Return the power of two that brings everything to size 1/2 at most."""
    return int(np.frexp(max(np.abs(values).max(), np.abs(target).max()))[1]) + 1


def _question(values: Float[np.ndarray, "k v"], target: Float[np.ndarray, " v"]) -> Question:
    """Ask for a direction in which the target lies beyond every value."""
    both = np.vstack([target, values])
    small = np.ldexp(both, -_shift(values, target))
    width = values.shape[1]

    def exact_rows(places: Sequence[int]) -> fmpz_mat:
        own, *rows = exact.integers(both[[0, *(place + 1 for place in places)]], exact.exponent(both))
        return fmpz_mat(len(rows), width, [a - b for row in rows for a, b in zip(own, row, strict=True)])

    return Question(small[0] - small[1:], exact_rows, np.zeros((0, width)), lambda: fmpz_mat(0, width, []))


def _searched(
    keys: np.ndarray, values: np.ndarray, target: np.ndarray, shares: Float[np.ndarray, " k"], within: float, seconds: float
) -> Design:
    """Look for a query: from the weights that are known to give the target, from zero, and from a few random starts."""
    far = float(np.linalg.norm(values - target, axis=1).max())
    goal = within * far
    # With values = keys the best weights have the moments of the given ones: that is the target itself.
    spot = project(keys, shares, seconds=seconds)
    starts = []
    if spot is not None:
        for leak in (1e-3, 0.1 * within):
            query = spot.query_for(keys, leak)
            starts += [] if query is None else [query]
    rng = np.random.default_rng(0)
    unit = 1.0 / (float(np.abs(keys - keys.mean(axis=0)).max()) or 1.0)
    starts += [np.zeros(keys.shape[1]), *(unit * 3 * rng.standard_normal((_STARTS, keys.shape[1])))]
    best, error = starts[0], np.inf
    for start in starts:
        for query in (start, _descended(keys, values, target, start)):
            found = float(np.linalg.norm(attend(query, keys, values).contexts - target))
            if found < error:
                best, error = query, found
        if error <= goal:
            break
    return _judged(keys, values, target, best, error, goal)


def _judged(
    keys: np.ndarray, values: np.ndarray, target: np.ndarray, query: Float[np.ndarray, " d"], error: float, goal: float
) -> Design:
    """Give the verdict that the best query allows."""
    out = attend(query, keys, values)
    # Scores are rounded, and so is the sum; both move the context by no more than this.
    spread = float(np.linalg.norm(values - target, axis=1).max())
    rounding = spread * np.expm1(4 * float(out.score_error)) + 4 * (len(values) + 4) * UNIT * float(np.abs(values).max())
    bound = error + float(rounding)
    shared: dict[str, Any] = {"error_bound": bound, "numbers": {"error": error}}
    if error <= goal:
        proof: Certificate = Hits(keys, values, target, query, bound)
        return Design(
            "context", "possible", "this query has the target as its context", query[None], certificate=proof, **shared
        )
    reason = f"the target is in the hull of the values, but the best query found misses it by {error:.3g}; not proved best"
    return Design("context", "undecided", reason, query[None], **shared)


def _descended(
    keys: np.ndarray, values: np.ndarray, target: np.ndarray, start: Float[np.ndarray, " d"]
) -> Float[np.ndarray, " d"]:
    """Reduce the distance of the context from the target by damped least squares."""
    from scipy.optimize import least_squares  # noqa: PLC0415  slow to load

    scale = float(np.linalg.norm(values - target, axis=1).max()) or 1.0

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
