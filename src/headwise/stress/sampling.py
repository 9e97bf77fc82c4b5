"""Contexts by sampling scores, not keys: a draw costs one normal number per key and head, whatever the width of the keys."""

from importlib.util import find_spec

import numpy as np
from jaxtyping import Float, Float32, Int

from headwise.stress.assemble import Found, Tick
from headwise.stress.random_bits import normals
from headwise.stress.scores import Scores
from headwise.stress.unseen import allowance

_SPACE = 1 << 21
BATCHES = 32
# So many keys may have a covariance of their own beside one that all others share.
_SPECIAL = 64
# Two-sided 95% point of Student's t with BATCHES - 1 degrees of freedom (2.04), and some more for heavy tails.
STUDENT = 2.2
# How many scores are drawn at most: a minute or two.
_WORK = 1 << 32
_DRAWS = 1 << 24

Block = tuple[int, int] | None
Weights = Float32[np.ndarray, "n k"]


def roots(covariance: Float[np.ndarray, "k h h"]) -> Float[np.ndarray, "k h h"]:
    """Return matrices whose product with their transpose is the covariance, which may be singular."""
    if covariance.shape[1] == 1:
        return np.sqrt(np.maximum(covariance, 0.0))
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]


def _triangle(root: Float[np.ndarray, "h h"]) -> Float[np.ndarray, "h h"]:
    """Return the lower triangular root of the same matrix, which is less work to multiply by; it may be singular."""
    return np.linalg.qr(root.T)[1].T


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


class Sampler:
    """Averaged contexts of many draws in float32, by compiled loops if numba is installed; the same numbers either way."""

    def __init__(self, scores: Scores) -> None:
        """Bring means and roots of the scores to single precision; keys that share a covariance share its root."""
        self.scores = scores
        heads, count = scores.heads, scores.count
        self.mean = np.ascontiguousarray((scores.mean - scores.shift).T, dtype=np.float32)
        self.unit = scores.length or 1.0
        self.values = (scores.values(slice(None)) / self.unit).astype(np.float32)
        first = scores.covariances(np.array([count - 1]))[0]
        own = np.zeros(count, dtype=bool)
        for rows, covariance in scores.blocks():
            own[rows] = (np.abs(covariance - first) > 1e-12 * np.abs(first).max(initial=0.0)).any(axis=(1, 2))
        self.shared = _triangle(roots(first[None])[0]).astype(np.float32)
        self.own = np.zeros((0, heads, count), dtype=np.float32)
        self.special = np.flatnonzero(own)
        self.roots = np.zeros((0, heads, heads), dtype=np.float32)
        if len(self.special) <= max(_SPECIAL, count // 100):
            self.roots = roots(scores.covariances(self.special)).astype(np.float32)
        else:
            self.own = np.empty((heads, heads, count), dtype=np.float32)
            for rows, covariance in scores.blocks():
                self.own[:, :, rows] = np.moveaxis(roots(covariance), 0, 2)
            self.special = self.special[:0]

    def weights(self, key: tuple[int, int], first: int, draws: int, *, compiled: bool | None = None) -> Weights:
        """Return the weights of some draws, averaged over heads."""
        seed = key[0] & 0xFFFFFFFF, key[1] & 0xFFFFFFFF
        if find_spec("numba") is not None if compiled is None else compiled:
            from headwise.stress import fused  # noqa: PLC0415  compiles on first use

            out = np.empty((draws, self.scores.count), dtype=np.float32)
            words = np.uint32(seed[0]), np.uint32(seed[1])
            even = np.pad(self.shared, ((0, 0), (0, len(self.shared) % 2)))
            fused.weights(words, first, self.mean, (even, self.own, self.special, self.roots), out)
            return out
        noise = normals(seed, np.arange(first, first + draws), self.scores.count, self.scores.heads)
        if len(self.own):
            found = np.einsum("hgk,ngk->nhk", self.own, noise, optimize=True)
        else:
            found = self.shared @ noise
            for place, root in zip(self.special, self.roots, strict=True):
                found[:, :, place] = noise[:, :, place] @ root.T
        found += self.mean
        found -= found.max(axis=2, keepdims=True)
        np.exp(found, out=found)
        found /= found.sum(axis=2, keepdims=True)
        return found.mean(axis=1)

    def contexts(self, key: tuple[int, int], first: int, draws: int) -> Float[np.ndarray, "n v"]:
        """Return averaged contexts from the centre."""
        return (self.weights(key, first, draws) @ self.values).astype(np.float64) * self.unit


def montecarlo(scores: Scores, tolerance: float, seed: int, tick: Tick | None, block: Block = None) -> tuple[Found, bool]:
    """Sample until the covariance has the tolerance or the work is too much; True if interrupted, with the law so far."""
    width = scores.given.shape[1]
    sums, second = np.zeros((2, BATCHES, width)), np.zeros((BATCHES, width, width))
    streams = [np.random.default_rng([seed, number]) for number in range(BATCHES)]
    each = scores.count * scores.heads
    size = int(np.clip(_SPACE // each, 32, 4096))
    most = max(2 * size, min(_WORK // each, _DRAWS) // BATCHES)
    draws, found, drawn = 0, None, Sampler(scores)
    try:
        while found is None or draws < wanted:
            for batch, rng in enumerate(streams):
                if block is None:
                    left = right = drawn.contexts((seed, batch), draws, size)
                else:
                    sample = contexts(scores, size, rng)
                    left, right = sample[:, block[0]], sample[:, block[1]]
                sums[0, batch] += left.sum(axis=0)
                sums[1, batch] += right.sum(axis=0)
                second[batch] += left.T @ right
            draws += size
            found = _moments(scores, sums, second, draws, block)
            norm = max(float(np.linalg.norm(found.covariance)), 1e-300)
            floor = _rounding(scores, found.covariance)[1]
            chance, goal = found.covariance_error - floor, max(tolerance * norm - floor, floor)
            wanted = min(most, 1.05 * draws * (chance / goal) ** 2)
            if tick is not None:
                tick(int(min(draws, wanted)) * BATCHES, int(wanted) * BATCHES, "sampling")
    except KeyboardInterrupt:
        if found is None:
            raise
        return found, True
    return found, False


def _rounding(scores: Scores, covariance: Float[np.ndarray, "v v"]) -> tuple[float, float]:
    """Return what single precision may do to a mean and to a covariance."""
    doubt = 4e-7 * scores.length
    return doubt, doubt * (2 * float(np.sqrt(max(float(np.trace(covariance)), 0.0))) + doubt)


def _moments(scores: Scores, sums: np.ndarray, second: np.ndarray, draws: int, block: Block) -> Found:
    """Return mean and covariance with errors from the spread between batches, and for what no batch has seen."""
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
    doubt, rounding = _rounding(scores, covariance)
    shift, more = allowance(scores, draws * BATCHES, block)
    errors = error(left) + doubt + shift, error(each) + rounding + more, error(traces) + rounding + more
    return Found(scores.centre + total[0], covariance, *errors, 1.0, draws * BATCHES)
