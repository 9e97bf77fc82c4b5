"""How the keys of a head lie: mean direction, spread of lengths, variance along the mean and across it.

Taken before rotary positions, which turn keys by their place and so wash the mean out. A model with QK-norm is looked at
before and after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Array

# What projections to keys and their norms are called in the models of transformers.
_PROJECTIONS = ("k_proj", "key", "k_lin", "wk", "key_proj")
_NORMS = ("k_norm", "k_layernorm", "key_layernorm")
# What makes queries, keys and values in one step.
_FUSED = ("qkv_proj", "query_key_value", "Wqkv", "c_attn", "qkv")


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
    """Let `note` hear what goes through a module's key projection and key norm; return the handles that end it."""
    handles = []
    for place, names in (("projected", _PROJECTIONS), ("fused", _FUSED), ("normed", _NORMS)):
        child = next(
            (getattr(module, name) for name in names if hasattr(getattr(module, name, None), "register_forward_hook")), None
        )
        if child is not None:

            def hear(_module: Any, given: tuple[Any, ...], out: Any, place: str = place) -> None:  # noqa: ANN401
                if place == "normed" and given:
                    note("before the norm", given[0])
                note(place, out)

            handles.append(child.register_forward_hook(hear))
    return handles


def places(torch: Any, heard: Mapping[str, Array], heads: int, keys: Array) -> dict[str, Array]:  # noqa: ANN401  a module
    """Return the keys (b, g, n, d) before rotary positions: "projected", and "normed" if a norm comes right behind.

    `keys` are those that are multiplied. What was heard and cannot be understood is left out.
    """
    fitted = {place: by_head(one, keys) for place, one in heard.items() if place != "fused"}
    projected, before = fitted.get("projected"), fitted.get("before the norm")
    if projected is None and "fused" in heard:
        projected = _split(torch, heard["fused"], heads, keys, keys if before is None else before)
    if projected is None:
        return {}
    normed = fitted.get("normed")
    # A norm behind rotary positions is given keys that have been turned.
    if normed is None or before is None or not torch.equal(before, projected):
        return {"projected": projected}
    return {"projected": projected, "normed": normed}


def _split(torch: Any, found: Array, heads: int, keys: Array, like: Array) -> Array | None:  # noqa: ANN401  a module
    """Return the keys in what one step made of queries, keys and values, None if they are not found.

    They lie behind all queries, or behind those of each key head; lengths, which rotary positions keep, say which.
    """
    _, groups, _, width = keys.shape
    if found.ndim != 3 or found.shape[-1] != (heads + 2 * groups) * width:
        return None
    each = heads // groups
    ways = (
        found[..., heads * width : (heads + groups) * width].unflatten(-1, (groups, width)),
        found.unflatten(-1, (groups, each + 2, width))[..., each, :],
    )
    lengths = like.float().norm(dim=-1)
    for way in ways:
        cut = way.transpose(1, 2)
        off = (cut.float().norm(dim=-1) - lengths).abs().mean() if cut.shape == like.shape else lengths.mean() + 1
        if float(off) <= torch.finfo(found.dtype).eps ** 0.5 * float(lengths.mean()):
            return cut
    return None


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
