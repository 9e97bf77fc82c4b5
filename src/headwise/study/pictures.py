"""Pictures as numbers: what is to be seen, without any drawing. `figures` draws them, a page could draw them otherwise."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Bars:
    """One bar per key; a, b and the rest by colour and hatch, a dotted line at `level`."""

    title: str
    heights: Sequence[float]
    level: float | None = None
    labels: Sequence[str] = ()
    marked: Sequence[int] = (0, 1)
    highest: float = 1.0


@dataclass(frozen=True)
class Scores:
    """Scores of keys, up and down from zero, with a, b and the rest as in `Bars`."""

    title: str
    heights: Sequence[float]
    labels: Sequence[str] = ()


@dataclass(frozen=True)
class Line:
    """A named line; `style` is its role: "one" head, "two", "three", "four", "bound", "formula", "computed"."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str


@dataclass(frozen=True)
class Mark:
    """A point on a line that is worth a word."""

    text: str
    x: float
    y: float
    style: str = "formula"


@dataclass(frozen=True)
class Lines:
    """Lines over one axis; `logs` says which axes are logarithmic ("", "x", "y", "xy")."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    logs: str = ""


@dataclass(frozen=True)
class Landmark:
    """A named point in a plane."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Cloud:
    """Outputs in a plane, with mean, covariance and what was wanted; `style` is whose they are.

    The plane is that of two values, from 0 to 1, or another one, with a name for each axis, a window and landmarks in it.
    """

    title: str
    points: Float[np.ndarray, "n 2"]
    mean: Sequence[float]
    covariance: Float[np.ndarray, "2 2"]
    wanted: Sequence[float] | None = (0.5, 0.5)
    style: str = "one"
    axes: tuple[str, str] = ("share of $v_a$", "share of $v_b$")
    window: Sequence[tuple[float, float]] | None = None
    landmarks: Sequence[Landmark] = ()


@dataclass(frozen=True)
class Hull:
    """Keys in the plane, which can be copied, and the proof for one of them: a query, or the keys that it is a mixture of."""

    title: str
    keys: Float[np.ndarray, "k 2"]
    possible: Sequence[bool]
    row: int
    query: Sequence[float] | None = None
    corners: Sequence[int] = ()
    weights: Sequence[float] = ()


@dataclass(frozen=True)
class Heat:
    """A matrix as squares of grey with its numbers written in; `largest` is the darkest, `across` and `up` name the axes."""

    title: str
    matrix: Float[np.ndarray, "r c"]
    rows: Sequence[str]
    columns: Sequence[str]
    largest: float = 1.0
    across: str = ""
    up: str = ""


@dataclass(frozen=True)
class Ranks:
    """Named numbers as horizontal bars on a logarithmic axis, the best on top; `styles` say whose they are."""

    title: str
    names: Sequence[str]
    lengths: Sequence[float]
    across: str
    styles: Sequence[str] = ()


Panel = Bars | Scores | Lines | Cloud | Hull | Heat | Ranks


@dataclass(frozen=True)
class Picture:
    """Panels side by side, a file name, what they show in words, and a line for under them."""

    name: str
    alt: str
    panels: Sequence[Panel]
    caption: str = ""
    widths: Sequence[float] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data."""
        panels = [{"kind": type(panel).__name__.lower(), **asdict(panel)} for panel in self.panels]
        return {"name": self.name, "alt": self.alt, "caption": self.caption, "panels": panels}
