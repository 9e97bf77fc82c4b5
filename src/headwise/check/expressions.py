"""Tokens into expressions, by precedence: sums of products of powers, with products that are only implied.

Depth is bounded, so is the length (in `tokens`); time grows with the length only.
"""

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from headwise.check.tokens import FUNCTIONS, Token
from headwise.check.totals import total, with_dots
from headwise.check.tree import (
    Addition,
    Call,
    Negative,
    Node,
    Norm,
    Number,
    Power,
    Product,
    Quotient,
    Symbol,
    Transposed,
    deepest,
)
from headwise.check.unreadable import Unreadable

_DEEPEST = 40
_MOST_DEEP = 120
_PRODUCTS = ("*", "·", "⊙", "⊗")
_CLOSERS = {"(": ")", "[": "]", "{": "}", "‖": "‖", "|": "|", "⟨": "⟩"}


def expression(tokens: Sequence[Token], known: AbstractSet[str]) -> Node:
    """Read all of some tokens as one expression."""
    reader = Expressions(tokens, known)
    found = reader.sum()
    if reader.next.kind == "end":
        return found
    if reader.next.kind == "word":
        raise reader.unknown()
    raise reader.wrong("expected an operator, a comma or the end")


class Expressions:
    """A place in some tokens, and what can be read from there on."""

    def __init__(self, tokens: Sequence[Token], known: AbstractSet[str]) -> None:
        """Begin at the first token; the last is followed by an end."""
        end = tokens[-1].end if tokens else 0
        self.tokens = [*tokens, Token("end", "", end, end + 1)] if not tokens or tokens[-1].kind != "end" else list(tokens)
        self.known = known
        self.place, self.depth, self.bars = 0, 0, []  # type: int, int, list[str]

    @property
    def next(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.place]

    def at(self, *marks: str) -> bool:
        """Say whether one of some marks comes next."""
        return self.next.kind == "mark" and self.next.text in marks

    def take(self) -> Token:
        """Return the next token and go on."""
        token = self.next
        self.place += token.kind != "end"
        return token

    def expect(self, mark: str) -> Token:
        """Return the next token, which must be a mark."""
        if not self.at(mark):
            raise self.wrong(f"expected {mark!r}")
        return self.take()

    def wrong(self, expected: str) -> Unreadable:
        """Say what was expected and what was found."""
        token = self.next
        found = "this is the end" if token.kind == "end" else f"found {token.text[:20]!r}"
        return Unreadable(f"{expected}, but {found}", token.start, token.end)

    def unknown(self) -> Unreadable:
        """Say that a word is none of the problem's names."""
        token = self.next
        names = f" ({', '.join(sorted(self.known))})" if self.known else ""
        return Unreadable(f"{token.text[:20]!r} is no name of this problem{names}", token.start, token.end)

    def deeper(self) -> None:
        """Go one level down."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable(f"brackets nest at most {_DEEPEST} deep", self.next.start, self.next.end)

    def sum(self) -> Node:
        """Read a sum, up to what is no part of it."""
        self.deeper()
        start = self.next.start
        found = self._signed_product(start)
        terms = [found]
        while self.at("+", "-"):
            sign = self._sign()
            if self.at("…"):
                found = with_dots(self, terms)
                continue
            right = self.product()
            terms.append(right)
            found = Addition(start, right.end, found, right, sign)
        self.depth -= 1
        if self.depth == 0:
            depth, bottom = deepest(found)
            if depth > _MOST_DEEP:
                raise Unreadable(f"expressions nest at most {_MOST_DEEP} deep", bottom.start, bottom.end)
        return found

    def _sign(self) -> int:
        sign = 1
        while self.at("+", "-"):
            sign *= -1 if self.take().text == "-" else 1
        return sign

    def _signed_product(self, start: int) -> Node:
        sign = self._sign()
        found = self.product()
        return found if sign > 0 else Negative(start, found.end, found)

    def product(self) -> Node:
        """Read a product."""
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
        return token.text in ("(", "[", "{", "⟨", "frac", "sum", "max", "½", *FUNCTIONS)

    def power(self) -> Node:
        """Read something with all that stands above it."""
        found = self.primary()
        while True:
            if self.at("'", "⊤"):
                found = Transposed(found.start, self.take().end, found)
            elif self.next.kind == "power":
                token = self.take()
                found = Power(found.start, token.end, found, Number(token.start, token.end, number(token)))
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
        """Read a number, a name, or something in brackets."""
        token = self.next
        if token.kind == "number":
            self.take()
            return Number(token.start, token.end, number(token))
        if token.kind == "name":
            return self._symbol()
        if token.kind == "word":
            raise self.unknown()
        if self.at("(", "[", "{", "⟨"):
            return self.bracket()
        if self.at("‖", "|"):
            return self._norm()
        if self.at("½"):
            self.take()
            return Number(token.start, token.end, 0.5)
        if self.at("frac"):
            self.take()
            above, below = self._group(), self._group()
            return Quotient(token.start, below.end, above, below)
        if self.at("sum", "max"):
            return total(self)
        if self.at(*FUNCTIONS):
            return self._call()
        raise self.wrong("expected a number, a name or a bracket")

    def bracket(self) -> Node:
        """Read what stands in brackets."""
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
            if self.index() != "2":
                raise Unreadable("only the Euclidean norm is known", stop, self.next.start)
        return Norm(opened.start, stop, body)

    def _group(self) -> Node:
        """Read the argument of a command: braces, or one sign."""
        if self.at("{", "("):
            return self.bracket()
        return self.primary()

    def _call(self) -> Node:
        token = self.take()
        self.deeper()
        root = 2.0
        if token.text == "sqrt" and self.at("["):
            self.take()
            root = number(self.take()) if self.next.kind == "number" else 0.0
            self.expect("]")
        body = self.bracket() if self.at("(", "[", "{") else self.power()
        self.depth -= 1
        name = {"ln": "log", "tr": "trace"}.get(token.text, token.text)
        if name != "sqrt":
            return Call(token.start, body.end, name, body)
        if not root:
            raise Unreadable("a root is of a number, such as \\sqrt[3]{8}", token.start, token.end)
        return Power(token.start, body.end, body, Number(token.start, token.end, 1 / root))

    def _symbol(self) -> Node:
        token = self.take()
        index = None
        if token.text == "e" and not self.at("_") and self.next.kind != "low":
            return Number(token.start, token.end, math.e)
        if token.text == "Phi" and token.text not in self.known and self.at("("):
            body = self.bracket()
            return Call(token.start, body.end, "Phi", body)
        if token.text == "P" and "P" not in self.known and self.at("(", "["):
            raise Unreadable("a probability is not worked out; write Phi(...) or its number", token.start, token.end)
        if self.at("_"):
            self.take()
            index = self.index()
        elif self.next.kind == "low" or (
            self.next.kind == "number" and self.next.start == token.end and token.text in self.known
        ):
            index = self.take().text
        return Symbol(token.start, self.tokens[self.place - 1].end, token.text, index)

    def index(self) -> str:
        """Read an index: a letter, a number, or either in braces."""
        braces = self.at("{") and self.take()
        token = self.next
        if token.kind not in ("name", "number", "word"):
            raise self.wrong("expected an index")
        self.take()
        if braces:
            self.expect("}")
        return token.text


def number(token: Token) -> float:
    """Return the value of a number."""
    value = float(token.text)
    if value > 1e15:
        raise Unreadable("numbers go up to 1e15", token.start, token.end)
    return value
