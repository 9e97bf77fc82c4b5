"""The names of a problem with their shapes, and the shape of an expression; what does not fit is told with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwise.check.tree import (
    Addition,
    Call,
    Negative,
    Node,
    Norm,
    Number,
    Power,
    Product,
    Quotient,
    Symbol,
    Total,
    Transposed,
    children,
)
from headwise.check.unreadable import Unreadable

# Rows and columns, by letter; a vector is a column.
Shape = tuple[str, str]
SCALAR: Shape = ("1", "1")
_MOST_SUMS = 2


@dataclass(frozen=True)
class Kind:
    """The shape of a name, and the set that its index runs over."""

    shape: Shape
    over: str | None = None


@dataclass(frozen=True)
class Scope:
    """Names, index sets with the elements that have a name, and what an upper limit or a set is called."""

    names: Mapping[str, Kind]
    elements: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)

    def kind(self, symbol: Symbol) -> Kind | None:
        """Return what a symbol is; None for a scalar that the problem does not name."""
        return self.names.get(symbol.name)


def words(shape: Shape) -> str:
    """Say a shape in words.

    >>> words(("d", "1")), words(SCALAR), words(("d", "m"))
    ('a vector', 'a number', 'a d-by-m matrix')
    """
    if shape == SCALAR:
        return "a number"
    if shape[1] == "1":
        return "a vector" if shape[0] == "d" else f"a vector of {shape[0]} numbers"
    return "a row" if shape[0] == "1" else f"a {shape[0]}-by-{shape[1]} matrix"


def shape(node: Node, scope: Scope, bound: Mapping[str, str] | None = None) -> Shape:
    """Return the shape of an expression; `bound` are the indices of sums around it."""
    inside = bound or {}
    match node:
        case Number():
            return SCALAR
        case Symbol():
            return _symbol(node, scope, inside)
        case Total():
            if len(inside) >= _MOST_SUMS:
                raise Unreadable(f"sums nest at most {_MOST_SUMS} deep", node.start, node.end)
            found = shape(node.body, scope, {**inside, node.index: _over(node, scope)})
            if node.how == "max" and found != SCALAR:
                raise Unreadable(f"only numbers have a maximum, but this is {words(found)}", node.body.start, node.body.end)
            return found
        case Transposed():
            if isinstance(node.body, Symbol) and node.body.name.isupper() and scope.kind(node.body) is None:
                raise Unreadable(
                    f"{node.body.said} is no name of this problem, and a new letter is a number", node.start, node.end
                )
            rows, columns = shape(node.body, scope, inside)
            return columns, rows
        case Negative():
            return shape(node.body, scope, inside)
        case Norm():
            shape(node.body, scope, inside)
            return SCALAR
        case Call():
            return _called(node, shape(node.body, scope, inside))
    left, right = (shape(part, scope, inside) for part in children(node))
    match node:
        case Addition():
            if left != right:
                raise Unreadable(f"{words(left)} and {words(right)} cannot be added", node.start, node.end)
            return left
        case Quotient():
            if right != SCALAR:
                raise Unreadable(f"only numbers divide, but this is {words(right)}", node.right.start, node.right.end)
            return left
        case Power():
            return _power(node, left, right)
        case _:
            assert isinstance(node, Product)  # noqa: S101  nothing else has two parts
            return _product(node, left, right)


def free(node: Node, scope: Scope, bound: frozenset[str] = frozenset()) -> list[str]:
    """Return the scalars that the problem does not name, in the order in which they come."""
    if isinstance(node, Symbol):
        return [node.said] if node.name not in scope.names and node.name not in bound else []
    inside = bound | {node.index} if isinstance(node, Total) else bound
    found = [name for part in children(node) for name in free(part, scope, inside)]
    return list(dict.fromkeys(found))


def _symbol(node: Symbol, scope: Scope, bound: Mapping[str, str]) -> Shape:
    kind = scope.kind(node)
    if kind is None:
        if node.name in bound:
            raise Unreadable(f"{node.name} is an index here and no number", node.start, node.end)
        if node.index is not None and not node.index.isdecimal():
            raise Unreadable(f"{node.said} is no name of this problem ({_listed(scope)})", node.start, node.end)
        return SCALAR
    if node.name == "I":
        return (node.index, node.index) if node.index in ("m", "p") else kind.shape
    if kind.over is None:
        if node.index is not None:
            raise Unreadable(f"{node.name} has no index", node.start, node.end)
        return kind.shape
    elements = scope.elements[kind.over]
    if node.index is None:
        raise Unreadable(
            f"{node.name} needs an index, such as {node.name}_{elements[0] if elements else 'i'}", node.start, node.end
        )
    if node.index not in elements and bound.get(node.index) != kind.over:
        known = ", ".join(f"{node.name}_{one}" for one in elements)
        raise Unreadable(f"{node.said} is no name of this problem{f' ({known})' if known else ''}", node.start, node.end)
    return kind.shape


def _listed(scope: Scope) -> str:
    """Name the names of a problem."""
    said = [f"{name}_{one}" for name, kind in scope.names.items() if kind.over for one in scope.elements[kind.over] or ("i",)]
    return ", ".join([*said, *(name for name, kind in scope.names.items() if not kind.over)])


def _over(node: Total, scope: Scope) -> str:
    """Return the index set of a sum: the one named, or that of the names with this index."""
    named = (node.over or "{}").strip("{}").split(",")
    if node.over is not None and not node.over.startswith("{"):
        if node.over not in scope.sets:
            raise Unreadable(f"{node.over} is no set or number of elements of this problem", node.start, node.end)
        used, named = scope.sets[node.over], []
    else:
        used = _used(node.body, node.index, scope)
    if not used:
        raise Unreadable(f"nothing in this sum has the index {node.index}", node.start, node.end)
    for element in (*node.without, *named):
        if element and element not in scope.elements[used]:
            raise Unreadable(f"{element} is no element of this problem", node.start, node.end)
    return used


def _used(node: Node, index: str, scope: Scope) -> str:
    if isinstance(node, Symbol):
        kind = scope.kind(node)
        return kind.over or "" if kind is not None and node.index == index else ""
    return next((found for part in children(node) if (found := _used(part, index, scope))), "")


def _called(node: Call, inner: Shape) -> Shape:
    if node.function not in ("exp", "log", "Phi"):
        raise Unreadable(f"{node.function} is not known here", node.start, node.end)
    if inner != SCALAR:
        raise Unreadable(f"{node.function} takes a number, but this is {words(inner)}", node.body.start, node.body.end)
    return SCALAR


def _power(node: Power, base: Shape, exponent: Shape) -> Shape:
    if exponent != SCALAR:
        raise Unreadable(f"an exponent is a number, but this is {words(exponent)}", node.exponent.start, node.exponent.end)
    if base == SCALAR:
        return base
    if base[0] == base[1] and _whole(node.exponent) is not None:
        return base
    raise Unreadable(f"{words(base)} has no such power", node.start, node.end)


def _whole(node: Node) -> int | None:
    """Return a small whole exponent of a matrix: -1 or 1 to 8."""
    value = -node.body.value if isinstance(node, Negative) and isinstance(node.body, Number) else None
    value = node.value if isinstance(node, Number) else value
    return int(value) if value in (-1, 1, 2, 3, 4, 5, 6, 7, 8) and value is not None else None


def _product(node: Product, left: Shape, right: Shape) -> Shape:
    if SCALAR in (left, right):
        return right if left == SCALAR else left
    if node.how == "⊙":
        if left != right:
            raise Unreadable(f"{words(left)} and {words(right)} have no product entry by entry", node.start, node.end)
        return left
    if node.how == "⊗" and left[1] == right[1] == "1":
        return left[0], right[0]
    if node.how == "·" and left == right and left[1] == "1":
        return SCALAR
    if left[1] == right[0]:
        return left[0], right[1]
    if left[1] == right[1] == "1":
        raise Unreadable("two columns have no product: u v^T is a matrix, u^T v a number", node.start, node.end)
    raise Unreadable(f"{words(left)} and {words(right)} cannot be multiplied", node.start, node.end)
