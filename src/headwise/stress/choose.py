"""Which method answers, how accurate its parts must be, and what is said of it."""

import time
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
    stopped = False
    # One thread, so that sums are rounded alike on every machine; where all is small, asking for it takes longer than the rest.
    with nullcontext() if scores.count * scores.heads <= _FEW and chosen in _INTEGRALS else one_blas_thread():
        if chosen == "delta":
            found = delta(scores, block)
        elif chosen in _INTEGRALS:
            found = _integrated(scores, tolerance, block, tick)
        elif chosen == "hybrid" and block is None:
            found, stopped = hybrid(scores, tolerance, seed, tick)
        else:
            found, stopped = montecarlo(scores, tolerance, seed, tick, block)
    return Answer(found, chosen, _said(found, chosen, reason, tolerance, stopped=stopped))


def _said(found: Found, method: str, reason: str, tolerance: float, *, stopped: bool) -> str:
    size = float(np.linalg.norm(found.covariance))
    error = found.covariance_error / size if size > 0 else 0.0
    said = f"interrupted; {reason}" if stopped else reason
    if error <= tolerance:
        return said
    said = f"{said}; the error is {error:.1e} of the covariance, not {tolerance:.1e}"
    if method in ("hybrid", "montecarlo"):
        more = min(error / tolerance, _HOPELESS) ** 2
        return (
            f"{said}; {more:.3g} times the samples would reach it" if more < _HOPELESS else f"{said}; no sample would reach it"
        )
    return f"{said}; " + ('"pairs" does better' if method == "delta" else "that is all that float64 allows, or a minute")


def _fitting(scores: Scores, tolerance: float) -> tuple[str, str]:
    """Choose by the size of the noise, by what heads share, and by the work."""
    if 5 * float(scores.variance.max()) <= tolerance:
        tried = delta(scores)
        if tried.covariance_error <= tolerance * float(np.linalg.norm(tried.covariance)):
            return "delta", "the noise is tiny"
    lone = not np.triu(scores.coupled, 1).any()
    seconds = _seconds(scores, tolerance / _STATED, _BULK * (tolerance / _STATED), scores.rare)
    if seconds > _PATIENCE:
        sampled = "hybrid" if scores.count * scores.heads > _FEW and fits(scores, tolerance) else "montecarlo"
        return sampled, f"integrals would take some {seconds:.0f} s"
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
    return single + double


def _late(scores: Scores, aims: tuple[float, float, float], start: float) -> bool:
    """Say whether integrals of a smaller error would take too long."""
    return bool(time.monotonic() - start > _PATIENCE / 6 or _seconds(scores, *aims) > _PATIENCE)


def _check_independent(scores: Scores, method: str) -> None:
    """Refuse heads that share noise where a method cannot have it."""
    shared = np.argwhere(np.triu(scores.coupled, 1))
    if method == "laplace" and len(shared):
        h, g = shared[0].tolist()
        more = f" and {len(shared) - 1} more pairs" if len(shared) > 1 else ""
        raise OptionError(
            "law", f'method "laplace" needs independent heads, but heads {h} and {g}{more} share noise', 'Use "pairs".'
        )


def _integrated(scores: Scores, tolerance: float, block: Block, tick: Tick | None) -> Found:
    """Integrate, with finer rules, a smaller bulk and rarer noise until the error is within the tolerance."""
    error, start = max(min(tolerance / _STATED, 1e-3), _FINEST), time.monotonic()
    left, rare = _BULK * error, scores.rare
    while True:
        found = Integrals.of(scores, (error, left, rare), tick).found(block)
        size = max(float(np.linalg.norm(found.covariance)), found.scale)
        # Rare noise can be told from none long before rules of that accuracy are at hand.
        seen = max(tolerance * size, _UNSEEN * scores.length**2)
        missed = found.covariance_error > seen and found.cut_error > 0.2 * seen
        rarer = rare + float(np.log(found.cut_error / (0.1 * seen))) if missed else rare
        enough = max(seen, 2 * found.rounding_error)
        less = left * min(0.1, 0.1 * enough / found.bulk_error) if found.bulk_error > 0.9 * enough else left
        room = 0.9 * enough if less < left else enough - found.bulk_error
        room -= min(found.cut_error, 0.2 * enough)
        rule = found.covariance_error - found.bulk_error - found.cut_error
        finer = max(error * min(1e-2, 0.5 * room / rule), _FINEST) if rule > room else error
        aims = finer, less, rarer
        done = found.covariance_error <= enough and rarer == rare
        if done or aims == (error, left, rare) or _late(scores, aims, start):
            return found
        error, left, rare = aims
