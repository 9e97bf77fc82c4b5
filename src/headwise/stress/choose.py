"""Which method answers, how accurate its parts must be, and what is said of it."""

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from headwise.core.blas import one_blas_thread
from headwise.errors import OptionError
from headwise.stress.assemble import Found, Integrals, Tick
from headwise.stress.delta import delta
from headwise.stress.hybrid import fits, hybrid
from headwise.stress.quadrature import Accuracy
from headwise.stress.sampling import Block, montecarlo
from headwise.stress.scores import Scores

METHODS = ("laplace", "pairs", "hybrid", "montecarlo", "delta")
_INTEGRALS = ("laplace", "pairs")
# Seconds of integration beyond which sampling is tried instead.
_PATIENCE = 60.0
_FINEST = 1e-15
# So many times the error of the rules is what they are stated to be off by, with what heads and bulk add.
_STATED = 500.0
# A covariance below this, relative to the values, is beyond what integrals hold of the smallest weights.
_UNSEEN = 1e-260
# What the bulk may be off by, in units of the error that rules are chosen for: a rule is off by some hundred.
_BULK = 100.0
# What samples of a minute do not reach; integrals that do are not tried against them.
_SAMPLES_REACH = 3e-3
# Guesses of times were made for a machine some three times slower.
_PACE = 0.3
# So many times the samples are out of reach.
_HOPELESS = 1e6
# With so few scores nothing takes long.
_FEW = 64


@dataclass(frozen=True)
class Answer:
    """What was found, by which method and why."""

    found: Found
    method: str
    reason: str


def solved(scores: Scores, method: str, tolerance: float, seed: int, tick: Tick | None, block: Block = None) -> Answer:
    """Find the law by the method named, or by the one that fits."""
    if scores.certain:
        return Answer(delta(scores, block), "delta", "the output is certain")
    chosen, reason = (method, "asked for") if method != "auto" else _fitting(scores, tolerance)
    _check_independent(scores, chosen)
    # One thread, so that sums are rounded alike on every machine; where all is small, asking for it takes longer than the rest.
    with nullcontext() if scores.count * scores.heads <= _FEW and chosen in _INTEGRALS else one_blas_thread():
        if chosen == "delta":
            return _answer(delta(scores, block), chosen, reason, tolerance, '"pairs" does better')
        if chosen not in _INTEGRALS:
            return _sampled(scores, (chosen, reason), (tolerance, seed), tick, block)
        found, limit = _integrated(scores, tolerance, block, tick)
        tried = _answer(found, chosen, reason, tolerance, limit)
        if method != "auto" or block is not None or _relative(found) <= max(tolerance, _SAMPLES_REACH):
            return tried
        other = _sampler(scores, tolerance, f"{limit}, and stop at {_relative(found):.1e}")
        try:
            sampled = _sampled(scores, other, (tolerance, seed), tick)
        except KeyboardInterrupt:
            return Answer(found, chosen, f"interrupted; {tried.reason}")
        best = min(tried, sampled, key=lambda answer: _relative(answer.found))
        stopped = sampled.reason.startswith("interrupted") and best is tried
        return Answer(found, chosen, f"interrupted; {tried.reason}") if stopped else best


def _sampled(
    scores: Scores, chosen: tuple[str, str], aims: tuple[float, int], tick: Tick | None, block: Block = None
) -> Answer:
    """Sample by a method that was chosen for a reason, to a tolerance, with a seed."""
    (method, reason), (tolerance, seed) = chosen, aims
    if method == "hybrid" and block is None:
        found, stopped = hybrid(scores, tolerance, seed, tick)
    else:
        found, stopped = montecarlo(scores, tolerance, seed, tick, block)
    more = min(_relative(found) / tolerance, _HOPELESS) ** 2
    limit = f"{more:.3g} times the samples would reach it" if more < _HOPELESS else "no sample would reach it"
    return _answer(found, method, f"interrupted; {reason}" if stopped else reason, tolerance, limit)


def _sampler(scores: Scores, tolerance: float, reason: str) -> tuple[str, str]:
    """Choose between the methods that sample."""
    few = scores.count * scores.heads > _FEW and fits(scores, tolerance)
    return ("hybrid" if few else "montecarlo"), reason


def _relative(found: Found) -> float:
    """Return the error of the covariance beside its size."""
    size = float(np.linalg.norm(found.covariance))
    return found.covariance_error / size if size > 0 else 0.0


def _answer(found: Found, method: str, reason: str, tolerance: float, limit: str) -> Answer:
    """Say by how much the tolerance was missed, if it was, and what is in the way."""
    error = _relative(found)
    if error > tolerance:
        reason = f"{reason}; the error is {error:.2g} of the covariance, not {tolerance:.2g}: {limit}"
    return Answer(found, method, reason)


def _fitting(scores: Scores, tolerance: float) -> tuple[str, str]:
    """Choose by the size of the noise, by what heads share, and by the work."""
    if 5 * float(scores.variance.max()) <= tolerance:
        tried = delta(scores)
        if tried.covariance_error <= tolerance * float(np.linalg.norm(tried.covariance)):
            return "delta", "the noise is tiny"
    lone = not np.triu(scores.coupled, 1).any()
    seconds = _seconds(scores, tolerance / _STATED, _BULK * (tolerance / _STATED), scores.rare)
    if seconds > _PATIENCE:
        return _sampler(scores, tolerance, f"integrals would take some {seconds:.0f} s")
    if lone:
        return "laplace", "one head" if scores.heads == 1 else "the heads are independent"
    return "pairs", "the heads share noise"


def _seconds(scores: Scores, error: float, left: float, rare: float) -> float:
    """Guess how long the integrals take."""
    if scores.count * scores.heads <= _FEW and float(scores.variance.max()) < 100:
        return 0.0
    wide = scores.wide(left)
    accuracy = Accuracy(error, len(wide), rare)
    deviation = scores.deviation[wide]
    reach = accuracy.reach(deviation)
    nodes = (2 * (reach * deviation).max(axis=0, initial=0.0) + accuracy.digits + 5) / accuracy.step
    grids = 2 * reach * np.maximum(deviation, 1.0) / accuracy.fine
    inner = np.minimum(grids, 4 * accuracy.scores)
    single = float((inner.sum(axis=0) * nodes).sum()) * 2e-8
    double = 0.0
    for h, g in np.argwhere(np.triu(scores.coupled, 1)):
        double += float((grids[:, h] * nodes[h] * nodes[g]).sum()) * 12 / 2e10 + len(wide) ** 2 * nodes[h] * nodes[g] * 2 / 2e10
    return _PACE * (single + double)


def _check_independent(scores: Scores, method: str) -> None:
    """Refuse heads that share noise where a method cannot have it."""
    shared = np.argwhere(np.triu(scores.coupled, 1))
    if method == "laplace" and len(shared):
        h, g = shared[0].tolist()
        more = f" and {len(shared) - 1} more pairs" if len(shared) > 1 else ""
        raise OptionError(
            "law", f'method "laplace" needs independent heads, but heads {h} and {g}{more} share noise', 'Use "pairs".'
        )


def _integrated(scores: Scores, tolerance: float, block: Block, tick: Tick | None) -> tuple[Found, str]:
    """Integrate, with finer rules, a smaller bulk and rarer noise until the error is within the tolerance; or say why not.

    How long that may take is guessed, not measured, so that the answer is the same on a slow machine.
    """
    error = max(min(tolerance / _STATED, 1e-3), _FINEST)
    left, rare, spent = _BULK * error, scores.rare, 0.0
    while True:
        spent += _seconds(scores, error, left, rare)
        found = Integrals.of(scores, (error, left, rare), tick).found(block)
        size = max(float(np.linalg.norm(found.covariance)), found.scale)
        # Rare noise can be told from none long before rules of that accuracy are at hand.
        seen = max(tolerance * size, _UNSEEN * scores.length**2)
        missed = found.covariance_error > seen and found.cut_error > 0.2 * seen
        rarer = rare + float(np.log(found.cut_error / (0.1 * seen))) if missed else rare
        enough = max(seen, 2 * found.rounding_error)
        less = left * float(np.clip(0.3 * enough / found.bulk_error, 0.1, 0.5)) if found.bulk_error > 0.9 * enough else left
        room = 0.9 * enough if less < left else enough - found.bulk_error
        room -= min(found.cut_error, 0.2 * enough)
        rule = found.covariance_error - found.bulk_error - found.cut_error
        finer = max(error * min(1e-2, 0.5 * room / rule), _FINEST) if rule > room else error
        aims = finer, less, rarer
        if found.covariance_error <= enough and rarer == rare:
            return found, "that is all that the rounding of floats allows"
        if aims == (error, left, rare):
            return found, "no rule is finer in float64"
        if spent + _seconds(scores, *aims) > _PATIENCE:
            # A smaller bulk may be what takes so long; the rest can be mended without.
            aims = finer, left, rarer
        if aims == (error, left, rare) or spent + _seconds(scores, *aims) > _PATIENCE:
            return found, "integrals that are more accurate would take more than a minute"
        error, left, rare = aims
