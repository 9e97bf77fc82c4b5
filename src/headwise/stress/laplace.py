"""The law of one head, and of heads that are independent, by one-dimensional integrals; nothing is sampled.

E c = int P R du and E c c^T = int P [R R^T + sum_i kappa_i v_i v_i^T] du, where P is the product of E exp(-x_i) over the keys,
R the sum of tilted means times values and kappa the tilted variances. Values are taken from the mean-score context and narrow
keys by what noise changes of them, so that no digits are lost when there is little noise.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headwise.stress.quadrature import Accuracy, grid, is_narrow, tilted
from headwise.stress.scores import Bulk, Scores

# The logarithm of the largest t whose cube is a float; where t is larger, all keys of a bulk are beyond their turning points.
_LARGEST_TIME = 230.0


@dataclass(frozen=True)
class Moments:
    """First and second moments of contexts in small bases: mean = left^T first, second = left^T core right + sum of the rest.

    `keys` are weights of v_i v_i^T for the keys that were looked at, `bulk` the factors of the cumulants x_h x_g, x_h x_h x_g
    and x_g x_g x_h of the others, `mass` what the expected weights sum to.
    """

    left: Float[np.ndarray, "r v"]
    right: Float[np.ndarray, "r v"]
    first: Float[np.ndarray, " r"]
    core: Float[np.ndarray, "r r"]
    keys: Float[np.ndarray, " w"]
    bulk: tuple[float, float, float]
    mass: float
    nodes: int
    span: tuple[float, float]


@dataclass(frozen=True)
class Split:
    """The keys that are looked at one by one, their covariances, and the sums over the others; None if there are none."""

    wide: Int[np.ndarray, " w"]
    covariances: Float[np.ndarray, "w h h"]
    bulk: Bulk | None

    @classmethod
    def of(cls, scores: Scores, error: float) -> "Split":
        """Choose the keys for a wanted error."""
        return cls.at(scores, scores.wide(error))

    @classmethod
    def at(cls, scores: Scores, wide: Int[np.ndarray, " w"]) -> "Split":
        """Look at the keys named."""
        return cls(wide, scores.covariances(wide), scores.bulk(wide) if len(wide) < scores.count else None)


@dataclass(frozen=True)
class Narrow:
    """The narrow keys of a head, whose x are multiples of t = e^u: t and they in units that neither overflows."""

    times: Float[np.ndarray, " u"]
    sizes: Float[np.ndarray, " n"]

    @classmethod
    def of(cls, scores: Scores, head: int, split: Split, u: Float[np.ndarray, " u"]) -> "Narrow":
        """Take the largest of them as the unit, and 1 where there is a bulk, which needs t as it is."""
        mean = (scores.mean[split.wide, head] - scores.shift[head])[is_narrow(scores.deviation[split.wide, head])]
        if split.bulk is not None:
            return cls(np.exp(np.minimum(u, _LARGEST_TIME)), np.exp(mean))
        if not len(mean):
            return cls(np.zeros(len(u)), mean)
        return cls(np.exp(np.minimum(u + mean.max(), _LARGEST_TIME)), np.exp(mean - mean.max()))


def base_vectors(scores: Scores, head: int, split: Split, narrow: Narrow) -> Float[np.ndarray, "r v"]:
    """Return what the coefficients of a head multiply: wide values, and what narrow keys and the bulk sum to."""
    offset, wide, bulk = scores.offsets[head], split.wide, split.bulk
    values = scores.away(wide, head)
    plain = narrow.sizes @ values[is_narrow(scores.deviation[wide, head])]
    if bulk is not None:
        summed = bulk.plain[head] + bulk.extra[head]
        plain += summed[:-1] - summed[-1] * offset
    return np.concatenate([values, plain[None]])


def reach_of(scores: Scores, head: int, split: Split, accuracy: Accuracy) -> Float[np.ndarray, " u"]:
    """Return nodes in u wherever the integrand of a head may not be negligible."""
    mean = scores.mean[split.wide, head] - scores.shift[head]
    deviation = scores.deviation[split.wide, head]
    reach = accuracy.reach(deviation) * deviation
    bulk = split.bulk
    base = np.log(float(bulk.plain[head, -1] + bulk.extra[head, -1])) if bulk is not None else -np.inf
    top = np.logaddexp(np.max(mean + reach, initial=-np.inf) + np.log(max(len(mean), 1)), base)
    low = max(np.max(mean - reach, initial=-np.inf), base)
    return grid(-top - accuracy.digits, -low + np.log(accuracy.digits + 3) + 0.5 + accuracy.step, accuracy.step)


def one_head(scores: Scores, head: int, split: Split, accuracy: Accuracy) -> tuple[Moments, Moments, Moments]:
    """Integrate one head: as well as possible, with every other node, and with a guess of fourth cumulants, to tell the error.

    Fourth cumulants are known without the values; with them they are taken to be like the third.
    """
    u = reach_of(scores, head, split, accuracy)
    narrow = Narrow.of(scores, head, split, u)
    t = narrow.times
    mean, deviation = scores.mean[split.wide, head] - scores.shift[head], scores.deviation[split.wide, head]
    keys = tilted(u, mean, deviation, accuracy)
    seen = keys.means.sum(axis=1) + t * narrow.sizes.sum()
    base = base_vectors(scores, head, split, narrow)
    found: list[Moments] = []
    span = float(u[0]), float(u[-1])
    for stride, order in ((1, 3), (2, 3), (1, 4)):
        if order == 4 and split.bulk is None:
            found.append(found[0])
            continue
        log_mass, rows, basis, drop, more = keys.log_mass, [keys.means, t[:, None]], [base], seen, 0.0
        if split.bulk is not None:
            own = split.bulk.second[head, head], split.bulk.third[head, head]
            k1 = float(split.bulk.plain[head, -1] + split.bulk.extra[head, -1])
            k2, k3 = float(own[0][-1]), float(own[1][-1])
            more = split.bulk.more(head) * (order > 3)
            # Beyond its turning point the expansion means nothing, and the mass there is negligible.
            expansion = -t * k1 + t**2 * k2 / 2 - t**3 * k3 / 6 * (1 - t * more / 4)
            log_mass = log_mass + np.where(t * k2 > 0.5 * k1, -np.inf, np.minimum(expansion, 0.0))
            rows = [*rows, -(t**2)[:, None], (t**3 / 2 * (1 - t * more / 3))[:, None]]
            basis = [*basis, np.stack([part[:-1] - part[-1] * scores.offsets[head] for part in own])]
            drop = drop + t * (k1 - t * k2 + t**2 * k3 / 2)
        mass = np.exp(log_mass[::stride]) * (accuracy.step * stride)
        live = np.flatnonzero(mass > 0) * stride
        mass = mass[mass > 0]
        vectors, coefficients = np.concatenate(basis), np.concatenate([row[live] for row in rows], axis=1)
        weighted = coefficients * mass[:, None]
        powers = float(mass @ t[live] ** 2), -float(mass @ (t[live] ** 3 * (1 - t[live] * more / 2))) / 2
        if scores.heads > 1 and not found:
            moved = ((coefficients @ vectors) ** 2).sum(axis=1) + keys.variances[live] @ (base[:-1] ** 2).sum(axis=1)
            if split.bulk is not None:
                moved += (2 * scores.length * t[live]) ** 2 * split.bulk.second[head, head, -1]
            span = _busy(u[live], mass * drop[live], mass * moved, accuracy)
        found.append(
            Moments(
                vectors,
                vectors,
                weighted.sum(axis=0),
                weighted.T @ coefficients,
                mass @ keys.variances[live],
                (powers[0], powers[1], powers[1]),
                float(mass @ drop[live]),
                len(u),
                span,
            )
        )
    return found[0], found[1], found[2]


def _busy(
    u: Float[np.ndarray, " u"], mass: Float[np.ndarray, " u"], moved: Float[np.ndarray, " u"], accuracy: Accuracy
) -> tuple[float, float]:
    """Return where a head adds to second moments with others, from its expected weights and its own second moments at each u.

    What is left out of E[c_h c_g] is at most its probability times the largest values, and at most the root of what is left out
    of E[c_h c_h] times E[c_g c_g]. Where weights are, nodes are needed for their sum to be 1.
    """
    least = 1e-3 * accuracy.error
    moving = (mass > least * np.exp(-accuracy.rare) * accuracy.step) & (moved > least**2 * moved.sum())
    busy = u[(mass > least * accuracy.step) | moving]
    return (float(busy[0]), float(busy[-1])) if len(busy) else (float(u[0]), float(u[-1]))
