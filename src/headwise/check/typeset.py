"""What was read of an answer as MathML, to see whether it was understood. Nothing of the text itself is passed on."""

import math
from collections.abc import Iterable
from html import escape

from headwise.check.conditions import Condition
from headwise.check.given import as_read
from headwise.check.grammar import Item, Written
from headwise.check.sheet import Problem
from headwise.check.tokens import LETTERS
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
    Relation,
    Symbol,
    Total,
    Transposed,
    children,
    symbols,
)
from headwise.check.unreadable import Unreadable

_SIGNS = {"·": "⋅", "⊙": "⊙", "⊗": "⊗"}
_FUNCTIONS = {"Phi": "Φ", "trace": "tr"}
_SIZES = {"large": "large", "small": "small", "negative": "large and negative"}
# What stands between factors that are only written side by side, and behind the name of a function.
_TIMES, _OF = "\u2062", "\u2061"


def typeset(problem: Problem, text: str) -> str | None:
    """Return an answer as it was read for marking, as MathML; None if it cannot be read or is a word.

    >>> from headwise.check.sheet import load
    >>> typeset(load("attention").problems["c.ii"], "1/2").removeprefix('<math xmlns="http://www.w3.org/1998/Math/MathML" ')
    'display="block"><mfrac><mn>1</mn><mn>2</mn></mfrac></math>'
    >>> typeset(load("attention").problems["b.i"], "A A^") is None
    True
    """
    if problem.kind == "word":
        return None
    try:
        return mathml(as_read(problem, text))
    except (Unreadable, RecursionError):
        return None


def mathml(written: Written) -> str:
    """Return everything that was read as one line of mathematics.

    >>> from headwise.check.grammar import read
    >>> mathml(read("2 beta", frozenset({"beta"}))).removeprefix('<math xmlns="http://www.w3.org/1998/Math/MathML" ')
    'display="block"><mrow><mn>2</mn><mo>\u2062</mo><mi>β</mi></mrow></math>'
    """
    # A has rows a_i^T turns A, which no line of mathematics says.
    parts = [_item(item) for item in written.items if item.name not in {one.said for one in _symbols(item.body)}]
    used = {symbol.said for item in written.items for symbol in _symbols(item.body)}
    said = {one.scale: one for one in written.conditions if one.scale in used and one.size in _SIZES}
    parts += [_condition(one) for one in said.values()]
    body = '<mo separator="true">,</mo><mspace width="0.6em"></mspace>'.join(parts)
    inside = body if len(parts) == 1 else f"<mrow>{body}</mrow>"
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{inside}</math>'


def _symbols(body: Node | Relation) -> list[Symbol]:
    """Return every symbol of an expression."""
    sides = (body.left, body.right) if isinstance(body, Relation) else (body,)
    return [symbol for side in sides for symbol in symbols(side)]


def _item(item: Item) -> str:
    body = item.body
    shown = _row(_any(body.left), _mo(body.sign), _any(body.right)) if isinstance(body, Relation) else _any(body)
    if item.name is None:
        return shown
    name, _, index = item.name.partition("_")
    return _row(_named(name, index or None), _mo("="), shown)


def _condition(one: Condition) -> str:
    return _row(_named(*one.scale.partition("_")[::2]), f"<mtext>&#xA0;{_SIZES[one.size]}</mtext>")


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _mo(sign: str) -> str:
    return f"<mo>{escape(sign)}</mo>"


def _fenced(body: str) -> str:
    return _row(_mo("("), body, _mo(")"))


def _letters(name: str) -> str:
    """Return a name or an index; Greek names are letters."""
    tag = "mn" if name.isdecimal() else "mi"
    return f"<{tag}>{escape(LETTERS.get(name, name))}</{tag}>"


def _named(name: str, index: str | None) -> str:
    return _letters(name) if not index else f"<msub>{_letters(name)}{_letters(index)}</msub>"


def _any(node: Node) -> str:
    """Return an expression where anything may stand."""
    match node:
        case Number():
            return _number(node.value)
        case Symbol():
            return _named(node.name, node.index)
        case Addition():
            return _sum(node)
        case Negative():
            return _row(_mo("−"), _addend(node.body))
        case Product():
            return _product(node)
        case Quotient():
            if _percent(node):
                return _row(_base(node.left), _mo("%"))
            return f"<mfrac>{_any(node.left)}{_any(node.right)}</mfrac>"
        case Power():
            return _power(node)
        case Transposed():
            return _raised(node.body, "<mi>⊤</mi>")
        case Norm():
            # Bars within bars would not say where they close.
            body = _fenced(_any(node.body)) if _has_norm(node.body) else _any(node.body)
            return _row(_mo("‖"), body, _mo("‖"))
        case Total():
            return _row(_sigma(node), _addend(node.body))
        case Call():
            name = f"<mi>{escape(_FUNCTIONS.get(node.function, node.function))}</mi>"
            return _row(name, _mo(_OF), _fenced(_any(node.body)))


def _number(value: float) -> str:
    if value == math.e:
        return "<mi>e</mi>"
    return f"<mn>{repr(value).removesuffix('.0').replace('e-0', 'e-')}</mn>"


def _percent(node: Quotient) -> bool:
    """Say whether the 100 was never written, but a % sign."""
    return isinstance(node.right, Number) and node.right.start == node.right.end and node.right.value == 100


def _has_norm(node: Node) -> bool:
    return isinstance(node, Norm) or any(_has_norm(part) for part in children(node))


def _sum(node: Addition) -> str:
    parts: list[str] = []
    first: Node = node
    while isinstance(first, Addition):  # long sums are deep on the left
        parts += [_addend(first.right), _mo("+" if first.sign > 0 else "−")]
        first = first.left
    return _row(_any(first), *reversed(parts))


def _addend(node: Node) -> str:
    """Return what stands behind a plus, a minus or the sign of a sum."""
    return _fenced(_any(node)) if isinstance(node, (Addition, Negative)) else _any(node)


def _product(node: Product) -> str:
    parts = [_factor(node.right, last=True), _times(node)]
    first = node.left
    while isinstance(first, Product):
        parts += [_factor(first.right), _times(first)]
        first = first.left
    return _row(_factor(first), *reversed(parts))


def _times(node: Product) -> str:
    """Return the sign between two factors; what stands side by side may need one to be told apart."""
    if node.how in _SIGNS:
        return _mo(_SIGNS[node.how])
    left = node.left.right if isinstance(node.left, Product) else node.left
    right = node.right
    while isinstance(right, (Power, Transposed)):
        right = children(right)[0]
    function = isinstance(left, Symbol) and left.index is None and left.name in ("Phi", "P")
    unclear = function or (isinstance(right, (Number, Quotient)) and not _letter(right))
    return _mo("×" if unclear else _TIMES)


def _letter(node: Node) -> bool:
    """Say whether a factor can stand behind another as letters do: no digits, no fraction of two numbers."""
    if isinstance(node, Number):
        return node.value == math.e
    return not all(isinstance(part, Number) for part in children(node))


def _factor(node: Node, *, last: bool = False) -> str:
    """Return a factor; a sum over an index takes all that follows, so it stands free only at the end."""
    fence = isinstance(node, (Addition, Negative, Product)) or (isinstance(node, Total) and not last)
    return _fenced(_any(node)) if fence else _any(node)


def _base(node: Node) -> str:
    """Return what a power, a transpose or a percent sign stands behind."""
    return _any(node) if isinstance(node, (Number, Symbol, Norm, Call)) else _fenced(_any(node))


def _power(node: Power) -> str:
    if isinstance(node.exponent, Number) and node.exponent.value == 0.5:
        return f"<msqrt>{_any(node.base)}</msqrt>"
    exponent = _any(node.exponent)
    # A lone T up there would be a transpose.
    return _raised(node.base, _fenced(exponent) if exponent == "<mi>T</mi>" else exponent)


def _raised(base: Node, above: str) -> str:
    if isinstance(base, Symbol) and base.index is not None:
        return f"<msubsup>{_letters(base.name)}{_letters(base.index)}{above}</msubsup>"
    return f"<msup>{_base(base)}{above}</msup>"


def _sigma(node: Total) -> str:
    """Return the sign of a sum or a maximum with what it runs over."""
    sign = _mo("∑" if node.how == "sum" else "max")
    index, over, upper = _letters(node.index), node.over, None  # type: str, str | None, str | None
    if node.without:
        under, upper = _row(index, _mo("≠"), _listed(node.without)), over
    elif over is None:
        under = index
    elif over.startswith("{"):
        under = _row(index, _mo("∈"), _mo("{"), _listed(over.strip("{}").split(",")), _mo("}"))
    elif over.islower() and len(over) == 1:  # a number of elements: n, m
        under, upper = _row(index, _mo("="), "<mn>1</mn>"), over
    else:
        under = _row(index, _mo("∈"), _letters(over))
    if upper is None:
        return f"<munder>{sign}{under}</munder>"
    return f"<munderover>{sign}{under}{_letters(upper)}</munderover>"


def _listed(names: Iterable[str]) -> str:
    return '<mo separator="true">,</mo>'.join(_letters(name) for name in names)
