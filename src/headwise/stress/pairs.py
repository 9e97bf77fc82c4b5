"""What two heads that look at the same random keys have in common: two-dimensional integrals, no sampling.

E[c_h c_g^T] = int int P [R_h R_g^T + sum_i kappa_i v_i v_i^T] du dw with joint transforms of each key's two scores. The noise
of a key is integrated on a grid for one head's score and, given it, on a grid for the other's; sums over grids are matrix
products.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headwise.stress.laplace import Moments, Narrow, Split, base_vectors
from headwise.stress.quadrature import WIDE, Accuracy, grid
from headwise.stress.scores import Scores

_SPACE = 1 << 22
# A variance that is no more than the rounding of those it is the difference of.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Joint:
    """One key under exp(-x_h - x_g): its mass, the two tilted means (less e^y where narrow), and their covariance."""

    mass: Float[np.ndarray, "u w"]
    left: Float[np.ndarray, "u w"]
    right: Float[np.ndarray, "u w"]
    covariance: Float[np.ndarray, "u w"]


@dataclass(frozen=True)
class _Side:
    """One head of a pair: nodes in u, and the mean and standard deviation of a key's score."""

    u: Float[np.ndarray, " u"]
    mean: float
    deviation: float

    def at(self, noise: Float[np.ndarray, " z"]) -> tuple[Float[np.ndarray, "u z"], Float[np.ndarray, "u z"]]:
        """Return exp(-x), and that times x (or times x e^-y - 1, for a narrow key), at given noise."""
        if float(noise.max()) < 300:
            x = np.exp(np.minimum(self.u + self.mean, 350.0))[:, None] * np.exp(noise)
        else:
            x = np.exp(np.minimum((self.u + self.mean)[:, None] + noise, 700.0))
        mass = np.exp(-x)
        if self.deviation < WIDE:
            return mass, mass * np.expm1(noise)
        return mass, np.where(mass > 0, mass * np.minimum(x, 1e300), 0.0)

    def unit(self) -> Float[np.ndarray, " u"]:
        """Return what the tilted means are in units of."""
        return np.exp(np.minimum(self.u + self.mean, 350.0)) if self.deviation < WIDE else np.ones(len(self.u))


def joint(left: _Side, right: _Side, covariance: float, accuracy: Accuracy) -> Joint:
    """Integrate one key over the noise of its two scores."""
    slope = covariance / left.deviation if left.deviation > 0 else 0.0
    left_over = right.deviation**2 - slope**2
    rest = float(np.sqrt(left_over)) if left_over > _ROUNDING * right.deviation**2 else 0.0
    nodes, weights = accuracy.noise(max(left.deviation, abs(slope)))
    mass, first = left.at(left.deviation * nodes)
    mass_g, first_g = _given(right, slope * nodes, rest, accuracy)
    mass_g, first_g = mass_g * weights, first_g * weights
    total = mass @ mass_g.T
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b, c = (first @ mass_g.T) / total, (mass @ first_g.T) / total, (first @ first_g.T) / total
    gone = total <= 0
    a[gone] = b[gone] = c[gone] = 0.0
    unit_h, unit_g = left.unit()[:, None], right.unit()
    return Joint(total, a * unit_h, b * unit_g, (c - a * b) * unit_h * unit_g)


def _given(
    side: _Side, centres: Float[np.ndarray, " z"], rest: float, accuracy: Accuracy
) -> tuple[Float[np.ndarray, "w z"], Float[np.ndarray, "w z"]]:
    """Average one side over what noise is left when the other side's is known, around each of some centres."""
    if rest == 0:
        return side.at(centres)
    step = min(accuracy.fine, accuracy.normal(rest))
    if step >= accuracy.fine / 2:
        edge = float(accuracy.reach(rest)) * rest
        scores = grid(centres.min() - edge, centres.max() + edge + step, step)
        mass, first = side.at(scores)
        density = np.exp(-0.5 * ((scores[:, None] - centres) / rest) ** 2)
        density /= density.sum(axis=0)
        return mass @ density, first @ density
    nodes, weights = accuracy.noise(rest)
    mass, first = (
        (part.reshape(len(side.u), len(centres), len(nodes)) @ weights)
        for part in side.at((centres[:, None] + rest * nodes).ravel())
    )
    return mass, first


def two_heads(
    scores: Scores, pair: tuple[int, int], split: Split, accuracy: Accuracy, spans: tuple[tuple[float, float], ...]
) -> tuple[Moments, Moments, Moments]:
    """Integrate a pair of heads: as well as possible, with every other node, and with a guess of fourth cumulants."""
    nodes = [grid(low, high + accuracy.step, accuracy.step) for low, high in spans]
    wide = split.wide
    mean = scores.mean[wide][:, list(pair)] - scores.shift[list(pair)]
    deviation = scores.deviation[wide][:, list(pair)]
    shared = split.covariances[:, pair[0], pair[1]]
    sums = [_Sums(), _Sums(), _Sums()]
    size = max(2, _SPACE // (max(len(wide), 1) * len(nodes[1])) // 2 * 2)
    for start in range(0, len(nodes[0]), size):
        u = nodes[0][start : start + size]
        joints = [
            joint(_Side(u, *a), _Side(nodes[1], *b), c, accuracy)
            for (a, b), c in zip(np.stack([mean, deviation], axis=2).tolist(), shared.tolist(), strict=True)
        ]
        narrow = [Narrow.of(scores, head, split, axis) for head, axis in zip(pair, (u, nodes[1]), strict=True)]
        t = narrow[0].times[:, None], narrow[1].times[None, :]
        seen = [
            sum((getattr(key, name) for key in joints), np.zeros((len(u), len(nodes[1])))) + t[side] * narrow[side].sizes.sum()
            for side, name in enumerate(("left", "right"))
        ]
        for place, (stride, order) in enumerate(((1, 3), (2, 3), (1, 4))):
            if order == 3 or split.bulk is not None:
                sums[place].add(joints, seen, t, _Bulk.of(split, pair, order), accuracy.step**2 * stride**2, stride)
    bases = [_basis(scores, split, *heads, Narrow.of(scores, heads[0], split, nodes[0])) for heads in (pair, pair[::-1])]
    found = [total.moments(bases, spans[0]) for total in (sums if split.bulk is not None else [sums[0], sums[1], sums[0]])]
    return found[0], found[1], found[2]


@dataclass(frozen=True)
class _Bulk:
    """Cumulants of the bulk in two heads; `second` is hh, hg, gg and `third` hhh, hhg, hgg, ggg.

    `more` are the ratios of fourth to third cumulants of each head, or zero.
    """

    first: tuple[float, float]
    second: tuple[float, float, float]
    third: tuple[float, float, float, float]
    more: tuple[float, float]

    @classmethod
    def of(cls, split: Split, pair: tuple[int, int], order: int) -> "_Bulk | None":
        bulk, (h, g) = split.bulk, pair
        if bulk is None:
            return None
        second, third = bulk.second[:, :, -1], bulk.third[:, :, -1]
        first = (bulk.plain + bulk.extra)[:, -1]
        return cls(
            (float(first[h]), float(first[g])),
            (float(second[h, h]), float(second[h, g]), float(second[g, g])),
            (float(third[h, h]), float(third[h, g]), float(third[g, h]), float(third[g, g])),
            (bulk.more(h) * (order > 3), bulk.more(g) * (order > 3)),
        )

    def log_mass(self, t: np.ndarray, w: np.ndarray) -> np.ndarray:
        (a, b), (aa, ab, bb), (aaa, aab, abb, bbb) = self.first, self.second, self.third
        found = -t * a - w * b + (t**2 * aa + 2 * t * w * ab + w**2 * bb) / 2
        own = t**3 * aaa * (1 - t * self.more[0] / 4) + w**3 * bbb * (1 - w * self.more[1] / 4)
        found -= (own + 3 * t**2 * w * aab + 3 * t * w**2 * abb) / 6
        return np.where((t * aa > 0.5 * a) | (w * bb > 0.5 * b), -np.inf, np.minimum(found, 0.0))

    def drops(self, t: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (a, b), (aa, ab, bb), (aaa, aab, abb, bbb) = self.first, self.second, self.third
        return (
            t * (a - t * aa - w * ab + t**2 * aaa / 2 + t * w * aab + w**2 * abb / 2),
            w * (b - t * ab - w * bb + t**2 * aab / 2 + t * w * abb + w**2 * bbb / 2),
        )


def _basis(scores: Scores, split: Split, own: int, other: int, narrow: Narrow) -> Float[np.ndarray, "r v"]:
    base = base_vectors(scores, own, split, narrow)
    if split.bulk is None:
        return base
    second, third = split.bulk.second, split.bulk.third
    parts = np.stack([second[own, own], second[own, other], third[own, own], third[own, other], third[other, own]])
    return np.concatenate([base, parts[:, :-1] - parts[:, -1:] * scores.offsets[own]])


class _Sums:
    """Sums over the nodes of a pair."""

    def __init__(self) -> None:
        self.core: np.ndarray | float = 0.0
        self.keys: np.ndarray | float = 0.0
        self.bulk = np.zeros(3)
        self.mass, self.nodes = 0.0, 0

    def add(
        self,
        joints: list[Joint],
        seen: list[np.ndarray],
        t: tuple[np.ndarray, ...],
        bulk: _Bulk | None,
        cell: float,
        stride: int,
    ) -> None:
        """Add the nodes of some rows of u."""
        part = slice(None, None, stride), slice(None, None, stride)
        u, w = t[0][::stride], t[1][:, ::stride]
        mass = np.full((len(u), w.shape[1]), cell)
        for key in joints:
            mass *= key.mass[part]
        if bulk is not None:
            mass *= np.exp(bulk.log_mass(u, w))
        live = mass > 0
        mass = mass[live]
        u, w = (np.broadcast_to(axis, live.shape)[live] for axis in (u, w))
        sides = []
        for side, name in enumerate(("left", "right")):
            own, other = (u, w) if side == 0 else (w, u)
            rows = [*(getattr(key, name)[part][live] for key in joints), own]
            if bulk is not None:
                cubes = own**3 / 2 * (1 - own * bulk.more[side] / 3)
                rows += [-(own**2), -own * other, cubes, own**2 * other, own * other**2 / 2]
            sides.append(np.array(rows))
        drops = [whole[part][live] for whole in seen]
        if bulk is not None:
            drops = [a + b for a, b in zip(drops, bulk.drops(u, w), strict=True)]
            third = mass * u * w
            self.bulk += [third.sum(), -(third @ u), -(third @ w)]
        kappa = np.array([mass @ key.covariance[part][live] for key in joints])
        self.core = self.core + (sides[0] * mass) @ sides[1].T
        self.keys = self.keys + kappa
        self.mass += float((mass * drops[0]) @ drops[1]) + float(kappa.sum())
        if bulk is not None:
            shares = mass @ (u * w), mass @ (u**2 * w), mass @ (u * w**2)
            self.mass += float(shares[0] * bulk.second[1] - shares[1] * bulk.third[1] - shares[2] * bulk.third[2])
        self.nodes += len(mass)

    def moments(self, bases: list[np.ndarray], span: tuple[float, float]) -> Moments:
        """Return the sums as moments."""
        left, right = bases
        core, keys = np.asarray(self.core), np.asarray(self.keys)
        a, b, c = self.bulk.tolist()
        return Moments(left, right, np.zeros(len(left)), core, keys, (a, b, c), self.mass, self.nodes, span)
