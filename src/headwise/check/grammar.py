"""Text into what it gives: expressions or relations, and what is said of scales."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from headwise.check.clauses import RELATIONS, Clause, clauses, is_name, outside, restatements
from headwise.check.conditions import Condition, conditions, relations_in
from headwise.check.expressions import Expressions, expression
from headwise.check.phrases import APPROVAL, FILLERS, LARGE, OPERATIONS, SMALL, as_signs, refuse_hedges
from headwise.check.tokens import Token, tokens
from headwise.check.tree import Node, Number, Product, Relation, Symbol, symbols
from headwise.check.unreadable import Unreadable

_EQUALS = ("=", "≈", "→", "∝")


@dataclass(frozen=True)
class Item:
    """One thing that was given: its name if it has one, the expression or relation, and what it was said to be equal to."""

    name: str | None
    body: Node | Relation
    links: tuple[Node, ...] = ()
    leads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Written:
    """Everything that was read: what is given, what is said of scales, and the inequalities in which it was said."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]
    relations: tuple[Relation, ...] = ()


def read(
    text: str,
    known: AbstractSet[str],
    *,
    asked: AbstractSet[str] = frozenset(),
    relations: bool = False,
    labels: bool = False,
    restated: bool = False,
) -> Written:
    """Read an answer.

    Parameters
    ----------
    known
        The names that letters are cut into.
    asked
        The names of what is to be given: whatever is said to be equal to one of them is an answer.
    relations
        Whether a relation is an answer and not a condition.
    labels
        Whether what stands before an equals sign may be anything: Var(c) = 1/2, P(X < 0) = 0.08.
    restated
        Whether a number in brackets at the end says the one before it again: 0.08 (8%).

    Examples
    --------
    >>> found = read("q = t (k_a + k_b), t >> 0", frozenset({"k", "q"}))
    >>> [item.name for item in found.items], [(one.scale, one.size) for one in found.conditions]
    (['q'], [('t', 'large')])
    """
    every = as_signs(tokens(text, known))
    items: list[Item] = []
    said: list[Condition] = []
    left: list[Token] = []
    compared: list[Relation] = []
    for clause in clauses(restatements(every) if restated else every, known):
        refuse_hedges(clause.tokens)
        _refuse_operations(clause)
        bare = _without_fillers(clause)
        if not bare.tokens or (is_name(bare.tokens) and clause.leads & {"for", "where", "with", "such"}):
            continue  # for all i
        if "not" in clause.leads:
            continue  # A A^T, not A^T A
        if _is_item(bare, asked, relations=relations, labels=labels):
            found = _labelled(bare, known) if labels else _item(bare, known, asked, relations=relations)
            items += [found] if found is not None else []
        else:
            heard = conditions(clause, known)
            if not heard and said and clause.leads == {"and"} and "negative" in clause.words:
                heard = [replace(said[-1], size="negative")]  # t is large and negative
            said += heard
            compared += relations_in(clause, known)
            left += [token for token in bare.tokens if token.kind == "word"]
    if not items:
        if left:
            raise Expressions(left, known).unknown()
        raise Unreadable("expected an expression, but this is the end", len(text), len(text) + 1)
    return Written(tuple(items), tuple(said), tuple(compared))


def _refuse_operations(clause: Clause) -> None:
    """Refuse an answer of which a part is said in words: the inverse of A A^T, the average of v_a and v_b."""
    if clause.follows or clause.leads - {"and"}:
        return
    for token, after in zip(clause.tokens, (*clause.tokens[1:], None), strict=True):
        named = after is not None and after.text.lower() == "temperature"
        if token.kind == "word" and token.text.lower() in OPERATIONS and not named:
            raise Unreadable(f"expected a formula, but {token.text!r} says a part of it in words", token.start, token.end)


def _without_fillers(clause: Clause) -> Clause:
    """Leave out the words around an answer (we take, the matrix is, works), and a sign of equality that begins it."""
    rest = list(clause.tokens)
    while rest and (_is_filler(rest[0], rest[1:2]) or rest[0].text in _EQUALS):
        rest.pop(0)
    while rest and rest[-1].kind == "word" and rest[-1].text.lower() in APPROVAL:
        rest.pop()
    return Clause(tuple(rest), clause.leads, clause.within)


def _is_filler(token: Token, after: Sequence[Token]) -> bool:
    """Say whether a token is a word that changes nothing; I think, a large number: I and a are words too before a word."""
    if token.kind == "word":
        return token.text.lower() in FILLERS
    word = after[0].text.lower() if after and after[0].kind == "word" else ""
    return token.text in ("I", "a", "A") and word in FILLERS - {"has", "have", "is", "are"}


def _is_item(clause: Clause, asked: AbstractSet[str], *, relations: bool, labels: bool) -> bool:
    """Say whether a clause gives something, rather than saying something."""
    signs = [token.text for token in outside(clause.tokens) if token.kind == "mark" and token.text in (*RELATIONS, *_EQUALS)]
    words = set(clause.words)
    if relations and any(sign in signs for sign in ("≫", "≪", ">", "<", "≥", "≤", "→")):
        return "∈" not in signs and not words and not clause.follows
    if any(sign not in _EQUALS for sign in signs) or (signs[:1] == ["→"] and _goes_somewhere(clause.tokens)):
        return labels and signs[-1] in _EQUALS
    if bool(signs) and (_named(clause.tokens) in asked or (labels and not clause.is_reason)):
        return True
    if clause.is_reason or (clause.follows and (words or signs)):
        return False
    return not words or not (words & (LARGE | SMALL) or _is_prose(clause))


def _goes_somewhere(tokens: Sequence[Token]) -> bool:
    """Say whether an arrow points to infinity or zero, so that a scale goes there."""
    rest = [token.text for token in tokens[[token.text for token in tokens].index("→") + 1 :]]
    return "∞" in rest or rest in (["0"], ["0", "^", "+"])


def _named(found: Sequence[Token]) -> str:
    """Return the name that stands before the first sign of equality, if it is one."""
    reader = Expressions(found, frozenset())
    if reader.next.kind != "name" or reader.next.text == "P":
        return ""
    try:
        node = reader.primary()
    except Unreadable:
        return ""
    return node.said if isinstance(node, Symbol) and reader.at(*_EQUALS) else ""


def _is_prose(clause: Clause) -> bool:
    """Say whether a clause is a sentence: words alone, or several with no operator before the first."""
    first = next(place for place, token in enumerate(clause.tokens) if token.kind == "word")
    before = [token for token in clause.tokens[:first] if token.kind == "mark" and token.text not in ("_", "{", "}", "^", "⊤")]
    return len(clause.words) == len(clause.tokens) or (len(clause.words) > 1 and not before)


def _labelled(clause: Clause, known: AbstractSet[str]) -> Item | None:
    """Read a number that may have something before an equals sign."""
    parts: list[list[Token]] = [[]]
    marks = {id(token) for token in outside(clause.tokens) if token.kind == "mark" and token.text in _EQUALS}
    for token in clause.tokens:
        if id(token) in marks:
            parts.append([])
        else:
            parts[-1].append(token)
    found: list[Node] = []
    for place, part in enumerate(parts, 1):
        try:
            node = expression(part, known)
        except Unreadable:
            if place == len(parts):
                raise
            continue  # a label, or a step in words
        if place == 1 < len(parts) and isinstance(node, Symbol):
            if node.name in known:
                return None  # n = 10, which is known
        else:
            found.append(node)
    return Item(None, found[-1], tuple(found[:-1]), clause.leads)


def _item(clause: Clause, known: AbstractSet[str], asked: AbstractSet[str], *, relations: bool) -> Item | None:
    reader = Expressions(clause.tokens, known)
    left = reader.sum()
    if relations and reader.at(*RELATIONS, "=", "≈"):
        return Item(None, _relation(reader, left), leads=clause.leads)
    links = [left]
    while reader.at(*_EQUALS):
        sign = reader.take()
        told = isinstance(left, Symbol) and left.name in known and left.said not in asked
        if len(links) == 1 and told and _is_list(reader.tokens[reader.place :]):
            return None  # A = [a_1, ..., a_m] says what A is, which is known
        right = reader.sum()
        factor = Symbol(sign.start, sign.end, "factor")
        links.append(Product(sign.start, right.end, factor, right, " ") if sign.text == "∝" else right)
    if reader.next.kind == "word":
        raise reader.unknown()
    if reader.next.kind != "end":
        raise reader.wrong("expected an operator, a comma or the end")
    if len(links) == 1:
        return Item(None, left, leads=clause.leads)
    if not isinstance(left, Symbol):
        if any(one.said in asked for one in symbols(left)):
            return None  # M s = v_a says what M does
        return Item(None, links[-1], tuple(links[:-1]), clause.leads)
    return Item(left.said, links[-1], tuple(links[1:-1]), clause.leads)


def _is_list(found: Sequence[Token]) -> bool:
    """Say whether tokens are a matrix by its columns: [a_1, ..., a_m]."""
    return found[0].text in ("[", "(") and any(token.text == "…" for token in found)


def _relation(reader: Expressions, left: Node) -> Relation:
    sign = reader.take().text
    if sign == "→" and reader.at("∞"):
        end = reader.take()
        right: Node = Number(end.start, end.end, 0.0)
        sign = "≫"
    else:
        right = reader.sum()
    if reader.next.kind != "end":
        raise reader.wrong("expected a comma or the end")
    return Relation(left.start, right.end, left, right, sign)
