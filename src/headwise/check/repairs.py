"""Known mistakes, found by trying repairs: if a changed answer is right, the change names what was wrong."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from headwise.check.evaluate import value
from headwise.check.limits import Outcome, Reading, tried
from headwise.check.properties import Average, Equals, Extract, Layer, Property, expression
from headwise.check.properties import Number as NumberProperty
from headwise.check.scope import shape
from headwise.check.tree import (
    Addition,
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Symbol,
    Transposed,
    children,
    rewritten,
)
from headwise.check.unreadable import Unreadable

# How many parts of an answer are looked at for a mistake in one of them.
_MOST_PARTS = 24
# A number with no more digits is written as it is.
_FEW_DIGITS = 3
Change = Callable[[Node], Node]


@dataclass(frozen=True)
class Mistake:
    """A name and a sentence of help."""

    name: str
    help: str


_SCALE = Mistake(
    "the scale is missing",
    "The direction is right, but the query is too short: with {count} keys a weight of {weight:.2f} each, not {wanted:.2g}. "
    "Put a factor in front that may grow.",
)
_VALUES = Mistake(
    "values where keys belong",
    "Scores are products of keys and the query; values do not enter them. Build the query from keys.",
)
_KEYS = Mistake("keys where values belong", "The output is a mixture of values; keys only decide the weights.")
_SIGN = Mistake("a sign error", "With the other sign it would be right: keys that agree with the query get the weight.")
_KNOWN = {
    Extract: (
        (
            "A^T A",
            Mistake(
                "A^T A for A A^T", "A^T A is the m-by-m identity and knows nothing of the subspace; A A^T projects onto it."
            ),
        ),
        (
            "sum_i a_i^T a_i",
            Mistake(
                "a transposed outer product",
                "a_i^T a_i is a number, 1; a_i a_i^T is the matrix that keeps what lies along a_i.",
            ),
        ),
        ("A^T", Mistake("A^T for A A^T", "A^T s gives the coordinates of v_a; A times those is v_a itself.")),
        ("A", Mistake("A for A A^T", "A takes coordinates to vectors; first A^T must find the coordinates.")),
        ("B B^T", Mistake("the other subspace", "This projects onto B, so it gives v_b.")),
        ("I - A A^T", Mistake("what is left over", "This takes v_a away and leaves v_b.")),
        (
            "2 A A^T",
            Mistake("the factor of the average", "2 belongs to the average (v_a + v_b) / 2; here the sum itself is given."),
        ),
    ),
    Equals: (
        ("exp(k_j^T q)", Mistake("not normalised", "Divide by the sum over all keys, so that the weights sum to 1.")),
        ("k_j^T q", Mistake("the score itself", "The weight is the softmax of the scores, not the score.")),
    ),
}


def mistake(wanted: Property, reading: Reading, outcome: Outcome, deadline: float) -> Mistake | None:
    """Return the mistake that explains a wrong answer, if a known one does."""
    same = look_alike(wanted, reading.items, deadline)
    if same is not None:
        return same
    for found, changed, goal in _repairs(wanted, reading, outcome):
        if time.thread_time() > deadline:
            break
        try:
            if tried(goal, changed, deadline).holds:
                return found
        except Unreadable:
            continue
    return None


def known_number(mistakes: Sequence[Mapping[str, str]], wanted: Property, reading: Reading) -> Mistake | None:
    """Return the mistake of a sheet that has the number given, or that rounds to it."""
    for one in mistakes if isinstance(wanted, NumberProperty) else ():
        values = wanted.world.draw(0).values
        wrong = float(value(expression(one["value"], wanted.world), values)[0, 0])
        said = float(value(next(iter(reading.items.values())), values)[0, 0])
        if abs(said - wrong) <= max(wanted.tolerance, 1e-9) or _rounds_to(wrong, said):
            return Mistake(one["name"], one["help"])
    return None


def _rounds_to(number: float, said: float) -> bool:
    """Say whether a number with many digits was rounded; nobody rounds 0.25 to 0.2."""
    digits = len(f"{abs(said):.15g}".replace(".", "").strip("0")) or 1
    return float(f"{number:.{_FEW_DIGITS - 1}e}") != number and float(f"{number:.{digits - 1}e}") == said


def look_alike(wanted: Property, items: Mapping[str, Node], deadline: float) -> Mistake | None:
    """Say whether an answer has the values of a known wrong one."""
    for text, found in _KNOWN.get(type(wanted), ()):
        names = frozenset(wanted.world.scope.names)
        if isinstance(wanted, Equals) and not {"q", "k"} <= names:
            continue
        known = expression(text, wanted.world)
        node = next(iter(items.values()))
        if all(_equal(wanted, node, known, number, deadline) for number in (1, 3, 4)):
            return found
    return None


def _equal(wanted: Property, one: Node, other: Node, number: int, deadline: float) -> bool:
    values = replace(wanted.world.draw(number).values, deadline=deadline)
    try:
        first, second = value(one, values), value(other, values)
    except (Unreadable, KeyError):
        return False
    return first.shape == second.shape and bool(np.abs(first - second).max() <= 1e-9 * max(1.0, float(np.abs(second).max())))


def _repairs(wanted: Property, reading: Reading, outcome: Outcome) -> Iterator[tuple[Mistake, Reading, Property]]:
    """Yield changed answers, each with the mistake that it would show and the property to try it on."""
    match wanted:
        case Average():
            yield from _queries(wanted, reading, outcome)
        case Layer():
            yield from _matrices(wanted, reading)
        case Equals() if "v" in wanted.world.scope.names:
            changed = reading
            for letter in {"mu", "k"} & set(wanted.world.scope.names):
                changed = _changed(changed, partial(_renamed, old=letter, new="v"))
            yield _KEYS, changed, wanted


def _queries(wanted: Average, reading: Reading, outcome: Outcome) -> Iterator[tuple[Mistake, Reading, Property]]:
    letter = wanted.world.letter
    bound = any(reading.size(name).high is not None for name in reading.scales)
    if (not reading.scales or bound) and outcome.failure is not None:
        data = outcome.failure.trial.data
        said = _SCALE.help.format(count=data["n"], weight=data["weights"][0], wanted=1 / wanted.count)
        grown = replace(reading, sizes={}) if bound else _scaled(reading)
        yield replace(_SCALE, help=said), grown, wanted
    keyed = _changed(reading, lambda node: _renamed(node, "v", letter))
    if keyed.items != reading.items:
        yield _VALUES, keyed, wanted
        yield _VALUES, _scaled(keyed), wanted
    yield _SIGN, _changed(reading, lambda node: Negative(node.start, node.end, node)), wanted


def _matrices(wanted: Layer, reading: Reading) -> Iterator[tuple[Mistake, Reading, Property]]:
    rows = list(wanted.targets)
    if len(rows) == 2:
        turned = Layer({})
        turned.targets = dict(zip(rows, reversed(wanted.targets.values()), strict=True))
        yield Mistake("swapped rows", f"c_{rows[0]} and c_{rows[1]} have each other's targets."), reading, turned
    for name in sorted(("Q", "K", "V"), key=lambda name: not isinstance(reading.items[name], Negative)):
        negative = _one(reading, name, lambda node: Negative(node.start, node.end, node))
        yield Mistake(f"a sign error in {name}", f"With the other sign of {name} it would be right."), negative, wanted
    for names in (("Q",), ("K",), ("V",), ("Q", "V"), ("K", "V"), ("Q", "K"), ("Q", "K", "V")):
        changed = reading
        for name in names:
            changed = _one(changed, name, lambda node: Transposed(node.start, node.end, node))
        said = " and ".join(names)
        help_ = f"{said} transposed would be right: u w^T takes w to u, not u to w."
        yield Mistake("a transposed outer product", help_), changed, wanted
    for name in ("Q", "K", "V"):
        for kind, node in _one_term(reading.items[name], wanted):
            help_ = f"With one term of {name} {'of the other sign' if kind is Negative else 'transposed'} it would be right."
            known = f"a sign error in {name}" if kind is Negative else "a transposed outer product"
            yield Mistake(known, help_), replace(reading, items={**reading.items, name: node}), wanted
    exchanged = replace(reading, items={**reading.items, "K": reading.items["Q"], "Q": reading.items["K"]})
    yield (
        Mistake("K and Q exchanged", "The query is what a position asks with, the key what it is found by."),
        exchanged,
        wanted,
    )
    square = Power(0, 0, Symbol(0, 0, "beta"), Number(0, 0, 2.0))
    smaller = _one(reading, "V", lambda node: Quotient(node.start, node.end, node, square))
    yield Mistake("V is not normalised", "u u^T multiplies u by its squared length beta^2; divide by that."), smaller, wanted


def _one_term(node: Node, wanted: Property) -> Iterator[tuple[type, Node]]:
    """Yield an expression with one of its terms negated, or one outer product transposed."""
    parts = [node]
    for part in parts:
        parts += children(part)
    for part in parts[:_MOST_PARTS]:
        other: Node | None = None
        if isinstance(part, Addition):
            other = replace(part, sign=-part.sign)
        elif isinstance(part, Negative):
            other = part.body
        if other is not None:
            yield Negative, _exchanged(node, part, other)
        try:
            outer = isinstance(part, Product) and shape(part, wanted.world.scope) == ("d", "d")
        except Unreadable:
            outer = False
        if outer:
            yield Transposed, _exchanged(node, part, Transposed(part.start, part.end, part))


def _exchanged(node: Node, old: Node, new: Node) -> Node:
    place = (type(old), old.start, old.end)
    return rewritten(node, lambda part: new if (type(part), part.start, part.end) == place else part)


def _scaled(reading: Reading) -> Reading:
    """Put one and the same new scale in front of everything."""
    factor = Symbol(0, 0, "scale")
    items = {name: Product(node.start, node.end, factor, node, " ") for name, node in reading.items.items()}
    return replace(reading, items=items, scales=(*reading.scales, "scale"))


def _changed(reading: Reading, change: Change) -> Reading:
    return replace(reading, items={name: change(node) for name, node in reading.items.items()})


def _one(reading: Reading, name: str, change: Change) -> Reading:
    return replace(reading, items={**reading.items, name: change(reading.items[name])})


def _renamed(node: Node, old: str, new: str) -> Node:
    """Return an expression with one family of names for another."""
    return rewritten(node, lambda part: replace(part, name=new) if isinstance(part, Symbol) and part.name == old else part)
