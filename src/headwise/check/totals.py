"""Sums and maxima over an index: sum_{i in S}, sum_{i=1}^n, sum_{i != a, b}, sum_i, a_1 a_1^T + ... + a_m a_m^T."""

from typing import TYPE_CHECKING

from headwise.check.tree import Node, Symbol, Total, rewritten, same, symbols
from headwise.check.unreadable import Unreadable

if TYPE_CHECKING:
    from headwise.check.expressions import Expressions

_CLOSERS = {"(": ")", "{": "}"}


def total(reader: "Expressions") -> Node:
    """Read a sum or a maximum over an index."""
    token = reader.take()
    reader.deeper()
    index, over, without = _under(reader)
    if reader.at("^"):
        reader.take()
        over = reader.index()
    body = reader.product()
    reader.depth -= 1
    if index is None:  # sum a_i a_i^T
        used = {one.index for one in symbols(body) if one.index is not None}
        if len(used) != 1:
            raise Unreadable(f"say what this {token.text} runs over, as in {token.text}_i", token.start, token.end)
        index = used.pop()
    return Total(token.start, body.end, index, over, tuple(without), body, token.text)


def _under(reader: "Expressions") -> tuple[str | None, str | None, list[str]]:
    """Read what stands under the sign: the index, the set, the elements left out."""
    if reader.next.kind == "low":
        return reader.take().text, None, []
    if not reader.at("_"):
        return None, None, []
    reader.take()
    braces = reader.at("{", "(") and reader.take()
    if reader.next.kind != "name":
        raise reader.wrong("expected the index of the sum")
    index, over, without = reader.take().text, None, []  # type: str, str | None, list[str]
    if reader.at("∈") and braces:
        reader.take()
        over = _set(reader)
    elif reader.at("≠", "∉") and braces:
        reader.take()
        without = _elements(reader)
    elif reader.at("=") and braces:
        reader.take()
        if reader.take().text != "1":
            raise reader.wrong("expected that the sum begins at 1")
        over = _last(reader)
    if braces:
        reader.expect(_CLOSERS[braces.text])
    return index, over, without


def _last(reader: "Expressions") -> str | None:
    """Read the end of i = 1..m or i = 1, ..., m, if it is there."""
    if not reader.at("…", ","):
        return None
    while reader.at("…", ","):
        reader.take()
    return reader.index()


def _set(reader: "Expressions") -> str:
    if not reader.at("{"):
        return reader.index()
    reader.take()
    elements = _elements(reader)
    reader.expect("}")
    return "{" + ",".join(elements) + "}"


def _elements(reader: "Expressions") -> list[str]:
    """Read names with commas between them, perhaps in braces."""
    braces = reader.at("{", "(") and reader.take()
    found = [reader.index()]
    while reader.at(","):
        reader.take()
        found.append(reader.index())
    if braces:
        reader.expect(_CLOSERS[braces.text])
    return found


def with_dots(reader: "Expressions", terms: list[Node]) -> Node:
    """Read the rest of a_1 a_1^T + ... + a_m a_m^T; the terms before the dots must count from 1."""
    dots = reader.take()
    reader.expect("+")
    last = reader.product()
    ends = {one.index for one in symbols(last)} - {one.index for one in symbols(terms[0])}
    end = ends.pop() if len(ends) == 1 else None
    fits = all(same(_at(terms[0], "1", str(place)), term) for place, term in enumerate(terms, 1))
    if end is None or not fits or not same(_at(terms[0], "1", end), last):
        raise Unreadable("it is not clear what the dots stand for; write a sum, such as \\sum_i a_i", dots.start, dots.end)
    return Total(terms[0].start, last.end, "i", end, (), _at(terms[0], "1", "i"))


def _at(node: Node, old: str, new: str) -> Node:
    def change(part: Node) -> Node:
        return Symbol(part.start, part.end, part.name, new) if isinstance(part, Symbol) and part.index == old else part

    return rewritten(node, change)
