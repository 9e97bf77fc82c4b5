"""The value of an expression on an instance: NumPy on small arrays, with a bound on time and size."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import erfc

import numpy as np
from jaxtyping import Float

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

_LARGEST_EXPONENT = 64.0

# A column, a row, a matrix; numbers are 1 by 1. Shapes were checked by letter.
Matrix = Float[np.ndarray, "_ _"]


@dataclass(frozen=True)
class Values:
    """What names stand for on one instance; a family has a row per element, and `elements` says which row has which letter."""

    names: Mapping[str, np.ndarray | float]
    over: Mapping[str, str] = field(default_factory=dict)
    elements: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    sets: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    deadline: float = np.inf

    def with_scales(self, scales: Mapping[str, float]) -> "Values":
        """Return the same with numbers for the scales."""
        return Values(self.names, self.over, self.elements, self.sets, scales, self.deadline)


def value(node: Node, values: Values) -> Matrix:
    """Return the value of an expression whose shape was found to fit."""
    with np.errstate(over="raise", invalid="raise", divide="raise", under="ignore"):
        try:
            found = _value(node, values, {})
        except (FloatingPointError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError):
            raise Unreadable(
                "this has no finite value, it divides by zero or grows beyond all numbers", node.start, node.end
            ) from None
    if not np.isfinite(found).all():
        raise Unreadable("this has no finite value", node.start, node.end)
    return found


def _value(node: Node, values: Values, bound: Mapping[str, int]) -> Matrix:
    if time.thread_time() > values.deadline:
        raise Unreadable("this takes too long to work out", node.start, node.end)
    match node:
        case Number():
            return np.array([[node.value]])
        case Symbol():
            return _named(node, values, bound)
        case Addition():
            return _value(node.left, values, bound) + node.sign * _value(node.right, values, bound)
        case Product():
            return _times(_value(node.left, values, bound), _value(node.right, values, bound), node.how)
        case Quotient():
            return _value(node.left, values, bound) / float(_value(node.right, values, bound)[0, 0])
        case Negative():
            return -_value(node.body, values, bound)
        case Transposed():
            return _value(node.body, values, bound).T
        case Norm():
            return np.array([[float(np.linalg.norm(_value(node.body, values, bound)))]])
        case Power():
            return _power(node, values, bound)
        case Call():
            return _called(node.function, float(_value(node.body, values, bound)[0, 0]))
        case Total():
            return _total(node, values, bound)


def _named(node: Symbol, values: Values, bound: Mapping[str, int]) -> Matrix:
    found = values.names.get(node.name)
    if found is None:
        return np.array([[float(values.scales[node.said])]])
    if node.name == "I" and node.index in ("m", "p"):
        return np.eye(int(values.names[node.index]))
    if isinstance(found, float):
        return np.array([[found]])
    if node.name not in values.over:
        return found
    index = node.index or ""
    row = bound[index] if index in bound else values.elements[values.over[node.name]][index]
    return found[row][:, None]


def _times(left: Matrix, right: Matrix, how: str) -> Matrix:
    if left.size == 1 or right.size == 1:
        return left * right
    if how == "⊙":
        return left * right
    if how == "⊗" and left.shape[1] == right.shape[1] == 1:
        return left @ right.T
    if how == "·" and left.shape == right.shape and left.shape[1] == 1:
        return left.T @ right
    return left @ right


def _power(node: Power, values: Values, bound: Mapping[str, int]) -> Matrix:
    base, exponent = _value(node.base, values, bound), float(_value(node.exponent, values, bound)[0, 0])
    if base.size > 1:
        return np.linalg.matrix_power(base, int(exponent))
    if abs(exponent) > _LARGEST_EXPONENT and abs(float(base[0, 0])) != np.e:
        raise Unreadable(f"exponents go up to {_LARGEST_EXPONENT:g}", node.exponent.start, node.exponent.end)
    if float(base[0, 0]) < 0 and exponent != int(exponent):
        raise Unreadable("a negative number has no such power", node.start, node.end)
    return np.array([[float(base[0, 0]) ** exponent]])


def _called(function: str, given: float) -> Matrix:
    if function == "exp":
        return np.array([[float(np.exp(given))]])
    if function == "log":
        return np.array([[float(np.log(given))]])
    return np.array([[erfc(-given / 2**0.5) / 2]])


def _total(node: Total, values: Values, bound: Mapping[str, int]) -> Matrix:
    found = [_value(node.body, values, {**bound, node.index: row}) for row in rows(node, values)]
    if not found:
        return np.zeros_like(_value(node.body, values, {**bound, node.index: 0}))
    return np.sum(found, axis=0) if node.how == "sum" else np.max(found, axis=0)


def rows(node: Total, values: Values) -> list[int]:
    """Return the rows that a sum runs over."""
    if node.over is not None and not node.over.startswith("{"):
        family, every = values.sets[node.over]
    else:
        family = _family(node.body, node.index, values)
        every = values.sets[family][1]
    named = values.elements.get(family, {})
    if node.over is not None and node.over.startswith("{"):
        every = [named[one] for one in node.over.strip("{}").split(",")]
    without = {named[one] for one in node.without}
    return [row for row in every if row not in without]


def _family(node: Node, index: str, values: Values) -> str:
    if isinstance(node, Symbol):
        return values.over.get(node.name, "") if node.index == index else ""
    return next((found for part in children(node) if (found := _family(part, index, values))), "")
