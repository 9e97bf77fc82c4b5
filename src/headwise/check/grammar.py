"""Text into what it gives: expressions or relations, and what is said of scales."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from headwise.check.clauses import RELATIONS, Clause, clauses, is_name, outside, restatements
from headwise.check.conditions import Condition, conditions, refuse_unread, relations_in, sides_of
from headwise.check.definitions import definitions
from headwise.check.expressions import Expressions, expression
from headwise.check.phrases import APPROVAL, COUNTS, FILLERS, LARGE, OPERATIONS, SMALL, VERBS, as_signs, refuse_hedges
from headwise.check.prose import refuse_changes
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
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    found = _Found(known, asked, relations, labels)
    for clause in clauses(restatements(every) if restated else every, known):
        found.hear(clause)
    if not found.items:
        if found.left:
            raise Expressions(found.left, known).unknown()
        raise Unreadable("expected an expression, but this is the end", len(text), len(text) + 1)
    return Written(tuple(found.items), tuple(found.said), tuple(found.compared), found.sets)


@dataclass
class _Found:
    """What was found in the clauses so far."""

    known: AbstractSet[str]
    asked: AbstractSet[str]
    relations: bool
    labels: bool
    items: list[Item] = field(default_factory=list)
    said: list[Condition] = field(default_factory=list)
    compared: list[Relation] = field(default_factory=list)
    sets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Words of which nothing was understood; the sentences in which an answer stands; that of which words alone came last.
    left: list[Token] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    talk: int = -1

    def hear(self, clause: Clause) -> None:
        """Take what the next clause gives or says."""
        refuse_hedges(clause.tokens, sure=clause.follows)
        if not self.items:
            _refuse_operations(clause)
        bare = _without_fillers(clause)
        if not bare.tokens or (is_name(bare.tokens) and clause.leads & {"for", "where", "with", "such"}):
            return  # for all i
        if "not" in clause.leads:
            return  # A A^T, not A^T A
        told = None if clause.is_reason else definitions(bare, self.known)
        # It jumps between v_a and v_b: what follows is no answer of its own.
        fragment = self.talk == clause.sentence and bool(clause.leads) and "or" not in clause.leads
        fragment = fragment and not clause.has(*_EQUALS)
        if told is not None:
            self.items += [Item(name, body) for name, body in told.names.items()]
            self.sets |= told.sets
        elif not fragment and not clause.leads & VERBS and _is_item(bare, self):
            self.take(bare)
            self.answered.add(clause.sentence)
            self.talk = -1
        else:
            self.listen(clause)
            self.left += [token for token in bare.tokens if token.kind == "word"]

    def take(self, clause: Clause) -> None:
        """Read an answer, or a piece of one."""
        if self.labels:
            self.items.append(_labelled(clause, self.known))
            return
        found = _item(clause, self.known, self.asked, relations=self.relations)
        self.items += [found] if found is not None else []

    def listen(self, clause: Clause) -> None:
        """Read what is said of scales; other words must be harmless."""
        heard = conditions(clause, self.known)
        if not heard and self.said and clause.leads == {"and"} and "negative" in clause.words:
            heard = [replace(self.said[-1], size="negative")]  # t is large and negative
        if not clause.follows:
            refuse_unread(clause, self.known)
        related = relations_in(clause, self.known)
        beside = clause.sentence in self.answered
        refuse_changes(clause, self.known, beside=beside, heard=bool(heard or related), number=self.labels)
        self.talk = clause.sentence if clause.words and not heard else -1
        self.said += heard
        self.compared += related
        self.items += _equal_names(clause, self.known)


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
        counts = token.text.lower() in COUNTS and bool(after) and (after[0].text == "=" or _word(after[0]) in FILLERS)
        return token.text.lower() in FILLERS or counts
    return token.text in ("I", "a", "A") and bool(after) and _word(after[0]) in FILLERS - {"has", "have", "is", "are"}


def _word(token: Token) -> str:
    return token.text.lower() if token.kind == "word" else ""


def _is_item(clause: Clause, found: _Found) -> bool:
    """Say whether a clause gives something, rather than saying something."""
    signs = [token.text for token in outside(clause.tokens) if token.kind == "mark" and token.text in (*RELATIONS, *_EQUALS)]
    words = set(clause.words)
    if found.relations and any(sign in signs for sign in ("≫", "≪", ">", "<", "≥", "≤", "→")):
        return "∈" not in signs and not words and not clause.follows
    if any(sign not in _EQUALS for sign in signs) or (signs[:1] == ["→"] and _goes_somewhere(clause.tokens)):
        return found.labels and signs[-1] in _EQUALS
    if bool(signs) and (_named(clause.tokens) in found.asked or (found.labels and not clause.is_reason)):
        return True
    unknown = is_name(clause.tokens) and clause.tokens[0].text not in found.known
    if clause.is_reason or (clause.follows and (words or signs or unknown)):
        return False
    return not words or not (words & (LARGE | SMALL) or _is_prose(clause))


def _equal_names(clause: Clause, known: AbstractSet[str]) -> list[Item]:
    """Return what letters of its own a clause says to be equal to, beside their size: c_1 = c_2 large."""
    sides, signs = sides_of(clause.tokens)
    found: list[Item] = []
    for left, sign, right in zip(sides, signs, sides[1:], strict=False):
        own = bool(left) and is_name(left) and all(one.text != "," for one in left) and left[0].text not in known
        if sign == "=" and own and right and not clause.follows:
            found.append(Item("".join(one.text for one in left if one.text not in ("{", "}")), expression(right, known)))
    return found


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
    """Say whether a clause is a sentence: a word begins it or stands behind its first name, or several before any operator."""
    first = next(place for place, token in enumerate(clause.tokens) if token.kind == "word")
    before = [token for token in clause.tokens[:first] if token.kind == "mark" and token.text not in ("_", "{", "}", "^", "⊤")]
    return first == 0 or is_name(clause.tokens[:first]) or (len(clause.words) > 1 and not before)


def _labelled(clause: Clause, known: AbstractSet[str]) -> Item:
    """Read a number that may have something before an equals sign."""
    parts: list[list[Token]] = [[]]
    marks = {id(token) for token in outside(clause.tokens) if token.kind == "mark" and token.text in _EQUALS}
    for token in clause.tokens:
        if id(token) in marks:
            parts.append([])
        else:
            parts[-1].append(token)
    found: list[Node] = []
    name: str | None = None
    for place, part in enumerate(parts, 1):
        try:
            node = expression(part, known)
        except Unreadable:
            if place == len(parts):
                raise
            continue  # a label, or a step in words
        if place == 1 < len(parts) and isinstance(node, Symbol):
            name = node.said if node.name in known else None  # p = 0.0228 says what p is
        else:
            found.append(node)
    return Item(name, found[-1], tuple(found[:-1]), clause.leads)


def _item(clause: Clause, known: AbstractSet[str], asked: AbstractSet[str], *, relations: bool) -> Item | None:
    reader = Expressions(clause.tokens, known)
    left = reader.sum()
    if relations and reader.at(*RELATIONS, "=", "≈"):
        return Item(None, _relation(reader, left), leads=clause.leads)
    links = [left]
    while reader.at(*_EQUALS):
        sign = reader.take()
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
