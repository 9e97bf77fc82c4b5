"""Tiny noise: the output is linear in the scores, c0 + sum_i a_i (v_i - c0) e_i, so its covariance is a sum over keys."""

import numpy as np

from headwise.stress.assemble import Found
from headwise.stress.scores import Scores


def delta(scores: Scores, block: tuple[int, int] | None = None) -> Found:
    """Return the law of the linearised output, for all heads or one head-by-head block.

    The next term is smaller by about the variance of a score; the error stated is five times the largest.
    """
    width = scores.given.shape[1]
    covariance = np.zeros((width, width))
    shift = np.zeros((scores.heads, width))
    offsets = scores.offsets
    for rows, given in scores.blocks():
        shares, values = scores.shares[rows], scores.values(rows)
        products = shares[:, :, None] * shares[:, None, :] * given
        if block is not None:
            chosen = np.zeros_like(products)
            chosen[:, block[0], block[1]] = products[:, block[0], block[1]]
            products = chosen
        covariance += np.einsum("khg,kv,kx->vx", products, values, values, optimize=True)
        sums = np.einsum("khg,kv->hgv", products, values, optimize=True)
        covariance -= np.einsum("hgv,gx->vx", sums, offsets) + np.einsum("hv,hgx->vx", offsets, sums)
        covariance += np.einsum("hg,hv,gx->vx", products.sum(axis=0), offsets, offsets)
        # Second order: half the trace of the second derivative, a_i (1 - 2 a_i) var_i (v_i - c0) / 2.
        bend = shares * (1 - 2 * shares) * scores.variance[rows] / 2
        shift += bend.T @ values - bend.sum(axis=0)[:, None] * offsets
    if block is None:
        covariance /= scores.heads**2
    error = min(1.0, 5 * float(scores.variance.max())) + 1e-14
    norm = float(np.linalg.norm(covariance))
    trace = float(np.trace(covariance))
    mean = scores.centre + (offsets + shift).mean(axis=0)
    return Found(mean, covariance, error * np.sqrt(abs(trace)), error * norm, error * abs(trace), 1.0, scores.count)
