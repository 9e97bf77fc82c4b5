"""The setting that all parts share: orthonormal means and values, the pair a and b, and noise in the keys."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.core.orthonormal import orthonormal
from headwise.core.random_keys import RandomKeys
from headwise.errors import OptionError

_MOST_KEYS = 500
_SCALES = (0.5, 100.0)
_LENGTHS = (0.01, 4.0)
# A squared error that is called small: a tenth of a value's length, squared.
SMALL = 0.01


@dataclass(frozen=True)
class Setting:
    """Sizes, scale, noise and seed; a and b are the first two keys."""

    keys: int = 10
    width: int = 16
    scale: float = 10.0
    length_variance: float = 0.5
    seed: int = 0

    @cached_property
    def means(self) -> Float[np.ndarray, "k d"]:
        """Orthonormal means of the keys; without noise the keys themselves."""
        return orthonormal(self.keys, self.width, seed=self.seed)

    @cached_property
    def values(self) -> Float[np.ndarray, "k d"]:
        """Orthonormal values."""
        return orthonormal(self.keys, self.width, seed=self.seed + 1)

    @property
    def pair(self) -> Float[np.ndarray, " d"]:
        """The sum of the keys a and b: the query of one head, before its scale."""
        return self.means[0] + self.means[1]

    @property
    def target(self) -> Float[np.ndarray, " d"]:
        """The average of the values a and b."""
        return (self.values[0] + self.values[1]) / 2

    @property
    def tiny(self) -> float:
        """The variance of tiny noise: a millionth once the scale has stretched it."""
        return 1e-6 / self.scale**2

    def noisy(self, isotropic: float, *, length: bool = True) -> RandomKeys:
        """Return random keys; with `length` the length of key a varies as well."""
        return RandomKeys(self.means, isotropic=isotropic, along_mean={0: self.length_variance} if length else None)

    def rounding(self) -> float:
        """Return what rounding may do to a sum over keys."""
        return 16 * self.keys * 2.0**-52

    def rounded_away(self, squared: float) -> float:
        """Return what rounding may do to a squared distance between an output and its target, vectors of some length 1."""
        return (2 * math.sqrt(abs(squared)) + self.rounding()) * self.rounding()

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers that make it."""
        return {name: getattr(self, name) for name in ("keys", "width", "scale", "length_variance", "seed")}

    def code(self) -> str:
        """Return the Python lines that make keys and values again."""
        return (
            "import numpy as np\nimport headwise as hw\n"
            f"keys = hw.orthonormal({self.keys}, {self.width}, seed={self.seed})\n"
            f"values = hw.orthonormal({self.keys}, {self.width}, seed={self.seed + 1})\n"
        )

    def changed(self) -> dict[str, Any]:
        """Return what differs from the usual setting."""
        usual = Setting()
        return {name: value for name, value in self.to_dict().items() if value != getattr(usual, name)}

    def words(self) -> str:
        """Return the same as options of the command line."""
        return "".join(f" --{name.replace('_', '-')} {value!r}" for name, value in self.changed().items())


def percent(share: float) -> str:
    """Write a share for a sentence.

    >>> percent(0.7558), percent(1e-9)
    ('75.6%', 'under 0.1%')
    """
    return f"{100 * share:.3g}%" if share >= 1e-3 else "under 0.1%"


def too_short(setting: Setting, leak: float, squared: float) -> str:
    """Say that queries of this scale do not reach what the claim is about."""
    return (
        f"A scale of {setting.scale:g} is too short for this: {percent(leak)} of the weight goes elsewhere, and the mean "
        f"squared error is {squared:.2g}, noise or no noise."
    )


def checked(keys: object, width: object, scale: object, length_variance: object, seed: object) -> Setting:
    """Make a setting, but not of sizes and numbers that the exercise cannot have."""
    count, wide, start = (_whole(name, given) for name, given in (("keys", keys), ("width", width), ("seed", seed)))
    if count < 3:
        raise OptionError("run", f"keys must be at least 3, for a and b need a third key to leak to, but got {count}")
    if count > _MOST_KEYS:
        raise OptionError("run", f"keys must be at most {_MOST_KEYS}, for the study to stay short, but got {count}")
    least = max(count, 4)
    if wide < least:
        raise OptionError(
            "run",
            f"width must be at least {least}, for {least} vectors stand at right angles, but got {wide}",
            "Raise width or lower keys.",
        )
    if start < 0:
        raise OptionError("run", f"seed must be a whole number of at least 0, but got {start}")
    length = _between("length_variance", length_variance, *_LENGTHS)
    return Setting(count, wide, _between("scale", scale, *_SCALES), length, start)


def _whole(name: str, given: object) -> int:
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool):
        raise OptionError("run", f"{name} must be a whole number, but got {given!r}")
    return int(given)


def _between(name: str, given: object, low: float, high: float) -> float:
    if isinstance(given, (int, float, np.number)) and not isinstance(given, bool):
        number = float(given)
        if low <= number <= high:
            return number
    raise OptionError("run", f"{name} must be between {low:g} and {high:g}, but got {given!r}")


def leak_of_pair(scale: float, keys: int) -> float:
    """Return the weight outside a pair of orthonormal keys under the query scale (k_a + k_b).

    >>> round((1 - leak_of_pair(1.0, 10)) / 2, 4)
    0.2023
    """
    away = (keys - 2) * math.exp(-scale)
    return away / (2 + away)


def scale_for(leak: float, keys: int) -> float:
    """Return the scale at which a pair of orthonormal keys leaks exactly `leak`.

    >>> round(scale_for(1e-3, 10), 4)
    8.293
    """
    return math.log((keys - 2) * (1 - leak) / (2 * leak))
