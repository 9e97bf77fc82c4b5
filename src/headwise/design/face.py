"""One query for one set of keys: whether they can all score alike and above the rest, and how long it must be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from flint import fmpz_mat
from jaxtyping import Float, Int

from headwise.core.attend import attend
from headwise.design import exact
from headwise.design.certificates import Blocked, Winner
from headwise.design.result import Design, finite
from headwise.design.scale import log_leak, smallest_scale
from headwise.design.separate import (
    ROUNDING,
    UNIT,
    Mixture,
    Question,
    Separation,
    Undecided,
    distances,
    power_of_two,
    scaled,
    separate,
    sizes_of_products,
)


@dataclass(frozen=True)
class Contest:
    """Some keys against all others, as a question to be decided about differences of the keys times 2^-shift.

    The keys are then of size at most 1/2: differences cannot overflow, and scaling rounds nothing.
    """

    keys: Float[np.ndarray, "k d"]
    inside: list[int]
    outside: Int[np.ndarray, " o"]
    shift: int
    question: Question

    @property
    def spread(self) -> float:
        """The largest coordinate of a difference between an inside and an outside key."""
        rows = self.question.rows
        return max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0)))


def contest(keys: Float[np.ndarray, "k d"], inside: list[int]) -> Contest:
    """Ask whether the chosen keys can beat the others."""
    first, width = inside[0], keys.shape[1]
    outside = np.delete(np.arange(len(keys)), inside)
    shift = power_of_two(keys)
    power = None

    def whole(rows: Sequence[int]) -> list[list[int]]:
        nonlocal power
        power = exact.exponent(keys) if power is None else power
        return exact.integers(keys[list(rows)], power)

    def exact_rows(places: Sequence[int]) -> fmpz_mat:
        (own,), others = whole([first]), whole(outside[list(places)].tolist())
        return fmpz_mat(len(others), width, [a - b for row in others for a, b in zip(own, row, strict=True)])

    def exact_span() -> fmpz_mat:
        (own,), others = whole([first]), whole(inside[1:])
        return fmpz_mat(len(others), width, [b - a for row in others for a, b in zip(own, row, strict=True)])

    own = scaled(keys[first], shift)
    span = scaled(keys[inside[1:]], shift) - own
    rows = np.empty((len(outside), width))
    # Rows in slices between the inside ones, written once: for one key among many this costs as much as the search.
    edges = np.sort([-1, *inside, len(keys)]).tolist()
    for place, (before, after) in enumerate(pairwise(edges)):
        part = rows[before + 1 - place : after - place]
        np.subtract(own, scaled(keys[before + 1 : after], shift, out=part), out=part)
    return Contest(keys, inside, outside, shift, Question(rows, exact_rows, span, exact_span))


def face_design(
    task: str,
    keys: Float[np.ndarray, "k d"],
    inside: list[int],
    leak: float,
    *,
    values: Float[np.ndarray, "k v"] | None,
    seconds: float,
) -> Design:
    """Design the query under which exactly these keys win, scaled for the leak."""
    asked = contest(keys, inside)
    answer = separate(asked.question, seconds=seconds)
    if isinstance(answer, Undecided):
        return Design(task, "undecided", answer.reason)
    if isinstance(answer, Mixture):
        proof = _blocked(asked, answer)
        return Design(task, "impossible", proof.describe(), certificate=proof)
    return _possible(task, asked, answer, leak, values)


def _blocked(asked: Contest, answer: Mixture) -> Blocked:
    """Translate: sum_i theta_i (k_1 - k_i) = sum_a w_a (k_a - k_1) says sum_i theta_i k_i = k_1 - sum_a w_a (k_a - k_1)."""
    others = [-weight for weight in answer.span_weights]
    rows = [int(asked.outside[i]) for i in answer.rows]
    return Blocked(asked.keys, asked.inside, rows, answer.weights, [1 - sum(others, Fraction(0)), *others])


def _possible(task: str, asked: Contest, answer: Separation, leak: float, values: np.ndarray | None) -> Design:
    """Scale the direction and state what is promised."""
    whole = exact.integers(answer.direction[None])[0] if answer.exact is None else answer.exact
    relative = answer.margin / (asked.spread or 1.0)
    rounding_only = bool(len(asked.outside)) and relative < ROUNDING
    shared: dict[str, Any] = {
        "margin": finite(float(np.ldexp(answer.margin, asked.shift))),
        "best_margin": finite(float(np.ldexp(answer.distance, asked.shift))),
        "certificate": Winner(asked.keys, asked.inside, [Fraction(entry) for entry in whole]),
        "rounding_only": rounding_only,
    }
    # Scores are rounded when attend computes them, by at most this much per unit of scale, whatever the order of the sum.
    terms = (asked.keys.shape[1] + 4) * UNIT
    noise = 2 * terms / (1 - terms) * float(sizes_of_products(asked.keys, answer.direction, asked.shift).max())
    uneven = noise if len(asked.inside) > 1 else 0.0
    gaps = answer.lower - noise - uneven
    promised = _promised(asked, answer.direction, gaps, leak)
    if promised is None:
        hidden = float(gaps.min(initial=np.inf)) <= 0
        reason = (
            f"the margin is positive, {relative:.1e} of the keys' spread, but float64 scores of these keys are rounded by "
            "more, so no query is given"
            if hidden
            else "the key wins, but the query that the leak needs is too long for float64, so none is given"
        )
        return Design(task, "possible", f"by rounding only; {reason}" if rounding_only else reason, **shared)
    scale, query, found = promised
    error = None
    if values is not None:
        certain = max(found, float(np.exp(log_leak(scale, gaps, len(asked.inside)))))
        error = _error(values, asked.inside, certain, uneven * scale)
    who = "the key wins" if len(asked.inside) == 1 else f"the {len(asked.inside)} keys win together"
    proved = f", proved by {answer.how}" if len(asked.outside) else ": there is nothing else"
    reason = f"{who}{' by rounding only' if rounding_only else ''}{proved}"
    return Design(task, "possible", reason, query[None], leak=found, error_bound=error, **shared)


def _promised(
    asked: Contest, direction: np.ndarray, gaps: Float[np.ndarray, " o"], leak: float
) -> tuple[float, Float[np.ndarray, " d"], float] | None:
    """Return the smallest scale that keeps the promise, the query and its leak; None if float64 cannot keep it."""
    if gaps.min(initial=np.inf) <= 0:
        return None
    # The softmax itself is exact to about 1e-12 (1 + |log leak|), relatively.
    scale = smallest_scale(gaps, len(asked.inside), leak * (1 - 1e-11 * (1 - math.log(leak))))
    nothing = np.zeros((len(asked.keys), 1))
    for trial in range(12):
        with np.errstate(over="ignore"):
            query = np.ldexp(scale * direction, -asked.shift)
        if not np.isfinite(query).all():
            return None
        found = float(attend(query, asked.keys, nothing).leak(asked.inside))
        if found <= leak:
            return scale, query, found
        scale *= 1 + 1e-13 * 4**trial
    return None


def _error(values: Float[np.ndarray, "k v"], inside: list[int], leak: float, uneven: float) -> float:
    """Bound |context - mean of the inside values|: what leaks, what is uneven inside, and the rounding of the sum."""
    target = values[inside].mean(axis=0)
    far = distances(values, target)
    within = float(far[inside].max()) * math.expm1(2 * uneven)
    rounding = 2 * (len(values) + 4) * UNIT * float(distances(values, np.zeros(values.shape[1])).max())
    return leak * float(far.max()) + within + 2 * rounding
