"""Tokens into trees, by precedence: sums of products of powers, with products that are only implied.

Depth is bounded, so is the length (in `tokens`); time grows with the length only.
"""

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headwise.check.tokens import FUNCTIONS, Token, tokens
from headwise.check.tree import (
    Addition,
    Call,
    Condition,
    Negative,
    Node,
    Norm,
    Number,
    Power,
    Product,
    Quotient,
    Relation,
    Symbol,
    Total,
    Transposed,
)
from headwise.check.unreadable import Unreadable

_DEEPEST = 40
_RELATIONS = ("=", "≈", "≫", "≪", ">", "<", "≥", "≤")
_PRODUCTS = ("*", "·", "⊙", "⊗")
_CLOSERS = {"(": ")", "[": "]", "{": "}", "‖": "‖", "|": "|", "⟨": "⟩"}
_LARGE = {
    "large",
    "big",
    "huge",
    "high",
    "long",
    "grows",
    "grow",
    "increases",
    "infinite",
    "infinity",
    "sufficiently",
    "arbitrarily",
}
_SMALL = {"small", "tiny", "little", "vanishing"}
_LEADS = {
    "because",
    "since",
    "about",
    "approximately",
    "roughly",
    "is",
    "then",
    "so",
    "where",
    "with",
    "for",
    "as",
    "when",
    "and",
    "if",
    "let",
    "assuming",
    "given",
    "such",
    "provided",
    "take",
    "choose",
}


@dataclass(frozen=True)
class Item:
    """One thing that was given: its name if it has one, and the expression or relation."""

    name: str | None
    body: Node | Relation


@dataclass(frozen=True)
class Written:
    """Everything that was read: what is given, and what is said of scales."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...]


def read(text: str, known: AbstractSet[str], *, relations: bool = False) -> Written:
    """Read an answer; with `relations`, a relation is an answer and not a condition.

    >>> found = read("q = t (k_a + k_b), t >> 0", frozenset({"k", "q"}))
    >>> [item.name for item in found.items], [(one.scale, one.size) for one in found.conditions]
    (['q'], [('t', 'large')])
    """
    return _Reader(text, known, relations=relations).written()


class _Reader:
    def __init__(self, text: str, known: AbstractSet[str], *, relations: bool) -> None:
        self.tokens, self.known, self.relations = _opened(tokens(text, known)), known, relations
        self.place, self.depth, self.bars = 0, 0, []  # type: int, int, list[str]

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def at(self, *marks: str) -> bool:
        return self.next.kind == "mark" and self.next.text in marks

    def take(self) -> Token:
        token = self.next
        self.place += token.kind != "end"
        return token

    def expect(self, mark: str) -> Token:
        if not self.at(mark):
            raise self.wrong(f"expected {mark!r}")
        return self.take()

    def wrong(self, expected: str) -> Unreadable:
        token = self.next
        found = "this is the end" if token.kind == "end" else f"found {token.text[:20]!r}"
        return Unreadable(f"{expected}, but {found}", token.start, token.end)

    def written(self) -> Written:
        items: list[Item] = []
        conditions: list[Condition] = []
        while self.next.kind != "end":
            if self.at(",", ";", ".", ":") or (self.next.kind == "word" and self.next.text.lower() in _LEADS):
                self.take()
            elif self._is_condition() if items else self._speaks_of_size():
                conditions += self._condition()
            elif (not items and self.at("=", "≈")) or self.at("∈"):
                self.take()
            else:
                items.append(self._item())
        if not items:
            raise self.wrong("expected an expression")
        return Written(tuple(items), tuple(conditions))

    def _item(self) -> Item:
        left = self.sum()
        if self.at(*_RELATIONS, *(["→"] if isinstance(left, Symbol) else [])):
            sign = self.take().text
            right = self.sum()
            if sign in ("=", "≈", "→") and isinstance(left, Symbol) and not self.relations:
                while self.at("=", "≈", "→"):  # q = this = that: the last is the answer
                    self.take()
                    right = self.sum()
                self._check_stop()
                return Item(left.said, right)
            self._check_stop()
            return Item(None, Relation(left.start, right.end, left, right, sign))
        self._check_stop()
        return Item(None, left)

    def _check_stop(self) -> None:
        token = self.next
        if token.kind == "end" or self.at(",", ";", ".", ":", "∈") or (token.kind == "word" and token.text.lower() in _LEADS):
            return
        if token.kind == "word":
            raise Unreadable(
                f"{token.text[:20]!r} is no name of this problem ({', '.join(sorted(self.known))})", token.start, token.end
            )
        raise self.wrong("expected an operator, a comma or the end")

    def _is_condition(self) -> bool:
        """Look ahead: say whether a clause speaks of a scale, rather than giving another thing."""
        words, relation, names = False, "", 0
        for place, token in enumerate(self.tokens[self.place :], self.place):
            lone = names == 1 and not relation and place == self.place + 1  # t, s large
            if token.kind == "end" or (token.kind == "mark" and (token.text == ";" or (token.text == "," and not lone))):
                break
            words |= token.kind == "word"
            names += token.kind == "name"
            if token.kind == "mark" and token.text in (*_RELATIONS, "→", "∈", "≠", "∉") and not relation:
                relation = token.text
        said = relation in ("≫", "≪", ">", "<", "→", "≥", "≤") and not self.relations
        return words or said or relation in ("∈", "≠", "∉")

    def _speaks_of_size(self) -> bool:
        """Look ahead: say whether the clause at the beginning only says that something is large or small."""
        for token in self.tokens[self.place :]:
            if token.kind == "end" or (token.kind == "mark" and token.text in (",", ";", "=", "≈")):
                return False
            if token.kind == "word" and token.text.lower() in _LARGE | _SMALL:
                return True
        return False

    def _condition(self) -> list[Condition]:
        """Read a clause about a scale; whatever else it says is let go."""
        start, scale, size = self.next.start, None, None
        previous: Token | None = None
        more: list[str] = []
        turned = False
        while self.next.kind != "end" and not self.at(";"):
            if self.at(",") and (size or previous is None or previous.kind != "name"):
                break
            token = self.take()
            if token.kind == "name" and scale is None:
                scale = token.text
            elif token.kind == "name" and size is None:
                more.append(token.text)
            word = token.text.lower() if token.kind == "word" else ""
            if word in _LARGE | _SMALL and size != "negative":
                size = "large" if word in _LARGE else "small"
            turned |= word in ("not", "no") or token.text == "≠"
            if word in ("negative", "minus") or (token.text == "∞" and previous is not None and previous.text == "-"):
                size = "negative"
            elif token.kind == "mark" and token.text in ("≫", "≪", ">", "<", "→", "∞", "≥"):
                size = self._size(token.text, previous, size)
            previous = token
        size = None if turned else size
        return [Condition(start, self.tokens[self.place - 1].end, name, size) for name in (scale, *more)]

    def _size(self, sign: str, previous: Token | None, size: str | None) -> str | None:
        """Say what a sign between a scale and a number says of the scale."""
        turned = previous is not None and previous.kind == "number"
        number = float(self.next.text) if self.next.kind == "number" else None
        if sign == "→":
            return "small" if number == 0 else "large" if not self.at("-") else "negative"
        if sign == "∞":
            return size or "large"
        if sign in ("≫", "≪"):
            down = (sign == "≪") != turned
            return "negative" if down and number == 0 else "small" if down else "large"
        if sign == "<" and not turned and number is not None:
            return "negative" if number <= 0 else "small"
        return "large" if number is not None and number >= 5 and sign in (">", "≥") else size

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable(f"brackets nest at most {_DEEPEST} deep", self.next.start, self.next.end)

    def sum(self) -> Node:
        self.deeper()
        start = self.next.start
        sign = 1
        while self.at("+", "-"):
            sign *= -1 if self.take().text == "-" else 1
        found = self.product()
        if sign < 0:
            found = Negative(start, found.end, found)
        while self.at("+", "-"):
            sign = 1
            while self.at("+", "-"):
                sign *= -1 if self.take().text == "-" else 1
            right = self.product()
            found = Addition(start, right.end, found, right, sign)
        self.depth -= 1
        return found

    def product(self) -> Node:
        found = self.power()
        while True:
            how = " "
            if self.at(*_PRODUCTS):
                how = self.take().text
            elif self.at("/"):
                self.take()
                right = self._signed()
                found = Quotient(found.start, right.end, found, right)
                continue
            elif not self._begins():
                return found
            right = self._signed() if how != " " else self.power()
            found = Product(found.start, right.end, found, right, how)

    def _signed(self) -> Node:
        """Read a factor that may have a minus, as in 2 * -3."""
        if not self.at("-"):
            return self.power()
        self.deeper()
        start = self.take().start
        body = self._signed()
        self.depth -= 1
        return Negative(start, body.end, body)

    def _begins(self) -> bool:
        """Say whether a factor begins here."""
        token = self.next
        if token.kind in ("number", "name"):
            return True
        if token.kind != "mark":
            return False
        if token.text in ("‖", "|"):
            return token.text not in self.bars
        return token.text in ("(", "[", "{", "⟨", "frac", "sum", "½", *FUNCTIONS)

    def power(self) -> Node:
        found = self.primary()
        while True:
            if self.at("'", "⊤"):
                found = Transposed(found.start, self.take().end, found)
            elif self.next.kind == "power":
                token = self.take()
                found = Power(found.start, token.end, found, Number(token.start, token.end, _number(token)))
            elif self.at("%"):
                stop = self.take().end
                found = Quotient(found.start, stop, found, Number(stop, stop, 100.0))
            elif self.at("^"):
                self.take()
                found = self._raised(found)
            elif self.at(".") and self.tokens[self.place + 1].text == "T":
                self.take()
                found = Transposed(found.start, self.take().end, found)
            else:
                return found

    def _raised(self, base: Node) -> Node:
        """Read what stands behind ^: a transpose or an exponent."""
        braces = self.at("{") and self.take()
        if self.at("⊤", "'") or (self.next.kind == "name" and self.next.text == "T"):
            stop = self.take().end
            found: Node = Transposed(base.start, stop, base)
        else:
            self.deeper()
            exponent = self.sum() if braces else self._signed_primary()
            self.depth -= 1
            found = Power(base.start, exponent.end, base, exponent)
        if braces:
            self.expect("}")
        return found

    def _signed_primary(self) -> Node:
        if not self.at("-", "+"):
            return self.primary()
        sign = self.take()
        body = self.primary()
        return Negative(sign.start, body.end, body) if sign.text == "-" else body

    def primary(self) -> Node:
        token = self.next
        if token.kind == "number":
            self.take()
            return Number(token.start, token.end, _number(token))
        if token.kind == "name":
            return self._symbol()
        if token.kind == "word":
            raise Unreadable(
                f"{token.text[:20]!r} is no name of this problem ({', '.join(sorted(self.known))})", token.start, token.end
            )
        if self.at("(", "[", "{", "⟨"):
            return self._bracket()
        if self.at("‖", "|"):
            return self._norm()
        if self.at("½"):
            self.take()
            return Number(token.start, token.end, 0.5)
        if self.at("frac"):
            self.take()
            above, below = self._group(), self._group()
            return Quotient(token.start, below.end, above, below)
        if self.at("sum"):
            return self._total()
        if self.at(*FUNCTIONS):
            return self._call()
        raise self.wrong("expected a number, a name or a bracket")

    def _bracket(self) -> Node:
        opened = self.take()
        bars, self.bars = self.bars, []
        found = self.sum()
        if opened.text == "⟨" and self.at(",", "|"):
            self.take()
            right = self.sum()
            found = Product(found.start, right.end, found, right, "·")
        self.bars = bars
        self.expect(_CLOSERS[opened.text])
        return found

    def _norm(self) -> Node:
        opened = self.take()
        self.bars.append(opened.text)
        body = self.sum()
        self.bars.pop()
        stop = self.expect(opened.text).end
        if self.at("_"):  # the 2 of a Euclidean norm
            self.take()
            if self._index() != "2":
                raise Unreadable("only the Euclidean norm is known", stop, self.next.start)
        return Norm(opened.start, stop, body)

    def _group(self) -> Node:
        """Read the argument of a command: braces, or one sign."""
        if self.at("{", "("):
            return self._bracket()
        return self.primary()

    def _call(self) -> Node:
        token = self.take()
        self.deeper()
        body = self._bracket() if self.at("(", "[", "{") else self.power()
        self.depth -= 1
        name = {"ln": "log", "tr": "trace"}.get(token.text, token.text)
        if name == "sqrt":
            return Power(token.start, body.end, body, Number(token.start, token.end, 0.5))
        return Call(token.start, body.end, name, body)

    def _symbol(self) -> Node:
        token = self.take()
        index = None
        if token.text == "e" and "e" not in self.known and not self.at("_"):
            return Number(token.start, token.end, math.e)
        if token.text in ("Phi", "P") and token.text not in self.known and self.at("("):
            body = self._bracket()
            return Call(token.start, body.end, "Phi", body)
        if self.at("_"):
            self.take()
            index = self._index()
        elif self.next.kind == "low" or (
            self.next.kind == "number" and self.next.start == token.end and token.text in self.known
        ):
            index = self.take().text
        return Symbol(token.start, self.tokens[self.place - 1].end, token.text, index)

    def _index(self) -> str:
        """Read an index: a letter, a number, or either in braces."""
        braces = self.at("{") and self.take()
        token = self.next
        if token.kind not in ("name", "number", "word"):
            raise self.wrong("expected an index")
        self.take()
        if braces:
            self.expect("}")
        return token.text

    def _total(self) -> Node:
        """Read a sum over an index: sum_{i in S}, sum_{i=1}^n, sum_{i != a, b}, sum_i."""
        token = self.take()
        self.deeper()
        self.expect("_")
        braces = self.at("{") and self.take()
        if self.next.kind != "name":
            raise self.wrong("expected the index of the sum")
        index, over, without = self.take().text, None, []  # type: str, str | None, list[str]
        if self.at("∈") and braces:
            self.take()
            over, without = self._set(without)
        elif self.at("≠", "∉") and braces:
            self.take()
            without = self._elements()
        elif self.at("=") and braces:
            self.take()
            if self.take().text != "1":
                raise self.wrong("expected that the sum begins at 1")
        if braces:
            self.expect("}")
        if self.at("^"):
            self.take()
            over = self._index()
        body = self.product()
        self.depth -= 1
        return Total(token.start, body.end, index, over, tuple(without), body)

    def _set(self, without: list[str]) -> tuple[str | None, list[str]]:
        if self.at("{"):
            self.take()
            elements = self._elements()
            self.expect("}")
            return "{" + ",".join(elements) + "}", without
        return self._index(), without

    def _elements(self) -> list[str]:
        """Read names with commas between them, perhaps in braces."""
        braces = self.at("{", "(") and self.take()
        found = [self._index()]
        while self.at(","):
            self.take()
            found.append(self._index())
        if braces:
            self.expect(_CLOSERS[braces.text])
        return found


def _opened(found: list[Token]) -> list[Token]:
    """Turn a bracket that speaks of a scale, (beta large), into a clause of its own."""
    for first, token in enumerate(found):
        if token.text != "(":
            continue
        rest = [place for place in range(first, len(found)) if found[place].text in ("(", ")")]
        last = rest[1] if len(rest) > 1 and found[rest[1]].text == ")" else first
        if any(one.kind == "word" and one.text.lower() in _LARGE | _SMALL for one in found[first:last]):
            for place in (first, last):
                found[place] = Token("mark", ",", found[place].start, found[place].end)
    return found


def _number(token: Token) -> float:
    value = float(token.text)
    if value > 1e15:
        raise Unreadable("numbers go up to 1e15", token.start, token.end)
    return value
