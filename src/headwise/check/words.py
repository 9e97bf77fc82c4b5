"""Answers that are words: the clauses of a text against the words that are right and those that are known mistakes."""

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headwise.check.phrases import HEDGES
from headwise.check.repairs import Mistake
from headwise.check.unreadable import Unreadable

if TYPE_CHECKING:
    from headwise.check.sheet import Problem

_LONGEST = 400
_CUTS = re.compile(r"([,;.:!?()\n]|\b(?:because|since|as|for|so|and|while|but|whereas|or)\b)")
_REASONS, _ENDS = {"because", "since", "as", "for"}, {".", "!", "?", "\n"}
# What denies, and what is denied in no: beside an answer that denies, these without a denial say the contrary.
_DENIALS = {"no", "not", "never", "cannot", "impossible", "none", "neither", "nor", "only", "without"}
_POSSIBLE = {"yes", "possible", "can", "could", "able", "possibly", "does", "would"}
# What may stand beside the word that counts.
_FILLERS = {
    "c", "is", "it", "its", "the", "a", "an", "value", "vector", "output", "answer", "approximately", "approx", "about",
    "nearly", "almost", "roughly", "only", "just", "varies", "vary", "varying", "changes", "of", "one", "head", "heads", "will",
    "be", "equal", "equals", "to", "copy", "copies", "goes", "converges", "tends", "becomes", "close", "very", "we", "get",
    "i", "that", "this", "which", "can", "would", "simply", "here", "then", "=", "≈", "~", "→",
}  # fmt: skip
_SIGNS = {"\\approx": "≈", "\\simeq": "≈", "\\sim": "≈", "\\cong": "≈", "\\to": "→", "->": "→", "\\rightarrow": "→"}


def word(problem: "Problem", text: str) -> Mistake | None:
    """Return the mistake that a word is, None if it is right; what is neither cannot be read.

    The first clause counts, what follows explains; but a clause that says something else makes two answers.
    """
    if len(text) > _LONGEST:
        raise Unreadable(f"at most {_LONGEST} characters are read, but there are {len(text)}", _LONGEST, _LONGEST + 1)
    _refuse_hedges(text)
    known: dict[str, Mistake | None] = dict.fromkeys(map(bare, problem.accept))
    for one in problem.mistakes:
        known[bare(one["value"])] = Mistake(one["name"], one["help"])
    clauses = list(_clauses(text, known))
    found = [known[said] for said, _ in clauses if said in known]
    first = next((said for said, _ in clauses if said), "")
    if first not in known:
        raise Unreadable(f"expected an answer such as {problem.accept[0]!r}", 0, max(len(text), 1))
    contrary = _denies(first) and any(_affirms(piece) for said, piece in clauses if said != first)
    if contrary or any((one is None) != (found[0] is None) for one in found):
        raise Unreadable("this gives two answers; give the one that counts", 0, max(len(text), 1))
    return found[0]


def _denies(said: str) -> bool:
    return bool(_DENIALS & set(said.split()))


def _affirms(said: str) -> bool:
    """Say whether a clause says that something is possible: we can, it is possible; but not that it can only be this."""
    return bool(_POSSIBLE & set(said.split())) and not _denies(said)


def _refuse_hedges(text: str) -> None:
    for one in re.finditer(r"[A-Za-z]+", text):
        if one[0].lower() in HEDGES:
            raise Unreadable("this is not one answer; give the one that counts", *one.span())


def _clauses(text: str, known: dict[str, Mistake | None]) -> Iterator[tuple[str, str]]:
    """Yield what each clause says but for reasons, bare and whole; yes it can says yes, never impossible nothing known."""
    reason, cut = False, "\n"
    for place, piece in enumerate(_CUTS.split(_plain(text))):
        if place % 2:
            cut = piece
            reason = cut in _REASONS or (reason and cut not in _ENDS)
            continue
        said = _bare(piece)
        if reason or not piece.strip():
            continue
        parts = said.split()
        each = [known.get(part) for part in parts]
        same = bool(parts) and all(part in known for part in parts) and len({id(one) for one in each}) == 1
        once = sum(_denies(part) for part in parts) <= 1
        yield (parts[0] if same and once else said), piece


def bare(text: str) -> str:
    """Return what a text says without what may stand beside it.

    >>> bare("the value v_j"), bare("the value")
    ('v_j', '')
    """
    return _bare(_plain(text))


def _bare(text: str) -> str:
    return " ".join(part for part in text.split() if part not in _FILLERS)


def _plain(text: str) -> str:
    """Bring different ways to write the same words together."""
    low = re.sub(r"([a-zA-Z])([ₐ-ₜ₀-₉ⱼᵢ]+)", r"\1_\2", text)
    low = unicodedata.normalize("NFKC", low).lower()
    low = re.sub(r"\\(?:mathbf|mathrm|text|boldsymbol|vec|bm)\b", "", low)
    for sign, plain in _SIGNS.items():
        low = low.replace(sign, f" {plain} ")
    low = re.sub(r"[$*`{}]", "", low)
    return " ".join(re.sub(r"([=≈~→])", r" \1 ", low).split()) if "\n" not in low else low.replace("=", " = ")
