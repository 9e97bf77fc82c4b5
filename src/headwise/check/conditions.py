"""What a clause says of scales: t >> 0, 1 << t << 10^6, t in (0, 1), t large, t -> infinity."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from headwise.check.clauses import RELATIONS, Clause, is_name
from headwise.check.evaluate import Values, value
from headwise.check.expressions import Expressions, expression
from headwise.check.phrases import LARGE, NEGATIONS, SMALL
from headwise.check.tokens import Token
from headwise.check.tree import Node, Place, Relation, Symbol, symbols
from headwise.check.unreadable import Unreadable

_TURNED = {"≫": "≪", "≪": "≫", ">": "<", "<": ">", "≥": "≤", "≤": "≥"}
_OPPOSITE = {"large": "small", "small": "large"}
# A scale that is above this is large.
_ALREADY_LARGE = 5.0


@dataclass(frozen=True)
class Condition(Place):
    """What is said of a scale: "large", "small" or "negative", between which numbers it lies, which scales it far exceeds."""

    scale: str
    size: str = ""
    low: float | None = None
    high: float | None = None
    above: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """All that is said of one scale."""

    way: str = ""
    low: float | None = None
    high: float | None = None
    above: tuple[str, ...] = field(default=())


def sizes(conditions: Iterable[Condition], scales: Sequence[str]) -> Mapping[str, Size]:
    """Bring together what is said of each scale."""
    found = {name: Size() for name in scales}
    for one in conditions:
        if one.scale not in found:
            continue
        old = found[one.scale]
        if one.size and old.way and one.size != old.way:
            raise Unreadable(f"{one.scale} is said to be {old.way} and {one.size}", one.start, one.end)
        low = max((bound for bound in (old.low, one.low) if bound is not None), default=None)
        high = min((bound for bound in (old.high, one.high) if bound is not None), default=None)
        above = (*old.above, *(name for name in one.above if name in found))
        found[one.scale] = Size(one.size or old.way, low, high, above)
    return found


def conditions(clause: Clause, known: AbstractSet[str]) -> list[Condition]:
    """Read what a clause says of scales; whatever else it says is let go."""
    sides, signs = sides_of(clause.tokens)
    place = (clause.tokens[0].start, clause.tokens[-1].end)
    found = [
        condition
        for left, sign, right in zip(sides, signs, sides[1:], strict=False)
        for condition in _related(left, sign, right, place, known)
    ]
    words = set(clause.words)
    if words & {"close", "near"} and words & {"zero", "nothing"}:
        words.add("small")
    if any(token.text in ("|", "‖") for token in clause.tokens):
        return found  # |t| large leaves the sign open
    if not words & (LARGE | SMALL | {"negative"}):
        return found
    size = "negative" if words & {"negative", "minus"} else "large" if words & LARGE else "small"
    said = Condition(*place, "", size)
    if size in _OPPOSITE:
        said = replace(said, size=_turned(clause.tokens, size))
    if words & NEGATIONS:
        said = Condition(*place, "", "", high=1.0) if size == "large" else Condition(*place, "")
    return [*found, *(replace(said, scale=name) for name in dict.fromkeys(_names(clause.tokens)))]


def refuse_unread(clause: Clause, known: AbstractSet[str]) -> None:
    """Refuse a sign of relation whose sides are not understood: what it says may change the answer."""
    sides, signs = sides_of(clause.tokens)
    place = (clause.tokens[0].start, clause.tokens[-1].end)
    if not signs and set(clause.words) & (LARGE | SMALL) and sides[0]:
        bare = [token for token in sides[0] if not (token.text in ("a", "I") and len(sides[0]) > 1)]  # a large t
        if bare and (bare[0].text == "+" or not _is_read(bare, known)):
            raise Unreadable("this is not understood, and may change the answer", *place)
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        if sign in ("≠", "∉", "∈"):
            understood = bool(left) and (is_name(left) or sign != "∈")
        elif sign in ("=", "≈") and not (left and right):  # t = large; their average is (v_a + v_b)/2
            understood = not left or is_name(left)
        elif sign in ("=", "≈"):
            understood = _is_read(left, known) and _is_read(right, known) and left[0].text not in known
        else:
            spoken = not right and bool(set(clause.words) & {"score", "scores", "weight", "weights"})
            understood = spoken or (_is_read(left, known) and _is_read(right, known))
        if not understood:
            raise Unreadable("this is not understood, and may change the answer", *place)


def _is_read(tokens: Sequence[Token], known: AbstractSet[str]) -> bool:
    """Say whether one side of a sign is understood: a scale or several, an expression, infinity, zero from above."""
    texts = [token.text for token in tokens]
    if _listed(tokens) or texts in (["∞"], ["-", "∞"], ["+", "∞"]) or texts[1:] in (["^", "+"], ["^", "-"]):
        return True
    try:
        expression(tokens, known)
    except Unreadable:
        return False
    return True


def relations_in(clause: Clause, known: AbstractSet[str]) -> list[Relation]:
    """Return the inequalities of a clause whose sides are expressions."""
    sides, signs = sides_of(clause.tokens)
    found = []
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        if sign in _TURNED and left and right:
            try:
                found.append(Relation(left[0].start, right[-1].end, expression(left, known), expression(right, known), sign))
            except Unreadable:
                continue
    return found


def holds_at(relation: Relation, values: Values) -> bool:
    """Say whether an inequality between numbers holds; one that cannot be told is not held against anybody."""
    try:
        left, right = (float(value(side, values)[0, 0]) for side in (relation.left, relation.right))
    except (Unreadable, KeyError, IndexError):
        return True
    return left >= right if relation.sign in ("≫", ">", "≥") else left <= right


def _turned(tokens: Sequence[Token], size: str) -> str:
    """Return what a scale is when an expression of it is large or small: 1/t large is t small, -t large is t negative."""
    try:
        node = expression([token for token in tokens if token.kind != "word"], frozenset())
        low, high = (
            float(value(node, Values({}, scales={symbol.said: scale for symbol in symbols(node)}))[0, 0])
            for scale in (2.0, 3.0)
        )
    except (Unreadable, KeyError, IndexError):
        return size
    if high >= low:
        return size
    if high > 0:
        return _OPPOSITE[size]
    return "negative" if size == "large" else ""


def sides_of(tokens: Sequence[Token]) -> tuple[list[list[Token]], list[str]]:
    """Return what stands between the signs of a clause, without its words, and the signs."""
    sides: list[list[Token]] = [[]]
    signs, depth = [], 0
    for token in tokens:
        depth = max(0, depth + (token.kind == "mark") * ((token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))))
        if token.kind == "mark" and token.text in (*RELATIONS, "=", "≈") and depth == 0:
            signs.append(token.text)
            sides.append([])
        elif token.kind != "word":
            sides[-1].append(token)
    return sides, signs


def _names(tokens: Sequence[Token]) -> list[str]:
    """Return the names in some tokens, each with its index."""
    reader, found = Expressions(tokens, frozenset()), []
    while reader.next.kind != "end":
        if reader.next.kind != "name" or reader.next.text in ("e", "P"):
            reader.take()
            continue
        try:
            one = reader.primary()
        except Unreadable:
            continue
        found += [symbol.said for symbol in symbols(one)]
    return found


def _listed(tokens: Sequence[Token]) -> list[str]:
    """Return the scales that one side of a sign is: t, or t and s; none if it is something else."""
    found: list[str] = []
    part: list[Token] = []
    for token in (*tokens, Token("mark", ",", 0, 0)):
        if token.text != ",":
            part.append(token)
            continue
        try:
            node = expression(part, frozenset()) if part else None
        except Unreadable:
            return []
        if not isinstance(node, Symbol):
            return []
        found.append(node.said)
        part = []
    return found


def _related(
    left: Sequence[Token], sign: str, right: Sequence[Token], place: tuple[int, int], known: AbstractSet[str]
) -> Iterable[Condition]:
    """Yield what a sign says of the scales on its left, and of those on its right."""
    if sign == "∈":
        for name in _listed(left):
            yield _within(name, right, place)
        return
    for side, way, bound in ((left, sign, right), (right, _TURNED.get(sign, ""), left)):
        if way in _TURNED and side and side[0].text == "-":  # -t >> 1
            minus = Token("mark", "-", place[0], place[0])
            side, way, bound = side[1:], _TURNED[way], [minus, *bound]  # noqa: PLW2901
        for name in _listed(side) if way else ():
            yield _bounded(name, way, bound, place, known)


def _bounded(name: str, sign: str, bound: Sequence[Token], place: tuple[int, int], known: AbstractSet[str]) -> Condition:
    number = _number(bound, known)
    nothing = Condition(*place, name)
    if sign == "→":
        if number is None:
            return nothing
        return replace(nothing, size="small" if number == 0 else "large" if number > 0 else "negative")
    if sign == "≫":
        above = tuple(_listed(bound)) if number is None else ()
        return replace(nothing, size="large" if number is None or number >= 0 else "", above=above)
    if number is None:
        return nothing
    if sign == "≪":
        return (
            replace(nothing, size="negative")
            if number <= 0
            else replace(nothing, size="small")
            if number <= 1
            else _below(nothing, number)
        )
    if sign in (">", "≥"):
        return replace(nothing, low=number, size="large" if number >= _ALREADY_LARGE else "")
    if sign in ("<", "≤"):
        return replace(nothing, size="negative") if number <= 0 else _below(nothing, number)
    return nothing


def _below(nothing: Condition, number: float) -> Condition:
    return nothing if number == float("inf") else replace(nothing, high=number)


def _number(tokens: Sequence[Token], known: AbstractSet[str]) -> float | None:
    """Return the number that one side of a sign is: infinity too; None if it has names in it."""
    texts = [token.text for token in tokens]
    if "∞" in texts:
        return -float("inf") if "-" in texts else float("inf")
    if len(texts) == 3 and texts[1] == "^" and texts[2] in ("+", "-"):  # 0^+
        tokens = tokens[:1]
    try:
        node: Node = expression(tokens, known)
        return None if any(symbols(node)) else float(value(node, Values({}))[0, 0])
    except (Unreadable, KeyError):
        return None


def _within(name: str, tokens: Sequence[Token], place: tuple[int, int]) -> Condition:
    """Say what an interval says: (0, 1), [10, infinity); a set such as R says nothing."""
    nothing = Condition(*place, name)
    texts = [token.text for token in tokens]
    if not texts or texts[0] not in ("(", "[") or texts.count(",") != 1:
        return nothing
    comma = texts.index(",")
    low, high = _number(tokens[1:comma], frozenset()), _number(tokens[comma + 1 : -1], frozenset())
    if high is not None and high <= 0:
        return replace(nothing, size="negative")
    large = "large" if low is not None and low >= _ALREADY_LARGE else ""
    return replace(nothing, low=low, high=None if high == float("inf") else high, size=large)
