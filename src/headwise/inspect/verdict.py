"""What a head does, in words, with the numbers that say so. Every limit is an argument."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from headwise.errors import OptionError
from headwise.shown import number

# A head is not local for staying where most keys are.
_MOST = 0.5


@dataclass(frozen=True)
class Thresholds:
    """From where on a head is called what it is called; asked in this order, and the first that holds is taken.

    Attributes
    ----------
    first, previous, own
        Mean weight on the first token, the previous one, the query's own position.
    copy
        Mean weight of the top key.
    local
        Mean weight on keys at most `near` positions away, asked only where most keys are farther away.
    diffuse
        Effective keys over the keys that can be seen.
    even
        A head averages k keys if its collision number is at least this share of its k effective keys: of a few keys with
        like weights the two numbers agree, of a heavy key and a long tail they do not.
    """

    first: float = 0.5
    previous: float = 0.5
    own: float = 0.5
    copy: float = 0.7
    diffuse: float = 0.5
    local: float = 0.8
    near: int = 8
    even: float = 0.6

    def __post_init__(self) -> None:
        """Refuse limits that are no numbers."""
        for name, limit in vars(self).items():
            if not isinstance(limit, (int, float, np.number)) or isinstance(limit, bool) or not limit >= 0:
                raise OptionError("Thresholds", f"{name} must be a number from 0 on, but got {limit!r}")

    def to_dict(self) -> dict[str, float]:
        """Return the limits as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class HeadVerdict:
    """What a head does on this text, and the numbers that say so."""

    kind: str  # "first", "previous", "self", "copy", "diffuse", "local", "average" or "mixed"
    words: str
    evidence: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data."""
        return {"kind": self.kind, "words": self.words, "evidence": dict(self.evidence)}

    def __str__(self) -> str:
        """Return the words and the evidence."""
        said = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in self.evidence.items())
        return f"{self.words} ({said})"


def verdict(numbers: Mapping[str, float], limits: Thresholds) -> HeadVerdict:
    """Say what a head with these mean numbers does.

    >>> found = verdict({"first_weight": 0.9, "top_weight": 0.9}, Thresholds())
    >>> str(found)
    'sits on the first token (first weight 0.9)'
    """
    simple = (
        ("first", "first_weight", limits.first, "sits on the first token"),
        ("previous", "previous_weight", limits.previous, "looks at the previous token"),
        ("self", "self_weight", limits.own, "looks at its own position"),
        ("copy", "top_weight", limits.copy, "copies one token"),
        ("diffuse", "evenness", limits.diffuse, "spreads over everything it sees"),
        ("local", "near_weight", limits.local, f"stays within {limits.near} tokens"),
    )
    for kind, name, limit, words in simple:
        if kind == "local" and numbers.get("near_share", 0.0) > _MOST:
            continue
        if numbers.get(name, 0.0) >= limit:
            return HeadVerdict(kind, words, {name: float(numbers[name])})
    keys, collisions = float(numbers["effective_keys"]), float(numbers["collision_keys"])
    evidence = {"effective_keys": keys, "collision_keys": collisions}
    if collisions >= limits.even * keys:
        return HeadVerdict("average", f"averages about {keys:.0f} tokens", evidence)
    return HeadVerdict("mixed", "mixed", evidence | {"top_weight": float(numbers["top_weight"])})
