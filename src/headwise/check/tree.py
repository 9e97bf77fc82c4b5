"""Expressions as trees: what was written, each part with its place. Shapes and numbers are worked out elsewhere."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Place:
    """Where something stands in the text."""

    start: int
    end: int


@dataclass(frozen=True)
class Number(Place):
    """A number."""

    value: float


@dataclass(frozen=True)
class Symbol(Place):
    """A name, with its index if it has one: k_a, u_b, beta."""

    name: str
    index: str | None = None

    @property
    def said(self) -> str:
        """As it would be written."""
        return self.name if self.index is None else f"{self.name}_{self.index}"


@dataclass(frozen=True)
class Addition(Place):
    """Left plus right, or minus."""

    left: "Node"
    right: "Node"
    sign: int


@dataclass(frozen=True)
class Product(Place):
    """Left times right; `how` is " " (written side by side), "*", "·", "⊙" or "⊗"."""

    left: "Node"
    right: "Node"
    how: str


@dataclass(frozen=True)
class Quotient(Place):
    """Left over right."""

    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Negative(Place):
    """Minus something."""

    body: "Node"


@dataclass(frozen=True)
class Power(Place):
    """A power; the exponent is an expression."""

    base: "Node"
    exponent: "Node"


@dataclass(frozen=True)
class Transposed(Place):
    """A transpose."""

    body: "Node"


@dataclass(frozen=True)
class Norm(Place):
    """The length of a vector, the size of a number."""

    body: "Node"


@dataclass(frozen=True)
class Total(Place):
    """A sum over a set, but for some elements: sum_{i in S} k_i, sum_{i != a, b} k_i."""

    index: str
    over: str | None
    without: tuple[str, ...]
    body: "Node"


@dataclass(frozen=True)
class Call(Place):
    """exp, log, sqrt, Phi of something."""

    function: str
    body: "Node"


Node: TypeAlias = Number | Symbol | Addition | Product | Quotient | Negative | Power | Transposed | Norm | Total | Call


@dataclass(frozen=True)
class Condition(Place):
    """What is said of a scale: `large` or `small`; None if only something was said."""

    scale: str | None
    size: str | None


@dataclass(frozen=True)
class Relation(Place):
    """Left stands to right as `sign` says: ">", "<", "≫", "≪", "=", "≈"."""

    left: Node
    right: Node
    sign: str


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of an expression.

    >>> children(Negative(0, 2, Number(1, 2, 1.0)))
    (Number(start=1, end=2, value=1.0),)
    """
    match node:
        case Addition() | Product() | Quotient():
            return node.left, node.right
        case Power():
            return node.base, node.exponent
        case Negative() | Transposed() | Norm() | Total() | Call():
            return (node.body,)
    return ()
