"""Text into tokens: plain text, Unicode and LaTeX come out the same. Nothing is run, and every token knows its place.

A token's `kind` is "number", "name" or "word" (letters that no problem names), "mark" (an operator, a bracket, a LaTeX command
with arguments), or "end".
"""

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headwise.check.unreadable import Unreadable

LONGEST = 4000
_MOST = 1500
# Letters that stand together are cut into names up to this many; more are no product that anybody writes.
_LONGEST_WORD = 40

GREEK = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Lambda",
    "Xi",
    "Sigma",
    "Phi",
    "Psi",
    "Omega",
]
FUNCTIONS = ("exp", "log", "ln", "sqrt", "softmax", "diag", "trace", "tr")
_SYMBOLS = {
    "·": "·", "⋅": "·", "×": "*", "∗": "*", "⊙": "⊙", "∘": "⊙", "⊗": "⊗", "−": "-", "–": "-", "÷": "/", "‖": "‖", "∥": "‖",
    "∣": "|", "⊤": "⊤", "ᵀ": "⊤", "′": "'", "’": "'", "`": "'", "√": "sqrt", "∑": "sum", "∈": "∈", "∉": "∉", "≠": "≠", "≈": "≈",
    "≃": "≈", "≅": "≈", "…": "…", "⋯": "…", "≡": "=",
    "∝": "∝", "≫": "≫", "≪": "≪", "→": "→", "∞": "∞", "≤": "≤", "≥": "≥", "⟨": "⟨", "⟩": "⟩", "½": "½",
}  # fmt: skip
_POWERS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚₛₜₓ", "0123456789aehijklmnopstx", strict=True))
_COMMANDS = {
    "cdot": "·", "times": "*", "ast": "*", "odot": "⊙", "circ": "⊙", "otimes": "⊗", "top": "⊤", "intercal": "⊤", "prime": "'",
    "lVert": "‖", "rVert": "‖", "Vert": "‖", "|": "‖", "lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "gg": "≫",
    "ll": "≪", "to": "→", "rightarrow": "→", "longrightarrow": "→", "infty": "∞", "in": "∈", "notin": "∉", "ne": "≠",
    "neq": "≠", "approx": "≈", "simeq": "≈", "sim": "≈", "cong": "≈", "asymp": "≈",
    "propto": "∝", "le": "≤", "leq": "≤", "ge": "≥",
    "geq": "≥", "dots": "…", "ldots": "…", "cdots": "…", "vdots": "…", "max": "max", "longmapsto": "→",
    "frac": "frac", "dfrac": "frac", "tfrac": "frac", "sqrt": "sqrt", "sum": "sum", "exp": "exp", "log": "log",
    "ln": "ln", "langle": "⟨", "rangle": "⟩", "{": "{", "}": "}", "%": "%", "lbrace": "{", "rbrace": "}", "Pr": "P",
}  # fmt: skip
_COMMAND_WORDS = {"forall": "for", "Rightarrow": "so", "implies": "so", "therefore": "so", "lim": "lim"}
# What says how something looks, and not what it is.
_STYLES = {
    "mathbf",
    "boldsymbol",
    "bm",
    "vec",
    "mathrm",
    "text",
    "textbf",
    "textit",
    "mathit",
    "operatorname",
    "mathsf",
    "mathcal",
    "boxed",
    "hat",
    "bar",
    "tilde",
}
_LOOKS = _STYLES | {
    "left", "right", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "mathbb", "displaystyle", "limits",
    "nolimits", "rm", "bf", ",", ";", ":", "!", " ", "(", ")", "[", "]", "it",
}  # fmt: skip
_WORDS_AS_MARKS = {
    "in": "∈",
    "sum": "sum",
    "max": "max",
    "percent": "%",
    "half": "½",
    "frac": "frac",
    "infinity": "∞",
    "infty": "∞",
    "inf": "∞",
    "oo": "∞",
}
# The first number of an interval, whose comma is no decimal comma: t in (0,1).
_INTERVAL = re.compile(r"(?<=[(\[])(?P<number>\d+)(?=,\d+[)\]])")
_PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<thousands>[1-9]\d{0,2}(?:(?:,|\{,\}|\\,|[ \u202f])\d{3})+(?:\.\d+)?(?!\d|,\d))"
    r"|(?P<number>\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<short>(?:e\.g|i\.e|s\.t|w\.r\.t)\.|(?:resp|approx)\.)"
    r"|(?P<denied>(?:is|are|was|were|does|do|did|has|have|had|ca|wo|must|need|could|would|should)n['’]t\b)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<dots>\.\.+)"
    r"|(?P<rest>.)",
    re.DOTALL,
)
# A line that ends with one of these goes on in the next, and so does one whose next begins so, unless a line is empty between.
_ENDS_OPEN = {*"+-*/=^_,;:([{&<>~≈", ""}
_GOES_ON = {*"+-*/=^_,;:)]}([&<>~≈", ""}
_TWO = {"||": "‖", ">>": "≫", "<<": "≪", "->": "→", "!=": "≠", "<=": "≤", ">=": "≥", "**": "^", ":=": "=", "~=": "≈"}


@dataclass(frozen=True)
class Token:
    """A piece of text: its kind, what it is, and where."""

    kind: str
    text: str
    start: int
    end: int


def _letters() -> dict[str, str]:
    found = {}
    for name in GREEK:
        size = "CAPITAL" if name[0].isupper() else "SMALL"
        found[unicodedata.lookup(f"GREEK {size} LETTER {'LAMDA' if name.lower() == 'lambda' else name.upper()}")] = name
    return found


_GREEK_LETTERS = _letters()
# How a Greek name is written as a letter.
LETTERS = {name: letter for letter, name in _GREEK_LETTERS.items()}
_GREEK_LETTERS |= {"µ": "mu", "ϵ": "epsilon", "ϕ": "phi"}


def tokens(text: str, known: AbstractSet[str]) -> list[Token]:
    r"""Return the tokens of a text, with an "end" behind them.

    >>> [token.text for token in tokens(r"\beta(k_a + k_b)", frozenset({"k"}))]
    ['beta', '(', 'k', '_', 'a', '+', 'k', '_', 'b', ')', '']
    >>> [token.text for token in tokens("AA^T", frozenset({"A"}))]
    ['A', 'A', '^', 'T', '']
    """
    if len(text) > LONGEST:
        raise Unreadable(f"at most {LONGEST} characters are read, but there are {len(text)}", LONGEST, LONGEST + 1)
    found = []
    for token in _raw(text):
        found += _applied(token, text, known) or _split(token, known) if token.kind == "word" else [token]
        if len(found) > _MOST:
            raise Unreadable(f"at most {_MOST} signs are read", token.start, token.end)
    return [*found, Token("end", "", len(text), len(text))]


def _raw(text: str) -> Iterator[Token]:
    place = 0
    unseen: set[int] = set()
    while place < len(text):
        if place in unseen:
            place += 1
            continue
        if text[place] == "\\":
            start = place
            token, place = _command(text, place)
            if token is not None:
                yield token
                # TeX takes one sign per argument: \frac12 is a half.
                digits = 2 if token.text == "frac" else 1 if token.text == "sqrt" else 0
                while digits and text[place : place + 1].isdigit() and text[place].isascii():
                    yield Token("number", text[place], place, place + 1)
                    place, digits = place + 1, digits - 1
            elif text[start + 1 : place] in _STYLES:
                unseen.update(_braces(text, place))
            continue
        piece = _INTERVAL.match(text, place) or _PIECE.match(text, place)
        assert piece is not None  # noqa: S101  the last alternative takes anything
        start, place = piece.span()
        kind, said = piece.lastgroup, piece[0]
        last = text[:start].rstrip()[-1:] if kind == "word" else ""
        new_line = kind == "space" and "\n" in said
        goes_on = text[place : place + 1] in _GOES_ON and said.count("\n") == 1
        if new_line and text[start - 1 : start] not in _ENDS_OPEN and text[place : place + 1] and not goes_on:
            yield Token("mark", "¶", start, place)
        if kind in ("number", "thousands"):
            if len(said) > 30:
                raise Unreadable("a number has at most 30 digits", start, place)
            bare = re.sub(r"[^\d.]", "", said) if kind == "thousands" else said.replace(",", ".")
            yield Token("number", bare, start, place)
        elif kind == "denied":  # isn't
            yield Token("word", "not", start, place)
        elif kind == "short":
            yield Token("word", said.replace(".", ""), start, place)
        elif kind == "dots":
            yield Token("mark", "…", start, place)
        elif kind == "word" and len(said) > 1 and ((last == "^" and said[0] == "T") or last == "_"):
            # TeX takes one letter: A^TA, a_ia_i.
            yield Token("name", said[0], start, start + 1)
            place = start + 1
        elif kind == "word":
            yield (
                Token("mark", _WORDS_AS_MARKS[said], start, place)
                if said in _WORDS_AS_MARKS
                else Token("word", said, start, place)
            )
        elif kind == "rest":
            token, place = _sign(text, start)
            if token is not None:
                yield token


def _braces(text: str, start: int) -> tuple[int, ...]:
    """Return where the braces of an argument stand, which only say how far a style goes."""
    while text[start : start + 1] == " ":
        start += 1
    if text[start : start + 1] != "{":
        return ()
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return start, place
    raise Unreadable("this brace is never closed", start, start + 1)


def _sign(text: str, start: int) -> tuple[Token | None, int]:
    """Read one sign that is no letter, digit or space."""
    two = text[start : start + 2]
    if two == "=>" or text[start] in "⇒∴":
        stop = start + (2 if two == "=>" else 1)
        return Token("word", "so", start, stop), stop
    if two in _TWO:
        return Token("mark", _TWO[two], start, start + 2), start + 2
    if two == "![":
        raise Unreadable("a picture is not read; write the formula", start, start + 2)
    sign, stop = text[start], start + 1
    if sign == "~" and text[start - 1 : start] == " " == text[stop : stop + 1]:
        return Token("mark", "≈", start, stop), stop
    if sign in "$~&":
        return None, stop
    if sign == "Σ":
        return Token("mark", "sum", start, stop), stop
    if sign in "@∀":
        return Token("mark", "*", start, stop) if sign == "@" else Token("word", "for", start, stop), stop
    if sign in "+-*/^_()[]{},;=<>|'%.:!":
        return Token("mark", sign, start, stop), stop
    if sign in _GREEK_LETTERS:
        return Token("name", _GREEK_LETTERS[sign], start, stop), stop
    if sign in _SYMBOLS:
        return Token("mark", _SYMBOLS[sign], start, stop), stop
    if sign in _POWERS or sign in _LOW:
        table, kind = (_POWERS, "power") if sign in _POWERS else (_LOW, "low")
        while stop < len(text) and text[stop] in table:
            stop += 1
        said = "".join(table[one] for one in text[start:stop])
        if kind == "power" and not said.removeprefix("-").isdecimal():
            raise Unreadable("a power is a whole number, such as ² or ⁻¹", start, stop)
        return Token(kind, said, start, stop), stop
    wide = unicodedata.normalize("NFKC", sign)
    if len(wide) == 1 and wide.isascii() and wide.isalpha():  # mathematical bold and italic letters
        return Token("word", wide, start, stop), stop
    name = unicodedata.name(sign, f"character {ord(sign)}").lower()
    raise Unreadable(f"this sign is not read: {name}", start, stop)


def _command(text: str, start: int) -> tuple[Token | None, int]:
    """Read a LaTeX command."""
    stop = start + 1
    while stop < len(text) and text[stop].isascii() and text[stop].isalpha():
        stop += 1
    stop = max(stop, min(start + 2, len(text)))
    name = text[start + 1 : stop]
    if name in ("begin", "end"):
        braces = _braces(text, stop)
        return None, braces[1] + 1 if braces else stop
    if name in ("quad", "qquad"):
        # Wide space stands before something new, unless something is still open.
        ends = text[:start].rstrip()[-1:]
        return (None if ends in _ENDS_OPEN else Token("mark", ";", start, stop)), stop
    if name == "\\":
        return Token("mark", ";", start, stop), stop
    if name in _COMMAND_WORDS:
        return Token("word", _COMMAND_WORDS[name], start, stop), stop
    if name in _COMMANDS:
        said = _COMMANDS[name]
        return Token("word" if said == "P" else "mark", said, start, stop), stop
    if name.removeprefix("var") in GREEK:
        return Token("name", name.removeprefix("var"), start, stop), stop
    if name in _LOOKS:
        # \left. and \right. are brackets that nobody sees.
        return None, stop + (name in ("left", "right") and text[stop : stop + 1] == ".")
    raise Unreadable(f"the command \\{name[:20]} is not known", start, stop)


def _applied(word: Token, text: str, known: AbstractSet[str]) -> list[Token]:
    """Cut Ms = v: a matrix and what it is put on; As and Is are words."""
    matrix = len(word.text) == 2 and word.text[0] in known and word.text[0] not in "AI" and word.text[0].isupper()
    if not matrix or not text[word.end : word.end + 3].lstrip().startswith("="):
        return []
    middle = word.start + 1
    return [Token("name", word.text[0], word.start, middle), Token("name", word.text[1], middle, word.end)]


def _split(word: Token, known: AbstractSet[str]) -> list[Token]:
    """Cut letters that stand together into names: as few as possible, from the left."""
    text = word.text
    if text in known or text in GREEK or text in FUNCTIONS or len(text) == 1:
        return [_named(word)]
    if len(text) > _LONGEST_WORD:
        return [word]
    cut: list[list[str] | None] = [[], *[None] * len(text)]
    for stop in range(1, len(text) + 1):
        for start in range(stop):
            before, piece = cut[start], text[start:stop]
            if before is not None and piece in known and (cut[stop] is None or len(before) + 1 < len(cut[stop] or [])):
                cut[stop] = [*before, piece]
    pieces = cut[-1]
    if pieces is None:
        return [word]
    found, place = [], word.start
    for piece in pieces:
        found.append(Token("name", piece, place, place + len(piece)))
        place += len(piece)
    return found


def _named(word: Token) -> Token:
    kind = "mark" if word.text in FUNCTIONS else "name"
    return Token(kind, word.text, word.start, word.end)
