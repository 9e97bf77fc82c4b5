"""Known mistakes, found by trying repairs: if a changed answer is right, the change names what was wrong."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from headwise.check.evaluate import value
from headwise.check.grammar import read
from headwise.check.limits import SECONDS, Reading, tried
from headwise.check.properties import Average, Equals, Extract, Layer, Property
from headwise.check.tree import Negative, Node, Number, Power, Product, Quotient, Relation, Symbol, Transposed, children
from headwise.check.unreadable import Unreadable

Change = Callable[[Node], Node]


@dataclass(frozen=True)
class Mistake:
    """A name and a sentence of help."""

    name: str
    help: str


_SCALE = Mistake(
    "the scale is missing",
    "The direction is right, but the query is too short: with ten keys a weight of {weight:.2f} each, not {wanted:.2g}. Put a "
    "factor in front that may grow.",
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


def mistake(wanted: Property, reading: Reading) -> Mistake | None:
    """Return the mistake that explains a wrong answer, if a known one does."""
    same = look_alike(wanted, reading.items)
    if same is not None:
        return same
    start = time.monotonic()
    for found, changed, goal in _repairs(wanted, reading):
        if time.monotonic() - start > SECONDS / 2:
            break
        try:
            if tried(goal, changed, SECONDS / 4).holds:
                return found
        except Unreadable:
            continue
    return None


def look_alike(wanted: Property, items: Mapping[str, Node]) -> Mistake | None:
    """Say whether an answer has the values of a known wrong one."""
    for text, found in _KNOWN.get(type(wanted), ()):
        names = frozenset(wanted.world.scope.names)
        if isinstance(wanted, Equals) and not {"q", "k"} <= names:
            continue
        known = read(text, names).items[0].body
        node = next(iter(items.values()))
        assert not isinstance(known, Relation)  # noqa: S101  written above
        if all(_equal(wanted, node, known, number) for number in (1, 3, 4)):
            return found
    return None


def _equal(wanted: Property, one: Node, other: Node, number: int) -> bool:
    values = wanted.world.draw(number).values
    try:
        first, second = value(one, values), value(other, values)
    except (Unreadable, KeyError):
        return False
    return first.shape == second.shape and bool(np.abs(first - second).max() <= 1e-9 * max(1.0, float(np.abs(second).max())))


def _repairs(wanted: Property, reading: Reading) -> Iterator[tuple[Mistake, Reading, Property]]:
    """Yield changed answers, each with the mistake that it would show and the property to try it on."""
    match wanted:
        case Average():
            yield from _queries(wanted, reading)
        case Layer():
            yield from _matrices(wanted, reading)
        case Equals() if "v" in wanted.world.scope.names:
            letter = "mu" if "mu" in wanted.world.scope.names else "k"
            yield _KEYS, _changed(reading, lambda node: _renamed(node, letter, "v")), wanted


def _queries(wanted: Average, reading: Reading) -> Iterator[tuple[Mistake, Reading, Property]]:
    letter = wanted.world.letter  # type: ignore[attr-defined]
    if not reading.scales:
        weight = _weight(wanted, reading)
        yield replace(_SCALE, help=_SCALE.help.format(weight=weight, wanted=1 / wanted.count)), _scaled(reading), wanted
    keyed = _changed(reading, lambda node: _renamed(node, "v", letter))
    if keyed.items != reading.items:
        yield _VALUES, keyed, wanted
        yield _VALUES, _scaled(keyed), wanted
    yield _SIGN, _changed(reading, lambda node: Negative(node.start, node.end, node)), wanted


def _weight(wanted: Average, reading: Reading) -> float:
    """Return the weight of key a with ten keys."""
    instance = wanted.world.draw(0)
    given = {name: value(node, instance.values) for name, node in reading.items.items()}
    return float(wanted.trial(instance, given).data["weights"][0])


def _matrices(wanted: Layer, reading: Reading) -> Iterator[tuple[Mistake, Reading, Property]]:
    rows = list(wanted.targets)
    if len(rows) == 2:
        turned = Layer({})
        turned.targets = dict(zip(rows, reversed(wanted.targets.values()), strict=True))
        yield Mistake("swapped rows", f"c_{rows[0]} and c_{rows[1]} have each other's targets."), reading, turned
    for name in ("Q", "K", "V"):
        negative = _one(reading, name, lambda node: Negative(node.start, node.end, node))
        yield Mistake(f"a sign error in {name}", f"With the other sign of {name} it would be right."), negative, wanted
    for names in (("Q",), ("K",), ("V",), ("Q", "V"), ("K", "V"), ("Q", "K"), ("Q", "K", "V")):
        changed = reading
        for name in names:
            changed = _one(changed, name, lambda node: Transposed(node.start, node.end, node))
        said = " and ".join(names)
        help_ = f"{said} transposed would be right: u w^T takes w to u, not u to w."
        yield Mistake("a transposed outer product", help_), changed, wanted
    exchanged = Reading({**reading.items, "K": reading.items["Q"], "Q": reading.items["K"]}, reading.scales, reading.sizes)
    yield (
        Mistake("K and Q exchanged", "The query is what a position asks with, the key what it is found by."),
        exchanged,
        wanted,
    )
    square = Power(0, 0, Symbol(0, 0, "beta"), Number(0, 0, 2.0))
    smaller = _one(reading, "V", lambda node: Quotient(node.start, node.end, node, square))
    yield Mistake("V is not normalised", "u u^T multiplies u by its squared length beta^2; divide by that."), smaller, wanted


def _scaled(reading: Reading) -> Reading:
    """Put one and the same new scale in front of everything."""
    factor = Symbol(0, 0, "scale")
    items = {name: Product(node.start, node.end, factor, node, " ") for name, node in reading.items.items()}
    return Reading(items, (*reading.scales, "scale"), reading.sizes)


def _changed(reading: Reading, change: Change) -> Reading:
    return replace(reading, items={name: change(node) for name, node in reading.items.items()})


def _one(reading: Reading, name: str, change: Change) -> Reading:
    return replace(reading, items={**reading.items, name: change(reading.items[name])})


def _renamed(node: Node, old: str, new: str) -> Node:
    """Return an expression with one family of names for another."""
    if isinstance(node, Symbol):
        return replace(node, name=new) if node.name == old else node
    fields = {
        name: _renamed(part, old, new) for name, part in vars(node).items() if any(part is child for child in children(node))
    }
    return replace(node, **fields)  # type: ignore[arg-type]
