"""What an answer says that the names of the sheet stand for: A = [a_1, ..., a_m], A has rows a_i^T, S = {a}."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from headwise.check.clauses import Clause, is_index
from headwise.check.phrases import FILLERS
from headwise.check.tokens import Token
from headwise.check.tree import Node, Symbol, Transposed
from headwise.check.unreadable import Unreadable

_OPENERS, _CLOSERS = ("[", "("), ("]", ")")
_BETWEEN = {",", ";", "|", "…", "_", "{", "}", "^", "T", "⊤", "'", "'s", ":", "="}


@dataclass(frozen=True)
class Definitions:
    """What names stand for, and which elements are in a set."""

    names: Mapping[str, Node] = field(default_factory=dict)
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def definitions(clause: Clause, known: AbstractSet[str]) -> Definitions | None:
    """Return what a clause defines; None if it defines nothing in these ways."""
    tokens = clause.tokens
    words = {token.text.lower() for token in tokens if token.kind == "word"} - FILLERS
    texts = [token.text for token in tokens]
    if not words and len(texts) > 3 and texts[1] == "=" and tokens[0].kind == "name":
        if texts[2] == "{" and texts[-1] == "}" and texts[0].isupper() and texts[0] not in known:
            return Definitions(sets={texts[0]: _elements(tokens[3:-1])})
        listed = any(text in ("…", ",", ";", "|") for text in texts)
        if texts[2] in _OPENERS and listed and texts[0] in known:
            return _columns(tokens[0], tokens[2:], known)
    if words and words <= {"columns", "column"}:
        return _said(tokens, known, rows=False)
    if words and words <= {"rows", "row"}:
        return _said(tokens, known, rows=True)
    return None


def _elements(tokens: Sequence[Token]) -> tuple[str, ...]:
    for token in tokens:
        if token.kind not in ("name", "number") and token.text != ",":
            raise Unreadable("expected the elements of a set with commas between", token.start, token.end)
    return tuple(token.text for token in tokens if token.text != ",")


def _columns(name: Token, tokens: Sequence[Token], known: AbstractSet[str]) -> Definitions:
    """Read a matrix by its columns, [a_1, ..., a_m], or by its rows, [a_1^T; ...; a_m^T]."""
    last = next((place for place, token in enumerate(tokens) if token.text in _CLOSERS), len(tokens) - 1)
    inner, behind = tokens[1:last], tokens[last + 1 :]
    rows = _is_transposed(inner) != _is_transposed(behind)
    whole = [token.text for token in inner if token.kind in ("name", "number", "low") and token.text != "T"]
    own = name.text.lower()
    ends = whole[:2] == [own, "1"] and whole[-2:-1] == [own] and not whole[-1].isdecimal()
    if not ends or set(whole[::2]) != {own} or any(token.text not in _BETWEEN for token in _marks(tokens[1:last])):
        raise _other(name, tokens[-1])
    return _meant(name, own, known, rows=rows)


def _said(tokens: Sequence[Token], known: AbstractSet[str], *, rows: bool) -> Definitions | None:
    """Read A has columns a_i, the a_i are the columns of A."""
    names = [token for place, token in enumerate(tokens) if token.kind == "name" and not is_index(tokens, place)]
    capitals = [token for token in names if token.text.isupper() and token.text not in ("T", "I")]
    own = {token.text for token in names if token.text not in ("T", "I")} - {one.text for one in capitals}
    if len(capitals) != 1 or own != {capitals[0].text.lower()} or any(one.text not in _BETWEEN for one in _marks(tokens)):
        return None
    return _meant(capitals[0], own.pop(), known, rows=rows)


def _meant(name: Token, own: str, known: AbstractSet[str], *, rows: bool) -> Definitions:
    """Return what a matrix of the sheet is, by its own columns or, turned, by its rows."""
    if name.text not in known or own not in known:
        raise _other(name, name)
    found = Symbol(name.start, name.end, name.text)
    return Definitions({name.text: Transposed(name.start, name.end, found)} if rows else {})


def _other(first: Token, last: Token) -> Unreadable:
    return Unreadable(f"{first.text} stands for what the sheet says; this is not understood", first.start, last.end)


def _is_transposed(tokens: Sequence[Token]) -> bool:
    return any(token.text in ("⊤", "'") or (token.text == "T" and token.kind == "name") for token in tokens)


def _marks(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in tokens if token.kind == "mark"]
