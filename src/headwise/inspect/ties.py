"""Which heads tie one word to another: for a short text whose weights are at hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.arrays import Given
from headwise.errors import OptionError
from headwise.shown import MOST_ROWS, Shown, Summary, number

# How tokenizers mark where a word begins or goes on.
_MARKS = ("##", "Ġ", "▁")


@dataclass(frozen=True)
class Tie:
    """What one head gives a word: its weight, its rank among all keys, and the key that got most."""

    layer: int
    head: int
    weight: float
    rank: int  # 0 for the top key
    top: str


@dataclass(frozen=True, repr=False, eq=False)
class Ties(Shown):
    """Every head's tie of one word to another, heaviest first; made by `HeadReport.ties`."""

    query: str
    key: str
    heads: Sequence[Tie]

    @property
    def tops(self) -> list[Tie]:
        """The heads for which the word is the top key."""
        return [tie for tie in self.heads if tie.rank == 0]

    def sentence(self) -> str:
        """Say which heads tie the two words, or which comes nearest."""
        if self.tops:
            found = ", ".join(f"{tie.layer}.{tie.head} ({number(tie.weight)})" for tie in self.tops[:MOST_ROWS])
            count = "1 head has" if len(self.tops) == 1 else f"{len(self.tops)} heads have"
            return f'{count} "{self.key}" as top key of "{self.query}": {found}'
        near = self.heads[0]
        return (
            f'no head has "{self.key}" as top key of "{self.query}"; nearest is {near.layer}.{near.head} with weight '
            f'{number(near.weight)}, rank {near.rank + 1}, behind "{near.top}"'
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every head's tie as plain data."""
        return {
            "kind": "ties",
            "query": self.query,
            "key": self.key,
            "sentence": self.sentence(),
            "heads": [vars(tie) for tie in self.heads],
        }

    def summary(self) -> Summary:
        """Describe the heads that give the word most."""
        rows = [[f"{tie.layer}.{tie.head}", number(tie.weight), str(tie.rank + 1), tie.top] for tie in self.heads[:MOST_ROWS]]
        title = f'From "{self.query}" to "{self.key}"'
        return Summary(title, ["head", "weight", "rank", "top key"], rows, [self.sentence()])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Ties: {self.sentence()}>"


def tied(stacks: Sequence[tuple[int, np.ndarray]], words: Sequence[str], query: str | Given, key: str | Given) -> Ties:
    """Return the ties of two words, from the weights (h, n, n) of each layer; a word that comes twice is taken last."""
    row, column = (_place(words, word, name) for name, word in (("query", query), ("key", key)))
    heads = []
    for layer, weights in stacks:
        for head, table in enumerate(weights):
            line = table[row]
            rank = int((line > line[column]).sum())
            heads.append(Tie(layer, head, float(line[column]), rank, clean(words[int(line.argmax())])))
    heads.sort(key=lambda tie: (tie.rank > 0, -tie.weight))
    return Ties(clean(words[row]), clean(words[column]), heads)


def clean(word: str) -> str:
    """Return a token without the marks of its tokenizer.

    >>> clean("Ġstreet"), clean("##ing")
    ('street', 'ing')
    """
    for mark in _MARKS:
        word = word.removeprefix(mark)
    return word


def _place(words: Sequence[str], wanted: str | Given, name: str) -> int:
    if not isinstance(wanted, str):
        raise OptionError("ties", f"{name} must be a word, but it is a {type(wanted).__name__}")
    found = [place for place, word in enumerate(words) if clean(word).lower() == wanted.strip().lower()]
    if not found:
        raise OptionError("ties", f"{name} must be a token of the text, but {wanted!r} is none of its {len(words)} tokens")
    return found[-1]
