"""An answer as Python: the lines that show a counterexample work out the answer from its own formula."""

from collections.abc import Mapping
from keyword import iskeyword

from headwise.check.evaluate import Values, rows
from headwise.check.scope import SCALAR, Scope, Shape, shape
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
    symbols,
)


def as_python(node: Node, scope: Scope, values: Values, bound: Mapping[str, str] | None = None) -> str:
    """Return an expression in which vectors are columns and numbers may be 1 by 1.

    >>> from headwise.check.grammar import read
    >>> from headwise.check.worlds import Keys
    >>> world = Keys()
    >>> as_python(read("2 k_a", frozenset("k")).items[0].body, world.scope, world.draw(0).values)
    '2.0 * k[0]'
    """
    inside = bound or {}

    def said(part: Node, *, loose: bool = False) -> str:
        code = as_python(part, scope, values, inside)
        return code if loose or isinstance(part, (Number, Symbol, Norm, Call)) else f"({code})"

    match node:
        case Number():
            return repr(node.value)
        case Symbol():
            return _symbol(node, scope, values, inside)
        case Addition():
            return f"{said(node.left, loose=True)} {'+' if node.sign > 0 else '-'} {said(node.right)}"
        case Negative():
            return f"-{said(node.body)}"
        case Quotient():
            return f"{said(node.left)} / {said(node.right)}"
        case Transposed():
            left, right = shape(node.body, scope, inside)
            return said(node.body, loose=True) if left == right == "1" else f"{said(node.body)}.T"
        case Norm():
            return f"np.linalg.norm({said(node.body, loose=True)})"
        case Power():
            if shape(node.base, scope, inside) == SCALAR:
                return f"{said(node.base)} ** {said(node.exponent)}"
            return f"np.linalg.matrix_power({said(node.base, loose=True)}, int({said(node.exponent, loose=True)}))"
        case Call():
            return _called(node.function, said(node.body, loose=True))
        case Product():
            sides = shape(node.left, scope, inside), shape(node.right, scope, inside)
            return _product(said(node.left), said(node.right), node.how, *sides)
        case Total():
            every = rows(node, values)
            body = as_python(node.body, scope, values, {**inside, node.index: _family(node, scope)})
            over = (
                f"range({every[0]}, {every[-1] + 1})" if every and every == list(range(every[0], every[-1] + 1)) else f"{every}"
            )
            return f"{node.how}({body} for {node.index} in {over})"


def variable(name: str) -> str:
    """Return a name as Python can have it: lambda is a word of its own there."""
    return f"{name}_" if iskeyword(name) else name


def _family(node: Total, scope: Scope) -> str:
    """Return the set that the index of a sum runs over."""
    if node.over is not None and not node.over.startswith("{"):
        return scope.sets[node.over]
    used = (kind.over for name, kind in scope.names.items() if kind.over and _has(node.body, name, node.index))
    return next(used, "")


def _has(node: Node, name: str, index: str) -> bool:
    return any(one.name == name and one.index == index for one in symbols(node))


def _symbol(node: Symbol, scope: Scope, values: Values, bound: Mapping[str, str]) -> str:
    if node.name not in scope.names:
        return variable(node.said)
    if node.name == "I":
        return f"np.eye({node.index if node.index in ('m', 'p') else 'd'})"
    family = scope.names[node.name].over
    if family is None:
        return node.name
    index = node.index or ""
    return f"{node.name}[{index if index in bound else values.elements[family][index]}]"


def _called(function: str, body: str) -> str:
    return f"np.{function}({body})" if function != "Phi" else f"math.erfc(-np.squeeze({body}) / 2**0.5) / 2"


def _product(left: str, right: str, how: str, one: Shape, other: Shape) -> str:
    if SCALAR in (one, other) or how == "⊙":
        return f"{left} * {right}"
    if how == "⊗" and one[1] == other[1] == "1":
        return f"{left} @ {right}.T"
    if how == "·" and one == other and one[1] == "1":
        return f"{left}.T @ {right}"
    return f"{left} @ {right}"
