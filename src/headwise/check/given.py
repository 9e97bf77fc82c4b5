"""From what was written to what is asked for: which expression is which, what names stand for, and what else was said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from headwise.check.evaluate import value
from headwise.check.grammar import Item, Written, read
from headwise.check.properties import Number, Property
from headwise.check.scope import SCALAR, Scope, free, shape
from headwise.check.sheet import Problem
from headwise.check.tree import Node, Power, Relation, Symbol, Transposed, put, rewritten, symbols
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import Scored

_MOST_CANDIDATES = 4


@dataclass(frozen=True)
class Given:
    """The answer, by what is asked for, and other expressions that were given as the same answer."""

    items: Mapping[str, Node]
    others: Sequence[Mapping[str, Node]] = field(default=())


def as_read(problem: Problem, text: str) -> Written:
    """Return an answer as it is read for marking."""
    wanted = problem.wanted
    if wanted is None:
        return read(text, frozenset(Scored().scope.names), relations=True)
    given = {name.partition("_")[0] for name in wanted.give}
    known = frozenset(wanted.world.scope.names) | given
    if isinstance(wanted, Number):
        return _number(wanted, text)
    return read(text, known, asked=frozenset(wanted.give))


def _number(wanted: Number, text: str) -> Written:
    """Read a number; 2 (1/4) is a product, but 0.08 (8%) says it twice."""
    names = frozenset(wanted.world.scope.names)
    plain = read(text, names, labels=True)
    again = read(text, names, labels=True, restated=True)
    for item in again.items:
        unknown = [] if isinstance(item.body, Relation) else [one for one in symbols(item.body) if one.name not in names]
        if unknown:
            raise Unreadable(f"{unknown[0].said} is no name of this problem", unknown[0].start, unknown[0].end)
    if len(plain.items) == len(again.items) or "%" in text or len(plain.items) > 1:
        return again
    body = plain.items[0].body
    try:
        right = not isinstance(body, Relation) and abs(float(value(body, wanted.world.draw(0).values)[0, 0]) - wanted.wanted)
    except (Unreadable, KeyError):
        return again
    return plain if right <= wanted.tolerance else again


def given(wanted: Property, written: Written) -> Given:
    """Match what was written with what is asked for."""
    names = list(wanted.give)
    candidates: dict[str, list[Node]] = {name: [] for name in names}
    meant: dict[str, Node] = {}
    unnamed: list[Item] = []
    others: list[Item] = []
    said = {one.scale for one in written.conditions if one.size}
    for item in written.items:
        name = _asked(item.name, names)
        if isinstance(item.body, Relation):
            raise Unreadable(f"expected {' and '.join(names)}, but this is a relation", item.body.start, item.body.end)
        if item.name is None:
            unnamed.append(item)
        elif name is None:
            others.append(item)
            if not (item.leads & {"eg"} and item.name in said):
                meant[item.name] = item.body
        else:
            for one, nodes in _chained(name, item, names).items():
                candidates[one] += nodes
    _fill(candidates, unnamed, wanted)
    missing = [name for name in names if not candidates[name]]
    if missing:
        if others and not unnamed and len(missing) == len(names):
            first = others[0]
            raise Unreadable(f"{first.name} is not asked for, but {' and '.join(names)}", first.body.start, first.body.end)
        end = written.items[-1].body.end
        raise Unreadable(f"expected {' and '.join(names)}, but {' and '.join(missing)} is missing", end, end + 1)
    chosen = {name: nodes[-1] for name, nodes in candidates.items()}
    for name, node in chosen.items():  # q_2 = q_1
        if not any(one.said == name for one in symbols(node)):
            meant.setdefault(name, node)
    ready = {name: [_meant(node, meant, wanted.world.scope) for node in nodes] for name, nodes in candidates.items()}
    combined = [dict(zip(names, nodes, strict=True)) for nodes in product(*ready.values())]
    if len(combined) > _MOST_CANDIDATES:
        raise Unreadable("too many answers are given; give one", 0, 1)
    return Given(combined[-1], combined[:-1])


def _asked(name: str | None, names: Sequence[str]) -> str | None:
    """Return the name that is asked for, however it was written."""
    if name is None:
        return None
    return next((one for one in names if one.replace("_", "") == name.replace("_", "")), None)


def _chained(name: str, item: Item, names: Sequence[str]) -> dict[str, list[Node]]:
    """Return what a chain gives: K = Q = I gives both, q = this = that two ways to say one thing."""
    found: dict[str, list[Node]] = {name: []}
    for link in item.links:
        other = _asked(link.said, names) if isinstance(link, Symbol) else None
        if other is not None:
            found[other] = []
        else:
            for nodes in found.values():
                nodes.append(link)
    assert not isinstance(item.body, Relation)  # noqa: S101  refused before
    for nodes in found.values():
        nodes.append(item.body)
    return found


def _fill(candidates: dict[str, list[Node]], unnamed: Sequence[Item], wanted: Property) -> None:
    """Give what has no name to what has nothing yet, in order; with one thing asked for, all are ways to say it."""
    bodies = [
        node
        for item in unnamed
        for node in (*(link for link in item.links if not free(link, wanted.world.scope)), item.body)
        if not isinstance(node, Relation)
    ]
    if len(candidates) == 1:
        only = next(iter(candidates.values()))
        only[:0] = bodies
        return
    rest = [name for name, nodes in candidates.items() if not nodes]
    if len(bodies) > len(rest):
        extra = bodies[len(rest)]
        raise Unreadable(f"expected {' and '.join(wanted.give)}, but there is more", extra.start, extra.end)
    for name, body in zip(rest, bodies, strict=False):
        candidates[name].append(body)


def _meant(node: Node, meant: Mapping[str, Node], scope: Scope) -> Node:
    """Put what was said of names for them, and read a small t above a matrix as its transpose."""
    for _ in range(3):  # what is put may itself hold such names
        node = put(node, meant)

    def turned(part: Node) -> Node:
        if not (isinstance(part, Power) and isinstance(part.exponent, Symbol) and part.exponent.said == "t"):
            return part
        try:
            number = shape(part.base, scope) == SCALAR
        except Unreadable:  # an index of a sum around it
            number = False
        return part if number else Transposed(part.start, part.end, part.base)

    return rewritten(node, turned) if "t" in free(node, scope) else node
