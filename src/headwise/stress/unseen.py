"""What a sample cannot show: draws so rare that it holds none of them may still move the output, and so its law."""

import numpy as np
from jaxtyping import Float

from headwise.stress.scores import Scores

# A sample of n draws holds, 19 times of 20, something of what has the probability 3 / n.
_THREE = 3.0
_CELLS, _FARTHEST = 72, 9.0
_BLOCK = 1 << 14


def unseen(scores: Scores, power: int) -> tuple[Float[np.ndarray, " h"], Float[np.ndarray, " h"]]:
    """Return what noise too rare for 2^power draws may add to the mean and the second moment of each head's context.

    Every key is met by all others at their means, with its own noise and that of the key with the highest score: as the noise
    takes its odds further than any draw did, its weight moves, and the context with it towards or away from its value. Where
    many keys do alike, the draws have seen more of what each can do.
    """
    if power in scores.unseen:
        return scores.unseen[power]
    found = np.empty((2, scores.heads))
    for head in range(scores.heads):
        alone = _moves(scores, head, _THREE / 2.0**power)[1]
        alike = float(alone.sum() ** 2 / max(float(alone @ alone), 1e-300)) if alone.any() else 1.0
        found[:, head] = [part.sum() for part in _moves(scores, head, _THREE / (2.0**power * max(alike, 1.0)))]
    diameter = 2 * scores.length
    scores.unseen[power] = np.minimum(found[0], diameter), np.minimum(found[1], diameter**2)
    return scores.unseen[power]


def _moves(scores: Scores, head: int, chance: float) -> tuple[Float[np.ndarray, " f"], Float[np.ndarray, " f"]]:
    """Return by how much each key moves the context on average, and squared, by noise of at most this probability."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  slow to load

    edges = -float(ndtri(min(chance, 0.5))) + np.linspace(0, _FARTHEST, _CELLS + 1)
    # Weights are taken where they have moved most in each cell.
    noise, mass = edges[1:], ndtr(-edges[:-1]) - ndtr(-edges[1:])
    top = int(scores.tops[head])
    lead = scores.mean[:, head] - scores.mean[top, head]
    odds = np.exp(lead)
    odds[top] = 0.0
    others = odds.sum() + 1 - odds
    others[top] = odds.sum()
    with np.errstate(divide="ignore"):
        behind = np.log(others) - lead
    behind[top] = np.abs(behind[top])
    spread = np.hypot(scores.deviation[:, head], scores.deviation[top, head])
    spread[top] = scores.deviation[top, head]
    felt = np.flatnonzero((spread > 0) & (behind - spread * noise[-1] < 80))
    first, second = np.empty((2, len(felt)))
    for begin in range(0, len(felt), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        rows = felt[part]
        away = behind[rows, None]
        with np.errstate(over="ignore"):
            weight, grown = 1 / (1 + np.exp(away)), spread[rows, None] * noise
            # What is linear in the noise shows in any sample.
            moved = np.maximum(1 / (1 + np.exp(away - grown)) - weight * (1 + (1 - weight) * grown), 0.0)
        far = np.where(rows == top, 2 * scores.length, np.linalg.norm(scores.away(rows, head), axis=1))
        first[part], second[part] = far * (moved @ mass), far**2 * (moved**2 @ mass)
    return first, second


def allowance(scores: Scores, draws: int, block: tuple[int, int] | None = None) -> tuple[float, float]:
    """Return what to add to the stated errors of a mean and of a covariance from some draws."""
    parts = unseen(scores, max(2, int(np.log2(draws))))
    chosen = slice(None) if block is None else list(block)
    mean, moment = (float(part[chosen].max() if block else part.mean()) for part in parts)
    return mean, moment
