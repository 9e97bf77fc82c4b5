"""From what was written to what is asked for: which expression is which, what names stand for, and what else was said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from headwise.check.conditions import Condition
from headwise.check.evaluate import Values, value
from headwise.check.grammar import Item, Written, read
from headwise.check.properties import Number, Property
from headwise.check.scope import SCALAR, free, shape
from headwise.check.sheet import Problem
from headwise.check.tree import Node, Power, Relation, Symbol, Total, Transposed, put, rewritten, size, symbols
from headwise.check.unreadable import Unreadable
from headwise.check.worlds import Scored

# Other ways to say the same that are tried, and how long an answer may grow when names are put in.
_MOST_OTHERS = 12
_MOST_PARTS = 2000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Given:
    """The answer, by what is asked for; other expressions that were given as the same answer; what is said of its scales."""

    items: Mapping[str, Node]
    others: Sequence[Mapping[str, Node]] = field(default=())
    conditions: Sequence[Condition] = ()


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
    if all(candidates.values()) or (len(names) == 1 and any(not one.links for one in unnamed)):
        for item in [one for one in unnamed if one.links]:  # A^T A = I, so M = A A^T
            _check(item, wanted)
            unnamed.remove(item)
    _fill(candidates, unnamed, wanted)
    missing = [name for name in names if not candidates[name]]
    if missing:
        if others and not unnamed and len(missing) == len(names):
            first = others[0]
            raise Unreadable(f"{first.name} is not asked for, but {' and '.join(names)}", first.body.start, first.body.end)
        end = written.items[-1].body.end
        raise Unreadable(f"expected {' and '.join(names)}, but {' and '.join(missing)} is missing", end, end + 1)
    return _combined(candidates, meant, wanted, written)


def _combined(candidates: Mapping[str, Sequence[Node]], meant: dict[str, Node], wanted: Property, written: Written) -> Given:
    """Return the last of what was given for each name, and every other way to say one of them in its place."""
    extra = [node for nodes in candidates.values() for node in nodes[:-1]]
    if len(extra) > _MOST_OTHERS:
        raise Unreadable("too many answers are given; give one", extra[_MOST_OTHERS].start, extra[_MOST_OTHERS].end)
    chosen = {name: nodes[-1] for name, nodes in candidates.items()}
    for name, node in chosen.items():  # q_2 = q_1
        if not any(one.said == name for one in symbols(node)):
            meant.setdefault(name, node)
    ready = {name: [_summed(_meant(node, meant, wanted), written.sets) for node in nodes] for name, nodes in candidates.items()}
    items = {name: nodes[-1] for name, nodes in ready.items()}
    others = [{**items, name: node} for name, nodes in ready.items() for node in nodes[:-1]]
    # c_1 = c_2, c_1 large: what is said of one is said of the other.
    called = {name: node.said for name, node in meant.items() if isinstance(node, Symbol)}
    return Given(items, others, [replace(one, scale=called.get(one.scale, one.scale)) for one in written.conditions])


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


def _check(item: Item, wanted: Property) -> None:
    """Refuse an equation beside an answer that does not hold."""
    assert not isinstance(item.body, Relation)  # noqa: S101  refused before
    sides = (*item.links, item.body)
    for number in (1, 3):
        values = wanted.world.draw(number, next(iter(wanted.world.ladder), 0.0)).values
        unknown = [one for side in sides for one in symbols(side) if one.said in free(side, wanted.world.scope)]
        for side in sides if not unknown else ():
            shape(side, wanted.world.scope)
        if unknown or not all(_same(one, other, values) for one, other in pairwise(sides)):
            raise Unreadable("this does not hold here, or is not understood", item.links[0].start, item.body.end)


def _same(one: Node, other: Node, values: Values) -> bool:
    """Say whether two sides are equal; 0 and I may have any size."""
    left, right = value(one, values), value(other, values)
    if isinstance(other, Symbol) and other.name == "I" and left.shape[0] == left.shape[1]:
        right = np.eye(len(left))
    if left.shape != right.shape and right.any():
        return False
    return bool(np.abs(left - right).max() <= _ROUNDING * max(1.0, float(np.abs(left).max())))


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


def _summed(node: Node, sets: Mapping[str, tuple[str, ...]]) -> Node:
    """Let sums over a set run over the elements that it was said to have: S = {a, b}."""

    def named(part: Node) -> Node:
        elements = sets.get(part.over or "") if isinstance(part, Total) else None
        return replace(part, over="{" + ",".join(elements) + "}") if isinstance(part, Total) and elements else part

    return rewritten(node, named) if sets else node


def _meant(node: Node, meant: Mapping[str, Node], wanted: Property) -> Node:
    """Put what was said of names for them, and read a small t above a matrix as its transpose."""
    scope = wanted.world.scope
    own = {name for name, body in meant.items() if any(one.said == name for one in symbols(body))}
    for _ in range(3):  # what is put may itself hold such names
        if sum(size(meant.get(one.said, one)) for one in symbols(node)) > _MOST_PARTS:
            raise Unreadable(f"with its names put in, this has more than {_MOST_PARTS} parts", node.start, node.end)
        node = put(node, meant)
        meant = {name: body for name, body in meant.items() if name not in own}
    for one in symbols(node):
        if one.said in wanted.give and one.name not in scope.names:
            raise Unreadable(f"{one.said} is what is asked for, so it cannot stand in its own formula", one.start, one.end)

    def turned(part: Node) -> Node:
        if not (isinstance(part, Power) and isinstance(part.exponent, Symbol) and part.exponent.said == "t"):
            return part
        try:
            number = shape(part.base, scope) == SCALAR
        except Unreadable:  # an index of a sum around it
            number = False
        return part if number else Transposed(part.start, part.end, part.base)

    return rewritten(node, turned) if "t" in free(node, scope) else node
