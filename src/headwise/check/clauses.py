"""Tokens into clauses: at commas, full stops, new lines, brackets that only say something, words that begin a thought."""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile

from headwise.check.phrases import CONSEQUENCES, FILLERS, LARGE, LEADS, REASONS, SMALL, VERBS
from headwise.check.tokens import Token

_OPENERS, _CLOSERS = ("(", "[", "{", "⟨"), (")", "]", "}", "⟩")
_SIZES = LARGE | SMALL | {"negative", "positive", "close", "near", "zero", "constant", "number"}
# What stands behind one of these is a part of a formula.
_BINARY = ("+", "-", "*", "/", "^", "=", "·", "⊙", "⊗", "∈")
_ENDS = (",", ";", ".", ":", "¶")
RELATIONS = ("≫", "≪", ">", "<", "≥", "≤", "→", "≠", "∈", "∉")


@dataclass(frozen=True)
class Clause:
    """Tokens that belong together, and the words that lead to them."""

    tokens: tuple[Token, ...]
    leads: frozenset[str] = frozenset()
    # Whether a reason began before it, in the same sentence; and which sentence that is.
    within: bool = False
    sentence: int = 0

    @property
    def words(self) -> list[str]:
        """The words in it, in small letters."""
        return [token.text.lower() for token in self.tokens if token.kind == "word"]

    @property
    def is_reason(self) -> bool:
        """Whether it is a reason, and no answer of its own."""
        return self.within or bool(self.leads & (REASONS - CONSEQUENCES))

    @property
    def follows(self) -> bool:
        """Whether it is a consequence, or a reason."""
        return self.is_reason or bool(self.leads & CONSEQUENCES)

    def has(self, *marks: str) -> bool:
        """Say whether a mark stands in it, outside of all brackets."""
        return any(token.kind == "mark" and token.text in marks for token in outside(self.tokens))


def outside(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens that stand in no bracket."""
    depth = 0
    for token in tokens:
        depth -= token.kind == "mark" and token.text in _CLOSERS
        if depth <= 0:
            yield token
        depth += token.kind == "mark" and token.text in _OPENERS


def clauses(tokens: Sequence[Token], known: AbstractSet[str]) -> list[Clause]:
    """Cut tokens into clauses."""
    found: list[Clause] = []
    inside: list[Token] = []
    leads: set[str] = set()
    depth, within, sentence = 0, False, 0

    def close() -> None:
        nonlocal inside, leads
        if inside:
            found.append(Clause(tuple(inside), frozenset(leads), within, sentence))
            leads = set()
        inside = []

    opened = _opened(tokens)
    for place, token in enumerate(opened):
        depth += (token.kind == "mark") * ((token.text in _OPENERS) - (token.text in _CLOSERS))
        word = token.text.lower() if token.kind == "word" else ""
        if depth <= 0 and word in LEADS | REASONS and _leads(word, inside, opened[place + 1 : place + 2]):
            close()
            within |= bool(found) and bool(found[-1].leads & REASONS) and found[-1].tokens[-1] is opened[place - 1]
            leads.add(word)
        elif depth <= 0 and word in VERBS and _is_talk(inside, opened[place + 1 :]):
            close()
            leads.add(word)
        elif token.kind == "end" or (depth <= 0 and token.kind == "mark" and token.text in _ENDS and not _dot_t(opened, place)):
            close()
            leads, within = leads if token.text == "," else set(), False
            sentence += token.text in (".", "¶")
        else:
            inside.append(token)
    close()
    return _merged(found, known)


def _leads(word: str, before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Say whether a word begins a clause: not in t is not large, close to."""
    if word == "not":
        return not after or after[0].kind != "word"
    if word == "with":  # the matrix with columns a_i
        return not before or before[-1].text != "matrix"
    return word != "to" or not before or before[-1].kind != "word"


def _is_talk(before: Sequence[Token], after: Sequence[Token]) -> bool:
    """Say whether a verb speaks of the formula before it, and not of the size of a scale: A A^T is the projection."""
    formula = list(dropwhile(lambda token: token.text.lower() in FILLERS and token.kind == "word", before))
    if not formula or is_name(formula) or any(token.kind == "word" for token in formula):
        return False
    rest = list(takewhile(lambda token: token.kind != "end" and token.text not in (*_ENDS, *LEADS), after))
    sizes = any(token.text.lower() in _SIZES for token in rest if token.kind == "word")
    words = [token.kind == "word" for token in rest[:2]]
    spoken = words[:1] == [True] or (words == [False, True] and rest[0].text == "a")  # is right, is a query
    return spoken and not sizes and not any(token.text in RELATIONS for token in rest)


def _dot_t(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a full stop is that of A.T."""
    return tokens[place].text == "." and place + 1 < len(tokens) and tokens[place + 1].text == "T"


def _merged(found: list[Clause], known: AbstractSet[str]) -> list[Clause]:
    """Join what a comma took apart: t, s large; i ≠ a, b; a_1, ..., a_m."""
    merged: list[Clause] = []
    for clause in found:
        last = merged[-1] if merged else None
        listed = last is not None and is_name(last.tokens) and last.tokens[0].text not in known
        speaks = clause.has(*RELATIONS) or bool(set(clause.words) & (LARGE | SMALL)) or is_name(clause.tokens)
        goes_on = last is not None and last.has("≠", "∉") and is_name(clause.tokens)
        goes_on |= last is not None and "…" in (last.tokens[-1].text, clause.tokens[0].text)
        if last is not None and ((listed and speaks and clause.tokens[0].kind == "name") or goes_on):
            comma = Token("mark", ",", clause.tokens[0].start, clause.tokens[0].start)
            merged[-1] = replace(last, tokens=(*last.tokens, comma, *clause.tokens))
        else:
            merged.append(clause)
    return merged


def is_name(tokens: Sequence[Token]) -> bool:
    """Say whether tokens are one name, with or without an index, or several with commas."""
    rest = [token for token in tokens if token.text not in ("{", "}")]
    kinds = "".join({"name": "x", "low": "l"}.get(one.kind, one.text if one.text in "_," else "1") for one in rest)
    return re.fullmatch(r"x(_[x1]|l)?(,x(_[x1]|l)?)*", kinds) is not None


def is_index(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a token is the index of the one before it."""
    before = [token.text for token in tokens[max(0, place - 2) : place]]
    return before[-1:] == ["_"] or before == ["_", "{"]


def _opened(tokens: Sequence[Token]) -> list[Token]:
    """Turn a bracket that says something, (beta large), (i ≠ j), into a clause of its own."""
    found = list(tokens)
    for first, token in enumerate(found):
        if token.text != "(" or token.kind != "mark" or _attached(found, first):
            continue
        last = _closing(found, first)
        inner = found[first + 1 : last]
        said = [one for one in outside(inner) if one.kind == "word" or (one.kind == "mark" and one.text in RELATIONS)]
        listed = first == 0 and any(one.text == "," for one in outside(inner))  # (t mu_a, t mu_b)
        operand = first > 0 and found[first - 1].kind == "mark" and found[first - 1].text in _BINARY
        if last > first and (said or listed) and not operand:
            for place in (first, last):
                found[place] = Token("mark", ";", found[place].start, found[place].end)
    return found


def restatements(tokens: Sequence[Token]) -> list[Token]:
    """Turn a bracket behind a number, as in 0.08 (8%), into a clause of its own."""
    found = list(tokens)
    for first, token in enumerate(found[1:], 1):
        before = found[first - 1]
        if token.text != "(" or not (before.kind == "number" or before.text in (")", "}", "%")) or before.end == token.start:
            continue
        last = _closing(found, first)
        after = found[last + 1]
        if last > first and (after.kind == "end" or after.text in _ENDS):
            for place in (first, last):
                found[place] = Token("mark", ";", found[place].start, found[place].end)
    return found


def _attached(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a bracket stands right behind a letter, as in P(X < 0)."""
    return place > 0 and tokens[place - 1].kind in ("name", "word") and tokens[place - 1].end == tokens[place].start


def _closing(tokens: Sequence[Token], first: int) -> int:
    depth = 0
    for place in range(first, len(tokens)):
        depth += (tokens[place].kind == "mark") * ((tokens[place].text in _OPENERS) - (tokens[place].text in _CLOSERS))
        if depth == 0:
            return place
    return first
