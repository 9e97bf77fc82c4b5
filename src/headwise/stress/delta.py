"""Tiny noise: the output is linear in the scores, c0 + sum_i a_i (v_i - c0) e_i, so its covariance is a sum over keys."""

import numpy as np

from headwise.stress.assemble import Found
from headwise.stress.scores import Scores

# Above this variance of a score nothing is claimed for the linear term.
_TINY = 0.1


def delta(scores: Scores, block: tuple[int, int] | None = None) -> Found:
    """Return the law of the linearised output, for all heads or one head-by-head block.

    The next term is smaller by about the variance of a score.
    """
    width = scores.given.shape[1]
    covariance = np.zeros((width, width))
    shift = np.zeros((scores.heads, width))
    coupled = [(h, h) for h in range(scores.heads)] + np.argwhere(np.triu(scores.coupled, 1)).tolist()
    pairs = coupled if block is None else [block]
    for rows, given in scores.blocks():
        shares = scores.shares[rows]
        away = [scores.away(rows, head) for head in range(scores.heads)]
        for h, g in pairs:
            weights = shares[:, h] * shares[:, g] * given[:, h, g] * (1 + (h != g and block is None))
            covariance += (away[h] * weights[:, None]).T @ away[g]
        # Second order: half the trace of the second derivative, a_i (1 - 2 a_i) var_i (v_i - c0) / 2.
        bend = shares * (1 - 2 * shares) * scores.variance[rows] / 2
        shift += [part @ vectors for part, vectors in zip(bend.T, away, strict=True)]
    if block is None:
        covariance = (covariance + covariance.T) / (2 * scores.heads**2)
    trace = float(np.trace(covariance))
    doubt, rounding = scores.rounding(trace, _varying(scores))
    error = _neglected(scores, trace) + 1e-14 * float(np.linalg.norm(covariance)) + rounding
    mean = scores.centre + (scores.offsets + shift).mean(axis=0)
    shifted = float(np.sqrt(error) * np.sqrt(float(scores.variance.max())))
    return Found(mean, covariance, shifted + doubt, error, error, 1.0, scores.count)


def _varying(scores: Scores) -> float:
    """Return by how much weights vary, to first order, in the head where they vary most."""
    own = scores.shares * (1 - scores.shares)
    # A share near 1 is 1 less the others, to all their digits.
    heads = np.arange(scores.heads)
    others = scores.shares.copy()
    others[scores.tops, heads] = 0.0
    own[scores.tops, heads] = scores.shares[scores.tops, heads] * others.sum(axis=0)
    return float(np.sqrt((own**2 * scores.variance).sum(axis=0).max()))


def _neglected(scores: Scores, trace: float) -> float:
    """Bound what the terms after the linear one add to the covariance; heads are added up, for they may cancel."""
    largest = float(scores.variance.max())
    if largest > _TINY:
        return 4 * scores.length**2 + trace  # neither is known to be near the other
    linear, bent = np.zeros(scores.heads), np.zeros(scores.heads)
    for rows, _ in scores.blocks():
        away = np.stack([np.linalg.norm(scores.away(rows, head), axis=1) for head in range(scores.heads)], axis=1)
        linear += (scores.shares[rows] ** 2 * scores.variance[rows] * away**2).sum(axis=0)
        bent += (scores.shares[rows] * scores.variance[rows] * away).sum(axis=0)
    straight, curved = float(np.sqrt(linear).mean()), float(bent.mean())
    return 5 * largest * straight**2 + 3 * curved**2
