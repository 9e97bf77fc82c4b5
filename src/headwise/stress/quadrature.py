"""Rules for the integrals of a head's law, and what one key contributes to them.

With t = e^u, 1/D is the integral of exp(-t D) and D is a sum over independent keys, so the expectation factorises into one
factor per key: g_k(y) = E[x^k exp(-x)], x = exp(y + s Z). The trapezoidal rule is the right one throughout: the integrands
are analytic in a strip of half-width pi/2, so its error falls like exp(-pi^2 / step).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# Keys whose score has a standard deviation below this are integrated over the noise, others over the score itself.
WIDE = 2.0
_BINS = (0.0, 0.25, 0.5, 1.0, WIDE)
_LARGEST = 700.0
_SPACE = 1 << 21


@dataclass(frozen=True)
class Accuracy:
    """Steps and ranges for a relative error of about `error` in each integral, where errors of `keys` keys add up.

    Ranges reach noise so rare that it is negligible even where the output moves in rare draws only, `rare` being the logarithm
    of how small its covariance is beside that of an output that always moves.
    """

    error: float
    keys: int = 1
    rare: float = 0.0

    @property
    def digits(self) -> float:
        """The natural logarithm of 1 / error, with some room for what ranges cut off."""
        return 3.0 - np.log(self.error)

    @property
    def step(self) -> float:
        """Step in u."""
        return np.pi**2 / (1.5 - np.log(self.error))

    @property
    def alias(self) -> float:
        """How far the rule in u may be off, relative to a covariance: by 2 |Gamma(2 + 2 pi i / step)| of second moments."""
        return 4 * np.sqrt(2 * np.pi) * (2 * np.pi / self.step) ** 1.5 * np.exp(-(np.pi**2) / self.step)

    @property
    def gain(self) -> float:
        """How much smaller the error is than with every other node."""
        return np.exp(-(np.pi**2) / (2 * self.step))

    @property
    def fine(self) -> float:
        """Step in scores, for each of many keys."""
        return np.pi**2 / self._sharpness

    @property
    def _sharpness(self) -> float:
        """The natural logarithm of 1 / error for a key's integrals.

        With a step h the rule for x^2 exp(-x), x = e^y, is off by 2 |Gamma(2 + 2 pi i / h)|, which is some 150 times the
        exp(-pi^2 / h) of the strip alone; on the slope of rare noise it is steeper still, by powers of x.
        """
        return 5.0 - np.log(self.error) + np.log(max(self.keys, 1)) + min(self.rare, 8.0)

    @property
    def farthest(self) -> float:
        """How many standard deviations of noise are looked at, at most."""
        return np.sqrt(2 * (self.digits + self.rare))

    def reach(self, deviation: Float[np.ndarray, "*k"] | float) -> Float[np.ndarray, "*k"]:
        """Return how many standard deviations of noise are looked at, for scores of some standard deviations s.

        Noise z of one key moves the output by a growing function that grows at most like e^(s z) - 1, whatever the other scores
        are, so its squares are those of a normal with its centre at 2 s or nearer.
        """
        return np.asarray(np.minimum(np.sqrt(2 * self.digits) + 2 * np.asarray(deviation), self.farthest))

    def cut(self, deviation: Float[np.ndarray, " k"]) -> float:
        """Bound the probability of noise beyond the reach, of the keys for which nothing else bounds what it does."""
        count = int((np.sqrt(2 * (self.digits - 1)) + 2 * deviation > self.farthest).sum())
        return count * float(np.sqrt(2 / np.pi) * np.exp(-0.5 * self.farthest**2) / self.farthest)

    def normal(self, deviation: float) -> float:
        """Return the step that a normal density of some standard deviation allows."""
        return deviation * np.pi * np.sqrt(2 / (self.digits + np.log(max(self.keys, 1))))

    def noise(self, deviation: float) -> tuple[Float[np.ndarray, " z"], Float[np.ndarray, " z"]]:
        """Return nodes and weights for a standard normal that is multiplied by a standard deviation s.

        On the edge of the strip, pi / (2 s) from the axis, the normal density is larger by exp(pi^2 / (8 s^2)); where its own
        aliases have died down before that, the edge does not matter.
        """
        step, edge = self.normal(1.0), np.pi / (2 * max(deviation, 1e-300))
        if edge < 2 * np.pi / step:
            step = min(step, 2 * np.pi * edge / (self._sharpness + edge**2 / 2))
        count = int(np.ceil(float(self.reach(deviation)) / step))
        nodes = np.arange(-count, count + 1) * step
        weights = np.exp(-0.5 * nodes**2)
        return nodes, weights / weights.sum()

    def span(self) -> tuple[float, float]:
        """Return between which scores x exp(-x), x = e^score, is not negligible.

        Where the output moves in rare draws only, a covariance of e^-rare is made of x as small as e^(-rare / 2).
        """
        return -self.digits - 1 - self.rare / 2, float(np.log(self.digits)) + 1.5

    def least(self, deviation: Float[np.ndarray, " k"]) -> float:
        """Bound the second moment of weights below the span, which those keys have that are integrated over their scores."""
        return float(np.exp(2 * self.span()[0])) if not is_narrow(deviation).all() else 0.0

    @property
    def scores(self) -> int:
        """How many scores of one key are looked at, about, if it is wide."""
        low, high = self.span()
        return int(np.ceil((high - low) / self.fine))


@dataclass(frozen=True)
class Tilted:
    """Keys under the weight exp(-x): log E exp(-x), the mean of x (less e^y where `narrow`), and its variance."""

    log_mass: Float[np.ndarray, " u"]
    means: Float[np.ndarray, "u k"]
    variances: Float[np.ndarray, "u k"]


def tilted(u: Float[np.ndarray, " u"], m: Float[np.ndarray, " k"], s: Float[np.ndarray, " k"], accuracy: Accuracy) -> Tilted:
    """Integrate every key, m and s being mean and standard deviation of its score; keys that are alike are integrated once."""
    firsts, places, counts = _alike(m, s)
    m, s = m[firsts], s[firsts]
    log_mass = np.zeros(len(u))
    means, variances = np.empty((2, len(u), len(m)))
    edges = [*_BINS, np.inf]
    groups = np.searchsorted(edges, s, side="right")
    for group in np.unique(groups):
        chosen = np.flatnonzero(groups == group)
        if edges[group - 1] >= WIDE:
            work, nodes = _wide, accuracy.scores
        else:
            work, nodes = _narrow, len(accuracy.noise(float(s[chosen].max()))[0])
        size = max(1, _SPACE // (len(u) * nodes))
        for start in range(0, len(chosen), size):
            rows = chosen[start : start + size]
            log_g0, means[:, rows], variances[:, rows] = work(u, m[rows], s[rows], accuracy)
            log_mass += log_g0 @ counts[rows]
    return Tilted(log_mass, means[:, places], variances[:, places])


def _alike(m: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one key of each law of scores (the same up to rounding), which of them each key is like, and how many are."""
    both = np.round(m + 1j * np.log(np.maximum(s, 1e-300)), 14)
    _, firsts, places, counts = np.unique(both, return_index=True, return_inverse=True, return_counts=True)
    return firsts, places, counts


def grid(low: float, high: float, step: float) -> Float[np.ndarray, " n"]:
    """Return numbers from low to high; `np.arange` rounds the step to what the difference of the first two is."""
    return low + step * np.arange(int(np.ceil((high - low) / step)))


def is_narrow(s: np.ndarray) -> np.ndarray:
    """Say of which keys `tilted` gives the mean less e^y, which keeps its digits when there is little noise."""
    return np.asarray(s < WIDE)


def _narrow(u: np.ndarray, m: np.ndarray, s: np.ndarray, accuracy: Accuracy) -> tuple[np.ndarray, ...]:
    nodes, weights = accuracy.noise(float(s.max()))
    noise = s[:, None] * nodes
    base = np.exp(np.minimum(u[:, None] + m, _LARGEST / 2))
    mass = np.exp(-base[:, :, None] * np.exp(noise))
    mass *= weights
    away = np.expm1(noise)
    total = mass.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.einsum("ukz,kz->uk", mass, away) / total
        second = np.einsum("ukz,kz->uk", mass, away**2) / total
        log_total = np.log(total)
    gone = total <= 0
    first[gone], second[gone] = -1.0, 1.0
    return log_total, base * first, base**2 * np.maximum(second - first**2, 0.0)


def _wide(u: np.ndarray, m: np.ndarray, s: np.ndarray, accuracy: Accuracy) -> tuple[np.ndarray, ...]:
    """Integrate over the score: E exp(-x) is the integral of x exp(-x) Phi, by parts, which any width leaves short."""
    from scipy.special import ndtr  # noqa: PLC0415  slow to load

    # Scores lie on a grid that the nodes in u are a part of, so that their differences are few.
    parts = int(np.ceil(accuracy.step / accuracy.fine))
    fine = accuracy.step / parts
    scores = grid(*accuracy.span(), fine)
    x = np.exp(scores)
    kernel = x * np.exp(-x) * fine
    differences = scores[0] - u[-1] + fine * np.arange((len(u) - 1) * parts + len(scores))
    away = (differences - m[:, None]) / s[:, None]
    place = parts * np.arange(len(u))[::-1, None] + np.arange(len(scores))
    total = (ndtr(away)[:, place] @ kernel).T
    density = (np.exp(-0.5 * away**2) / (np.sqrt(2 * np.pi) * s[:, None]))[:, place]
    first, second = (density @ kernel).T, (density @ (kernel * x)).T
    with np.errstate(divide="ignore", invalid="ignore"):
        log_total, first, second = np.log(total), first / total, second / total
    gone = total <= 0
    first[gone], second[gone] = 0.0, 0.0
    return log_total, first, np.maximum(second - first**2, 0.0)
