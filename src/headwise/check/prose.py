"""Words around an answer: which can be let go, and which may change it. What is not known to be harmless cannot be read."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from headwise.check.clauses import Clause, is_index
from headwise.check.phrases import CONSEQUENCES, FILLERS, LARGE, LEADS, NEGATIONS, SMALL
from headwise.check.tokens import Token
from headwise.check.unreadable import Unreadable

# What words begin with that take an answer back or change it, wherever they stand but in a reason; whole words.
_CHANGES = (
    "swap", "exchang", "interchang", "switch", "replac", "substitut", "divid", "multipl", "normalis", "normaliz", "rescal",
    "scaled", "transpos", "invert", "revers", "negat", "flip", "subtract", "wrong", "false", "incorrect", "invalid", "mistak",
    "doubl", "halv", "squar", "twice", "opposit", "ignor", "disregard", "delet", "remov", "omit", "except", "exclud", "conjug",
    "pseudo", "rotat", "perturb", "shift", "truncat", "permut", "reorder", "untru",
)  # fmt: skip
_CHANGE = {"sign", "signs", "without", "inverse", "add", "crossed", "struck", "correct"}
_UNCHANGED = {"negative", "multiple", "multiples", "multiplicative"}
_VERDICTS = {
    "right", "correct", "true", "answer", "solution", "enough", "sufficient", "work", "works", "hold", "holds", "sure",
    "certain", "valid", "it", "so",
}  # fmt: skip
# What a name can be said to be: with another name beside these, it is given another meaning.
_KINDS = {
    "matrix", "matrices", "column", "columns", "row", "rows", "vector", "vectors", "basis", "key", "keys", "value", "values",
    "query", "queries", "mean", "means", "token", "tokens", "set", "subspace", "place", "entries", "diagonal",
}  # fmt: skip
_MEANINGS = {"where", "with", "if", "let", "given", "such", "assuming", "when", "while", "for", "as", "in"}
_VERBS = {"is", "are", "has", "have", "be", "denotes", "denote", "means", "contains", "consists", "stands", "holds"}
_HARMLESS = {
    "get", "gets", "getting", "equal", "equals", "equally", "same", "score", "scores", "weights", "keys", "attention",
    "softmax", "outputs", "context", "others", "everything", "nothing", "rest", "remaining", "zero", "vanish", "vanishes",
    "span", "spans", "spanned", "subspace", "space", "plane", "image", "range", "project", "projects", "projector",
    "projecting", "orthogonal", "orthonormal", "perpendicular", "right", "angles", "angle", "unit", "identity", "preserve",
    "preserves", "keeps", "keep", "kills", "kill", "annihilates", "maps", "map", "sends", "takes", "taken", "leaves", "leave",
    "into", "out", "up", "down", "dominate", "dominates", "converge", "converges", "tends", "tend", "limit", "sense",
    "saturates", "hard", "max", "maximum", "highest", "exponentially", "much", "more", "than", "far", "noise", "mean", "means",
    "mixture", "combination", "convex", "linear", "token", "tokens", "position", "positions", "length", "lengths",
    "distribution", "gaussian", "normal", "law", "variable", "random", "needed", "expected", "above", "below", "see", "there",
    "final", "result", "its", "these", "those", "they", "them", "what", "still", "even", "well", "good", "fine", "ok",
    "obviously", "clearly", "indeed", "note", "recall", "know", "known", "definition", "over", "under", "between", "per",
    "might", "will", "do", "does", "make", "makes", "given", "yields", "yield", "shown", "found", "hold", "holds", "work",
    "works", "suffice", "suffices", "satisfied", "satisfies", "exactly", "precisely", "many", "few", "several", "three",
    "copy", "copies", "look", "looks", "read", "reads", "attend", "attends", "case", "part", "question", "problem",
    "exercise", "similarly", "likewise", "analogously", "denote", "denotes", "called", "suppose", "assume", "free", "own",
    "along", "inside", "outside", "about", "approximately", "nearly", "close", "near", "to", "a", "vary", "varies",
    "jump", "jumps", "jumping", "settle", "settles", "never", "matter", "matters", "needs", "need", "required", "infinitely",
    "tiny", "when", "whenever", "unchanged", "desired", "negative", "number", "constants", "as", "top", "beside", "against",
    "coordinates", "components", "component", "their", "his", "her", "fix", "fixed", "was", "were", "want", "wanted", "says",
    "average", "midpoint", "lecture", "lectures", "notes", "class", "slides", "script", "paper", "book", "itself", "themselves",
    "correct", "how", "why", "end", "ends", "both", "two", "first", "second", "one", "other", "different", "sum", "sums",
}  # fmt: skip
# The column space and the span of the columns are A itself; columns alone may be some of them.
_COLUMNS, _SPANS = {"column", "columns"}, {"span", "spans", "spanned", "space", "orthonormal", "orthogonal"}
_PLAIN = FILLERS | LARGE | SMALL | LEADS | CONSEQUENCES | _HARMLESS


def refuse_changes(clause: Clause, known: AbstractSet[str], *, beside: bool, heard: bool, number: bool) -> None:
    """Refuse words that may change an answer, or that are not understood beside one.

    Parameters
    ----------
    beside
        Whether an answer stands before it in the same sentence.
    heard
        Whether something was understood of it, such as the size of a scale.
    number
        Whether the answer is a number, which has no parts that words could change.
    """
    if clause.is_reason:
        return
    words = [token for token in clause.tokens if token.kind == "word"]
    said = {token.text.lower() for token in words}
    for token in words:
        word = token.text.lower()
        approves = word == "correct" and "is" in said | clause.leads
        if word not in _UNCHANGED and not approves and (word.startswith(_CHANGES) or word in _CHANGE):
            raise _unread(token)
    if clause.leads & CONSEQUENCES:
        return
    denied = next((token for token in words if token.text.lower() in NEGATIONS), None)
    if denied is not None and not heard and (beside or said & _VERDICTS):
        raise _unread(denied)
    names = [token for token in clause.tokens if token.kind == "name"]
    every = clause.leads == {"for"} and len(names) == 1 and said & {"all", "every", "each", "any"}  # for all other keys i
    defines = not every and (bool(clause.leads & _MEANINGS) or _is_said_of_a_name(clause.tokens))
    if names and defines and not heard and not number:
        _refuse_meanings(words, clause.tokens, known)
    if not (beside or defines or heard) or (number and not beside):
        return
    plain = _PLAIN | NEGATIONS | (_COLUMNS if said & _SPANS else set())
    for token in words:
        if token.text.lower() not in plain:
            raise _unread(token)


def _refuse_meanings(words: Sequence[Token], tokens: Sequence[Token], known: AbstractSet[str]) -> None:
    """Refuse what gives a name of the sheet, or a letter that is no number, another meaning."""
    kind = next((token for token in words if token.text.lower() in _KINDS), None)
    meant = {token.text for place, token in enumerate(tokens) if token.kind == "name" and not is_index(tokens, place)}
    if kind is not None and (len(meant) > 1 or meant - known):
        raise Unreadable("names stand for what the sheet says; this is not understood", tokens[0].start, tokens[-1].end)


def _is_said_of_a_name(tokens: Sequence[Token]) -> bool:
    """Say whether a clause begins with a name and goes on with is or has."""
    rest = list(tokens)
    while rest and rest[0].kind == "word" and rest[0].text.lower() in FILLERS - _VERBS:
        rest.pop(0)
    if not rest or rest[0].kind != "name":
        return False
    verb = next((token for token in rest if token.kind == "word"), None)
    return verb is not None and verb.text.lower() in _VERBS and not any(token.text in ("^", "⊤", "+") for token in rest[:4])


def _unread(token: Token) -> Unreadable:
    return Unreadable(f"{token.text[:20]!r} may change the answer; say it as a formula or leave it out", token.start, token.end)
