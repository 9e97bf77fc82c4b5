"""How the keys of a head lie: mean direction, spread of lengths, variance along the mean and across it.

Taken before rotary positions, which turn keys by their place and so wash the mean out. A model with QK-norm is looked at
before and after it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Array

# What projections to keys and their norms are called in the models of transformers.
_PROJECTIONS = ("k_proj", "key", "k_lin", "wk", "key_proj")
_NORMS = ("k_norm", "k_layernorm", "key_layernorm")


@dataclass(frozen=True)
class KeyGeometry:
    """The keys of one key head over all tokens seen.

    alpha is the variance of a coordinate across the mean direction; the variance along it is alpha + tau |mean|^2: the
    model of `RandomKeys(means, isotropic=alpha, along_mean={row: tau})`.
    """

    place: str  # "projected", "normed" or "attended"
    count: int
    mean: np.ndarray
    length: float  # mean length of a key
    length_variation: float  # standard deviation of lengths over their mean
    along: float
    across: float  # per coordinate

    @property
    def alpha(self) -> float:
        """Variance of a coordinate across the mean direction."""
        return self.across

    @property
    def tau(self) -> float:
        """Variance of the length along the mean direction beyond alpha, relative to the squared length of the mean."""
        size = float(self.mean @ self.mean)
        return (self.along - self.across) / size if size > 0 else 0.0

    @property
    def mean_share(self) -> float:
        """Squared length of the mean key over the mean squared length: 1 if all keys are alike, 0 if they cancel."""
        total = float(self.mean @ self.mean) + self.along + self.across * (len(self.mean) - 1)
        return float(self.mean @ self.mean) / total if total > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        names = ("place", "count", "length", "length_variation", "along", "across", "alpha", "tau", "mean_share")
        return {name: getattr(self, name) for name in names} | {"mean": self.mean.tolist()}


class Moments:
    """Sums over keys that the geometry follows from, for all key heads of a layer at one place."""

    def __init__(self, groups: int, width: int) -> None:
        """Start with no key."""
        self.count = 0
        self.sums = np.zeros((groups, width))
        self.squares = np.zeros((groups, width, width))
        self.lengths = np.zeros((groups, 2))

    def add(self, keys: Array) -> None:
        """Take in keys (g, n, d)."""
        keys = keys.double()
        lengths = keys.norm(dim=-1)
        self.count += keys.shape[1]
        self.sums += keys.sum(1).cpu().numpy()
        self.squares += (keys.transpose(1, 2) @ keys).cpu().numpy()
        self.lengths += np.stack([lengths.sum(1).cpu().numpy(), lengths.square().sum(1).cpu().numpy()], axis=-1)

    def finished(self, place: str) -> list[KeyGeometry]:
        """Return the geometry of each key head."""
        found = []
        for total, square, (length, length_square) in zip(self.sums, self.squares, self.lengths, strict=True):
            mean = total / self.count
            covariance = square / self.count - np.outer(mean, mean)
            size = float(np.linalg.norm(mean))
            unit = mean / size if size > 0 else np.eye(len(mean))[0]
            along = max(0.0, float(unit @ covariance @ unit))
            across = max(0.0, float(np.trace(covariance)) - along) / max(1, len(mean) - 1)
            middle = length / self.count
            spread = max(0.0, length_square / self.count - middle**2) ** 0.5
            variation = spread / middle if middle > 0 else 0.0
            found.append(KeyGeometry(place, self.count, mean, float(middle), float(variation), along, across))
        return found


def hooked(module: Any, note: Callable[[str, Array], None]) -> list[Any]:  # noqa: ANN401  a torch module
    """Let `note` hear the outputs of a module's key projection and key norm; return the handles that end it."""
    handles = []
    for place, names in (("projected", _PROJECTIONS), ("normed", _NORMS)):
        child = next(
            (getattr(module, name) for name in names if hasattr(getattr(module, name, None), "register_forward_hook")), None
        )
        if child is not None:
            handles.append(child.register_forward_hook(lambda _m, _i, out, place=place: note(place, out)))
    return handles


def by_head(found: Array, keys: Array) -> Array | None:
    """Bring what a hook heard to the axes (b, g, n, d) of the keys that are multiplied; None if it does not fit.

    Rotary positions keep lengths, which tells the two axes apart where their sizes agree.
    """
    batch, groups, count, width = keys.shape
    if found.shape == (batch, count, groups * width):
        return found.unflatten(-1, (groups, width)).transpose(1, 2)
    fits = []
    if tuple(found.shape) == (batch, groups, count, width):
        fits.append(found)
    if tuple(found.shape) == (batch, count, groups, width):
        fits.append(found.transpose(1, 2))
    if len(fits) < 2:
        return fits[0] if fits else None
    lengths = keys.float().norm(dim=-1)
    return min(fits, key=lambda fit: float((fit.float().norm(dim=-1) - lengths).abs().sum()))
