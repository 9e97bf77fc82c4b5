"""The query whose weights come closest to given ones, in the sense of Kullback and Leibler.

For a free query the weights form an exponential family, and the best query is where moments match: the weighted mean of
the keys is the wanted one. When the wanted weights are zero somewhere, the optimum may lie at infinity: the mass settles
on a face of the hull of the keys, which is found exactly, and the finite part is solved on that face.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headwise.arrays import Array, Given
from headwise.core.attend import attend
from headwise.design.certificates import Certificate, Reached, Spread
from headwise.design.door import check_between, check_keys, check_seconds, check_vector
from headwise.design.exact import matched, spanned
from headwise.design.face import contest
from headwise.design.result import Design
from headwise.design.separate import Mixture, Separation, power_of_two, scaled, separate
from headwise.errors import OptionError
from headwise.shown import at_least

# Weights that were computed in float32 are accepted.
_SUM = 1e-6
_FINEST = 1e-12


def weights(
    keys: Float[Array, "k d"] | Given,
    target: Float[Array, " k"] | Given,
    *,
    within: float = 1e-9,
    leak: float = 1e-6,
    seconds: float = 20.0,
) -> Design:
    """Find the query whose weights are closest to the target, and say whether it reaches it.

    Parameters
    ----------
    keys
        ``(k, d)``.
    target
        ``(k,)``, not negative, of sum 1.
    within
        The divergence KL(target || weights), in nats, up to which the target counts as reached.
    leak
        When the optimum lies at infinity: the weight that may stay on keys that should get none.
    seconds
        How long exact arithmetic may take.

    Returns
    -------
    Design
        "possible" with a query; "impossible" with weights that have the same moments and more entropy than the target,
        which proves that no query comes closer than their difference; or "undecided". `numbers` holds the divergence,
        the total variation, the residual ``|sum_i (a_i - w_i) k_i|`` relative to the keys' spread, and the number of keys on
        the face.

    Examples
    --------
    >>> design = weights(np.eye(3), [0.5, 0.3, 0.2])
    >>> design.verdict, attend(design.query, np.eye(3), np.eye(3)).weights.round(6)
    ('possible', array([0.5, 0.3, 0.2]))
    >>> weights([[0.0], [1.0], [2.0]], [0.5, 0.0, 0.5]).verdict
    'impossible'
    """
    found, _ = check_keys("weights", keys)
    wanted = check_target(found, target)
    if check_between("weights", "within", within) < _FINEST:
        raise OptionError("weights", f"within must be at least {_FINEST:g}, which float64 can tell from 0, but got {within:g}")
    check_between("weights", "leak", leak)
    check_seconds("weights", seconds)
    spot = project(found, wanted, seconds=seconds)
    if spot is None:
        reason = f"no face was found within {seconds:g} s of exact arithmetic, or its query is too long for float64"
        return Design("weights", "undecided", reason)
    query = spot.query_for(found, leak)
    return _judged(found, wanted, spot, query, within)


def check_target(keys: Float[np.ndarray, "k d"], target: Given) -> Float[np.ndarray, " k"]:
    """Check that the target is a distribution over the keys."""
    wanted = check_vector("weights", "target", target, "k", {"keys": len(keys)})
    if wanted.min() < 0:
        place = int(wanted.argmin())
        raise OptionError("weights", f"target must not be negative, but target[{place}] is {wanted[place]:g}")
    if abs(wanted.sum() - 1) > _SUM:
        raise OptionError("weights", f"target must sum to 1, but it sums to {wanted.sum():.10g}", "Divide it by its sum.")
    return wanted / wanted.sum()


@dataclass(frozen=True)
class Spot:
    """Where the best weights are: a face, the finite part of the query on it, and the direction that exposes it."""

    face: Int[np.ndarray, " f"]
    query: Float[np.ndarray, " d"]
    direction: Float[np.ndarray, " d"] | None
    weights: Float[np.ndarray, " k"]
    residual: float

    def query_for(self, keys: Float[np.ndarray, "k d"], leak: float) -> Float[np.ndarray, " d"] | None:
        """Return a query that leaves at most `leak` outside the face; None if float64 has none."""
        if self.direction is None:
            return self.query
        nothing = np.zeros((len(keys), 1))
        scale = 1.0 / (float(np.abs(keys @ self.direction).max()) or 1.0)
        last = None
        for _ in range(200):  # doubling finds the order of magnitude, halving the rest
            query = self.query + scale * self.direction
            if not np.isfinite(query).all():
                return None
            if float(attend(query, keys, nothing).leak(self.face)) <= leak:
                break
            last, scale = scale, 2 * scale
        else:
            return None
        if last is not None:
            for _ in range(40):
                middle = 0.5 * (last + scale)
                good = float(attend(self.query + middle * self.direction, keys, nothing).leak(self.face)) <= leak
                last, scale = (last, middle) if good else (middle, scale)
        return self.query + scale * self.direction


def project(keys: Float[np.ndarray, "k d"], wanted: Float[np.ndarray, " k"], *, seconds: float = 20.0) -> Spot | None:
    """Find the face that the best weights live on, and the finite part of the query there; None if one was not found."""
    found = smallest_face(keys, np.flatnonzero(wanted > 0).tolist(), seconds)
    if found is None:
        return None
    face, direction = found
    shift = power_of_two(keys)
    query, on_face, residual = _newton(scaled(keys[face], shift), wanted[face] / wanted[face].sum())
    with np.errstate(over="ignore"):
        query = scaled(query, shift)
    if not np.isfinite(query).all():
        return None
    whole = np.zeros(len(keys))
    whole[face] = on_face
    return Spot(np.array(face), query, direction, whole, residual)


def smallest_face(
    keys: Float[np.ndarray, "k d"], inside: list[int], seconds: float
) -> tuple[list[int], Float[np.ndarray, " d"] | None] | None:
    """Return the keys on the smallest face of the hull that holds the given ones, and a direction that exposes it.

    Keys that occur in a mixture that equals a combination of the set lie on every face that the set lies on; they join
    until a direction separates the set from the rest. None if that was not settled in time.
    """
    inside, deadline, rank = sorted(inside), time.monotonic() + seconds, None
    while len(inside) < len(keys):
        if len(inside) > 1:  # a set that spans all that the keys span lies on no face but the whole hull
            rank = spanned(keys, list(range(len(keys)))) if rank is None else rank
            if spanned(keys, inside) == rank:
                return list(range(len(keys))), None
        if time.monotonic() > deadline:
            return None
        asked = contest(keys, inside)
        answer = separate(asked.question, seconds=deadline - time.monotonic())
        if isinstance(answer, Separation):
            return inside, np.ldexp(answer.direction, -asked.shift)
        if not isinstance(answer, Mixture):
            return None
        inside = sorted({*inside, *(int(asked.outside[i]) for i in answer.rows)})
    return inside, None


def moments_query(keys: Float[np.ndarray, "k d"], wanted: Float[np.ndarray, " k"]) -> Float[np.ndarray, " d"]:
    """Return the query whose mean key comes closest to that of the weights, if it is finite; the face is not looked for."""
    return _newton(keys, wanted)[0]


def _newton(
    keys: Float[np.ndarray, "f d"], wanted: Float[np.ndarray, " f"]
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " f"], float]:
    """Maximise wanted . (K q) - lse(K q) by damped Newton steps in the span of the keys' differences.

    Returns the query, its weights and the moment residual relative to the keys' spread.
    """
    centred = keys - wanted @ keys
    _, sizes, turned = np.linalg.svd(centred, full_matrices=False)
    basis = turned[sizes > 1e-12 * sizes.max()] if sizes.max(initial=0.0) > 0 else turned[:0]
    if not len(basis):
        return np.zeros(keys.shape[1]), np.full(len(keys), 1 / len(keys)), 0.0
    moved = centred @ basis.T
    unit = float(np.abs(moved).max())
    moved = moved / unit
    query = np.zeros(len(basis))
    value, mixed = _soft(moved, query)
    for _ in range(200):
        slope = mixed @ moved
        curve = (moved * mixed[:, None]).T @ moved - np.outer(slope, slope)
        strengths, frame = np.linalg.eigh(curve)
        step = -frame @ ((frame.T @ slope) / np.maximum(strengths, strengths[-1] * 1e-14 + 1e-300))
        # No score may move by more than 30 at once: beyond that the quadratic model knows nothing.
        length = min(1.0, 30.0 / (float(np.abs(moved @ step).max()) or 1.0))
        drop = float(slope @ step)
        if -drop <= 1e-30:
            break
        while length > 1e-12 and _soft(moved, query + length * step)[0] > value + 1e-4 * length * drop + 4e-16 * abs(value):
            length *= 0.5
        trial, weights_ = _soft(moved, query + length * step)
        if length <= 1e-12 or (np.abs(weights_ @ moved).max() >= np.abs(slope).max() and np.abs(slope).max() < 1e-12):
            break
        query, value, mixed = query + length * step, trial, weights_
        if np.abs(mixed @ moved).max() <= 1e-15:
            break
    return (query / unit) @ basis, mixed, float(np.abs(mixed @ moved).max())


def _soft(rows: Float[np.ndarray, "f r"], query: Float[np.ndarray, " r"]) -> tuple[float, Float[np.ndarray, " f"]]:
    """Return the log-normaliser and the weights."""
    scores = rows @ query
    top = float(scores.max())
    terms = np.exp(scores - top)
    return top + math.log(float(terms.sum())), terms / terms.sum()


def divergence(wanted: Float[np.ndarray, " k"], log_weights: Float[np.ndarray, " k"]) -> float:
    """Return KL(wanted || weights) in nats."""
    used = wanted > 0
    return max(0.0, float(np.sum(wanted[used] * (np.log(wanted[used]) - log_weights[used]))))


def _judged(keys: np.ndarray, wanted: np.ndarray, spot: Spot, query: Float[np.ndarray, " d"] | None, within: float) -> Design:
    """Give the verdict that the numbers prove."""
    with np.errstate(divide="ignore"):
        limit = divergence(wanted, np.log(spot.weights))
    numbers = {
        "divergence": limit,
        "total_variation": 0.5 * float(np.abs(spot.weights - wanted).sum()),
        "residual": spot.residual,
        "face_keys": float(len(spot.face)),
    }
    face = f"a face of {len(spot.face)} keys" if len(spot.face) > 1 else "one key"
    where = "" if spot.direction is None else f", in the limit of long queries, on {face}"
    queries = None if query is None else query[None]
    if query is not None:
        out = attend(query, keys, np.zeros((len(keys), 1)))
        numbers["divergence_of_query"] = divergence(wanted, out.scores - float(out.log_normalizer))
        if limit + 1e-13 <= within:
            # A score moves the divergence by at most as much; the check computes scores without rounding.
            bound = numbers["divergence_of_query"] * (1 + 1e-9) + 4 * float(out.score_error) + 1e-14
            proof: Certificate = Reached(keys, wanted, query, bound)
            leak = float(out.leak(spot.face))
            return Design(
                "weights", "possible", f"the target is reached{where}", queries, leak=leak, certificate=proof, numbers=numbers
            )
    shares = matched(keys[spot.face], wanted[spot.face], spot.weights[spot.face])
    if shares is not None and limit > within:
        proof = Spread(keys, wanted, spot.face.tolist(), shares)
        if proof.gain > within:
            reason = f"no query comes closer than a divergence of {at_least(proof.gain)}{where}"
            return Design("weights", "impossible", reason, queries, certificate=proof, numbers=numbers)
    return Design(
        "weights", "undecided", f"the best query found misses by a divergence of {limit:.4g}{where}", queries, numbers=numbers
    )
