"""Contexts by sampling scores, not keys: a draw costs one normal number per key and head, whatever the width of the keys."""

import numpy as np
from jaxtyping import Float, Int

from headwise.stress.assemble import Found, Tick
from headwise.stress.scores import Scores

_SPACE = 1 << 21
BATCHES = 32
# Two-sided 95% point of Student's t with BATCHES - 1 degrees of freedom.
STUDENT = 2.0395
# How many scores are drawn at most: a minute or two.
_WORK = 1 << 32

Block = tuple[int, int] | None


def roots(covariance: Float[np.ndarray, "k h h"]) -> Float[np.ndarray, "k h h"]:
    """Return matrices whose product with their transpose is the covariance, which may be singular."""
    if covariance.shape[1] == 1:
        return np.sqrt(np.maximum(covariance, 0.0))
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def contexts(scores: Scores, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "draws h v"]:
    """Draw the context of every head, relative to the centre of the values."""
    nobody = np.zeros(0, dtype=np.intp)
    return contexts_given(scores, nobody, np.zeros((draws, 0, scores.heads)), rng)


def contexts_given(
    scores: Scores, known: Int[np.ndarray, " w"], given: Float[np.ndarray, "draws w h"], rng: np.random.Generator
) -> Float[np.ndarray, "draws h v"]:
    """Draw contexts with the scores of some keys given (from the shift); all others are drawn, streamed in blocks."""
    draws, heads = len(given), scores.heads
    running = _Running(draws, heads, scores.given.shape[1])
    if len(known):
        running.add(np.swapaxes(given, 1, 2).copy(), scores.values(known))
    size = max(1, _SPACE // (draws * heads))
    for rows, covariance in scores.bulk_blocks(known):
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            noise = rng.standard_normal((draws, len(part), heads))
            found = np.einsum("khg,nkg->nhk", roots(covariance[start : start + size]), noise, optimize=True)
            running.add(found + (scores.mean[part] - scores.shift).T, scores.values(part))
    return running.read / running.total[:, :, None]


class _Running:
    """A softmax that takes its keys block by block."""

    def __init__(self, draws: int, heads: int, width: int) -> None:
        self.top = np.full((draws, heads), -np.inf)
        self.total = np.zeros((draws, heads))
        self.read = np.zeros((draws, heads, width))

    def add(self, found: Float[np.ndarray, "draws h b"], values: Float[np.ndarray, "b v"]) -> None:
        higher = np.maximum(self.top, found.max(axis=2))
        fade = np.exp(self.top - higher)
        found -= higher[:, :, None]
        np.exp(found, out=found)
        self.total = self.total * fade + found.sum(axis=2)
        self.read = self.read * fade[:, :, None] + found @ values
        self.top = higher


def montecarlo(scores: Scores, tolerance: float, seed: int, tick: Tick | None, block: Block = None) -> tuple[Found, bool]:
    """Sample until the covariance has the tolerance or the work is too much; True if interrupted, with the law so far."""
    width = scores.given.shape[1]
    sums, second = np.zeros((2, BATCHES, width)), np.zeros((BATCHES, width, width))
    streams = [np.random.default_rng([seed, number]) for number in range(BATCHES)]
    each = scores.count * scores.heads
    size = int(np.clip(_SPACE // each, 8, 4096))
    most = max(2 * size, _WORK // (BATCHES * each))
    draws, found = 0, None
    try:
        while found is None or draws < wanted:
            for batch, rng in enumerate(streams):
                sample = contexts(scores, size, rng)
                left, right = (sample.mean(axis=1),) * 2 if block is None else (sample[:, block[0]], sample[:, block[1]])
                sums[0, batch] += left.sum(axis=0)
                sums[1, batch] += right.sum(axis=0)
                second[batch] += left.T @ right
            draws += size
            found = _moments(scores, sums, second, draws)
            norm = max(float(np.linalg.norm(found.covariance)), 1e-300)
            wanted = min(most, 1.05 * draws * (found.covariance_error / norm / tolerance) ** 2)
            if tick is not None:
                tick(int(min(draws, wanted)) * BATCHES, int(wanted) * BATCHES, "sampling")
    except KeyboardInterrupt:
        if found is None:
            raise
        return found, True
    return found, False


def _moments(scores: Scores, sums: np.ndarray, second: np.ndarray, draws: int) -> Found:
    """Return mean and covariance with errors from the spread between batches."""
    left, right = sums / draws
    each = second / draws - left[:, :, None] * right[:, None, :]
    each *= draws / max(draws - 1, 1)
    total = left.mean(axis=0), right.mean(axis=0)
    covariance = second.sum(axis=0) / (draws * BATCHES) - np.outer(*total)
    covariance *= draws * BATCHES / (draws * BATCHES - 1)

    def error(parts: np.ndarray) -> float:
        spread = parts - parts.mean(axis=0)
        return STUDENT * float(np.sqrt((spread**2).sum() / (BATCHES * (BATCHES - 1))))

    traces = np.einsum("bvv->b", each)
    return Found(scores.centre + total[0], covariance, error(left), error(each), error(traces), 1.0, draws * BATCHES)
