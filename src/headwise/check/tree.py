"""Expressions as trees: what was written, each part with its place. Shapes and numbers are worked out elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
    """A sum or a maximum over a set, but for some elements: sum_{i in S} k_i, sum_{i != a, b} k_i."""

    index: str
    over: str | None
    without: tuple[str, ...]
    body: "Node"
    how: str = "sum"


@dataclass(frozen=True)
class Call(Place):
    """exp, log, sqrt, Phi of something."""

    function: str
    body: "Node"


Node: TypeAlias = Number | Symbol | Addition | Product | Quotient | Negative | Power | Transposed | Norm | Total | Call


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


def symbols(node: Node) -> Iterator[Symbol]:
    """Yield every name in an expression, from the left.

    >>> [one.said for one in symbols(Negative(0, 4, Symbol(1, 4, "k", "a")))]
    ['k_a']
    """
    left = [node]
    while left:
        one = left.pop()
        if isinstance(one, Symbol):
            yield one
        left += reversed(children(one))


def size(node: Node) -> int:
    """Return how many parts an expression has.

    >>> size(Negative(0, 2, Number(1, 2, 1.0)))
    2
    """
    found, left = 0, [node]
    while left:
        found += 1
        left += children(left.pop())
    return found


def rewritten(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return an expression with every part changed, the inner ones first.

    >>> rewritten(Negative(0, 2, Number(1, 2, 1.0)), lambda part: Number(1, 2, 5.0) if isinstance(part, Number) else part)
    Negative(start=0, end=2, body=Number(start=1, end=2, value=5.0))
    """
    inner = children(node)
    parts = {name: rewritten(part, change) for name, part in vars(node).items() if any(part is one for one in inner)}
    return change(replace(node, **parts) if parts else node)  # type: ignore[arg-type]


def put(node: Node, names: Mapping[str, Node]) -> Node:
    """Put expressions for names."""
    return rewritten(node, lambda part: names.get(part.said, part) if isinstance(part, Symbol) else part)


def same(one: Node, other: Node) -> bool:
    """Say whether two expressions are written the same, wherever they stand.

    >>> same(Number(0, 1, 2.0), Number(4, 5, 2.0))
    True
    """
    inner, others = children(one), children(other)
    if type(one) is not type(other) or len(inner) != len(others):
        return False
    own, theirs = ({name: part for name, part in vars(node).items() if not _inside(name, part)} for node in (one, other))
    return own == theirs and all(same(*pair) for pair in zip(inner, others, strict=True))


def _inside(name: str, part: object) -> bool:
    return name in ("start", "end") or isinstance(part, Place)


def deepest(node: Node) -> tuple[int, Node]:
    """Return how deep an expression nests, and the part at the bottom."""
    found, left = (0, node), [(1, node)]
    while left:
        depth, one = left.pop()
        found = max(found, (depth, one), key=lambda pair: pair[0])
        left += [(depth + 1, part) for part in children(one)]
    return found
