"""The words of answers: what they say of a scale, what introduces an answer or a reason, and what takes an answer back."""

from collections.abc import Sequence
from itertools import islice

from headwise.check.tokens import FUNCTIONS, Token
from headwise.check.unreadable import Unreadable

LARGE = {
    "large", "big", "huge", "high", "long", "grows", "grow", "growing", "increases", "infinite", "infinity", "sufficiently",
    "arbitrarily",
}  # fmt: skip
SMALL = {"small", "tiny", "little", "vanishing"}
NEGATIONS = {"not", "no", "never", "cannot", "neither", "nor", "hardly", "barely", "scarcely", "without", "nowhere", "none"}
# A new clause begins with these; what follows is said of the answer.
LEADS = {
    "where", "with", "for", "as", "when", "such", "if", "let", "assuming", "given", "provided", "and", "eg", "ie", "namely",
    "while", "or", "in", "respectively", "resp", "but",
}  # fmt: skip
# Likewise, and what follows is a reason or a consequence.
CONSEQUENCES = {"so", "then", "thus", "hence", "therefore", "which", "giving", "gives"}
REASONS = {"because", "since", "not", "to"} | CONSEQUENCES
# An answer that is not sure, or that is taken back.
HEDGES = {
    "maybe", "perhaps", "possibly", "probably", "either", "alternatively", "otherwise", "else", "actually", "instead",
    "wait", "sorry", "correction", "unsure", "unless", "rather",
}  # fmt: skip
_OTHERWISE = {"otherwise", "else", "either", "instead", "rather"}
# What stands before an answer, or beside a scale, and changes neither.
FILLERS = {
    "we", "can", "could", "should", "must", "may", "take", "choose", "pick", "set", "use", "put", "consider", "the", "an",
    "query", "queries", "matrix", "matrices", "vector", "vectors", "key", "value", "values", "weight", "output", "variance",
    "probability", "answer", "answers", "solution", "choice", "option", "my", "our", "here", "example", "is", "are",
    "be", "been", "being", "it", "very", "enough", "some", "any", "all", "every", "each", "real", "positive", "nonnegative",
    "constant", "constants", "scalar", "scalars", "number", "numbers", "factor", "factors", "scale", "scales", "scaling",
    "of", "that", "this", "in", "limit", "chosen", "finite", "inverse", "temperature", "parameter", "parameters", "on",
    "arbitrary", "fixed", "by", "has", "have", "basis", "whose", "made", "from", "only", "just", "think", "believe",
    "projection", "onto", "product", "simply", "also", "i", "a", "would", "at", "design", "desired", "required", "optimal",
    "head", "heads", "works", "work", "do",
}  # fmt: skip
# Likewise before a noun, as in the first query; before a formula they change it.
COUNTS = {"one", "two", "first", "second", "both", "other", "others", "different"}
# What a formula must say, for words around it are let go.
OPERATIONS = {
    "inverse", "pseudoinverse", "average", "averages", "averaged", "mean", "mixture", "midpoint", "halfway", "transpose",
    "transposed", "negated", "opposite", "half", "twice", "scaled", "rescaled", "multiplied", "divided", "squared", "multiple",
    "multiples", "column", "columns", "row", "rows", "diagonal", "entries", "direction",
}  # fmt: skip
# What begins to speak of a formula that stands before it.
VERBS = {"is", "are", "has", "have", "works", "work", "projects", "maps", "takes", "keeps", "does"}
# What may stand behind an answer.
APPROVAL = {"works", "suffices", "holds", "does"}
# Words that say what a sign says; the longest are tried first.
_SIGNS = {
    ("much", "larger", "than"): "≫",
    ("much", "greater", "than"): "≫",
    ("much", "bigger", "than"): "≫",
    ("far", "larger", "than"): "≫",
    ("far", "greater", "than"): "≫",
    ("far", "above"): "≫",
    ("much", "smaller", "than"): "≪",
    ("much", "less", "than"): "≪",
    ("far", "below"): "≪",
    ("larger", "than"): ">",
    ("greater", "than"): ">",
    ("bigger", "than"): ">",
    ("more", "than"): ">",
    ("exceeds",): ">",
    ("above",): ">",
    ("less", "than"): "<",
    ("smaller", "than"): "<",
    ("lower", "than"): "<",
    ("below",): "<",
    ("at", "most"): "≤",
    ("no", "more", "than"): "≤",
    ("at", "least"): "≥",
    ("no", "less", "than"): "≥",
    ("goes", "to"): "→",
    ("going", "to"): "→",
    ("go", "to"): "→",
    ("tends", "to"): "→",
    ("tending", "to"): "→",
    ("approaches",): "→",
    ("approaching",): "→",
    ("equals",): "=",
    ("equal", "to"): "=",
    ("is", "equal", "to"): "=",
    ("plus",): "+",
    ("minus",): "-",
    ("times",): "*",
    ("to", "the", "power"): "^",
    ("to", "the", "power", "of"): "^",
}
_ABOUT = {"about", "approximately", "approx", "roughly", "nearly", "almost", "around", "circa"}
_STOPS = (",", ";", ".", ":", "¶")
_BEFORE = {"is", "are", "that", "was", "be"}


def as_signs(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens with signs for the words that say the same.

    >>> from headwise.check.tokens import tokens
    >>> [token.text for token in as_signs(tokens("t is much larger than 1", frozenset()))]
    ['t', '≫', '1', '']
    """
    tokens = _without_limits(tokens)
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        word = _word(token)
        count, sign = _sign_at(tokens, place)
        if count:
            while found and _word(found[-1]) in _BEFORE and sign not in ("+", "-", "*", "^"):
                found.pop()
            found.append(Token("mark", sign, token.start, tokens[place + count - 1].end))
            place += count
            continue
        if word == "between":
            inside = _between(tokens, place)
            if inside:
                while found and _word(found[-1]) in _BEFORE:
                    found.pop()
                found += inside
                place += len(inside) - 1  # the bracket at the end has no word of its own
                continue
        following = tokens[place + 1] if place + 1 < len(tokens) else token
        if word == "of" and found and found[-1].text == "½":
            token = Token("mark", "*", token.start, token.end)
        elif word == "is" and _stands_for_equals(tokens, place):
            token = Token("mark", "=", token.start, token.end)
        elif _is_talk(token, following):
            token = Token("word", token.text, token.start, token.end)
        elif token.text == "∈" and following.kind == "word" and _word(following) in FILLERS:
            token = Token("word", "in", token.start, token.end)
        if word not in _ABOUT and not (word == "one" and following.text == "½"):
            found.append(token)
        place += 1
    return _angled(found)


def _is_talk(token: Token, following: Token) -> bool:
    """Say whether a function is only spoken of: softmax then puts all weight there."""
    alone = following.kind in ("word", "end") or following.text in _STOPS
    return token.kind == "mark" and token.text in FUNCTIONS and alone


def _without_limits(tokens: Sequence[Token]) -> Sequence[Token]:
    """Move what stands under a limit to the end: lim_{t -> infinity} t k_a says t k_a, and that t goes to infinity."""
    first = next((place for place, token in enumerate(tokens) if _word(token) == "lim"), None)
    if first is None or [token.text for token in tokens[first + 1 : first + 3]] != ["_", "{"]:
        return tokens
    last = next((place for place in range(first, len(tokens)) if tokens[place].text == "}"), None)
    if last is None:
        return tokens
    end = tokens[-1]
    cut = Token("mark", ";", end.start, end.end)
    return [*tokens[:first], *tokens[last + 1 : -1], cut, *tokens[first + 3 : last], end]


def _word(token: Token) -> str:
    return token.text.lower() if token.kind == "word" else ""


def _sign_at(tokens: Sequence[Token], place: int) -> tuple[int, str]:
    for count in (4, 3, 2, 1):
        words = tuple(_word(token) for token in tokens[place : place + count])
        if words in _SIGNS:
            return count, _SIGNS[words]
    return 0, ""


def _between(tokens: Sequence[Token], place: int) -> list[Token]:
    """Return t ∈ (0, 1) for t between 0 and 1."""
    last = next((i for i in range(place, min(place + 12, len(tokens))) if _word(tokens[i]) == "and"), None)
    if last is None or last + 1 >= len(tokens) or tokens[last + 1].kind != "number":
        return []
    start, end = tokens[place], tokens[last + 1]
    comma = Token("mark", ",", tokens[last].start, tokens[last].end)
    opened, closed = Token("mark", "(", start.start, start.end), Token("mark", ")", end.end, end.end)
    return [Token("mark", "∈", start.start, start.end), opened, *tokens[place + 1 : last], comma, end, closed]


def _stands_for_equals(tokens: Sequence[Token], place: int) -> bool:
    """Say whether "is" stands before an expression: q is t(k_a + k_b), but not t is large, t is a number."""
    ahead = (tokens[later] for later in range(place + 1, len(tokens)))
    rest = list(islice((token for token in ahead if _word(token) not in _ABOUT), 2))
    if not rest or rest[0].kind == "word" or rest[0].kind == "end":
        return False
    return not (rest[0].text in ("a", "A") and len(rest) > 1 and rest[1].kind == "word")


def _angled(tokens: list[Token]) -> list[Token]:
    """Turn < and > that stand for brackets, as in <k_j, q>, into brackets."""
    opened = None
    for place, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        before = tokens[place - 1] if place else None
        operand = before is not None and (
            before.kind not in ("mark", "word") or before.text in (")", "]", "}", "⊤", "'", "∞", "%")
        )
        if token.text == "<" and not operand:
            opened = place
        elif token.text == ">" and opened is not None:
            for where, sign in ((opened, "⟨"), (place, "⟩")):
                tokens[where] = Token("mark", sign, tokens[where].start, tokens[where].end)
            opened = None
    return tokens


def refuse_hedges(tokens: Sequence[Token], *, sure: bool = False) -> None:
    """Refuse an answer that is not sure of itself; a reason may speak of everything else."""
    for token in tokens:
        if _word(token) in (HEDGES - _OTHERWISE if sure else HEDGES):
            raise Unreadable("this is not one answer; give the one that counts", token.start, token.end)
