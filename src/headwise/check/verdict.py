"""What is said of an answer: right, right with a remark, wrong, or that it cannot be read; and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwise.shown import Shown, Summary, number, plain

STATUSES = ("right", "remark", "wrong", "unreadable")
# Longer arrays are for programs.
_MOST = 16
_WORDS = {"right": "right", "remark": "right, with a remark", "wrong": "wrong", "unreadable": "cannot be read"}


@dataclass(frozen=True)
class Counterexample:
    """An instance on which an answer fails: what it is in words and numbers, and the Python lines that show it."""

    sentence: str
    data: Mapping[str, Any]
    code: str

    def numbers(self) -> list[tuple[str, str]]:
        """Return the small ones of its numbers for a table: seed, n, scales, weights, output, target."""
        found: list[tuple[str, str]] = []
        if "seed" not in self.data:
            return found
        for name in ("seed", "n", "alpha", "scales", "weights", "output", "target"):
            part = self.data.get(name)
            if isinstance(part, Mapping):
                found.append((name, ", ".join(f"{key} = {number(one)}" for key, one in part.items())))
            elif part is not None and np.size(part) <= _MOST:
                found.append((name, " ".join(number(one) for one in np.ravel(part))))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, which the lab can open."""
        return {"kind": "setting", "sentence": self.sentence, "code": self.code, **self.data}


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """The verdict on one answer.

    Attributes
    ----------
    status
        "right", "remark" (right with a remark), "wrong" or "unreadable".
    remarks
        What should be said besides.
    problem
        Why it is wrong or cannot be read, in a sentence.
    misconception, help
        The name of a known mistake that explains it, and a sentence of help; empty if none does.
    scale_for_one_percent
        For answers with a scale: how large it must be for an error of 1% on the first instance, with ten keys unless the
        sheet says otherwise.
    errors
        Pairs (scale, error) over the ladder, on the first instance.
    counterexample
        An instance on which the answer fails.
    """

    part: str
    text: str
    status: str
    remarks: Sequence[str] = ()
    problem: str = ""
    misconception: str = ""
    help: str = ""
    scale_for_one_percent: float | None = None
    errors: Sequence[tuple[float, float]] = field(default=())
    counterexample: Counterexample | None = None

    @property
    def correct(self) -> bool:
        """Whether it counts as right."""
        return self.status in ("right", "remark")

    @property
    def said(self) -> str:
        """The status in words."""
        return _WORDS[self.status]

    def summary(self) -> Summary:
        """Describe the verdict."""
        rows = [[kind, text] for kind, text in self.lines() if text]
        code = self.counterexample.code if self.counterexample else ""
        notes = ["", "Python lines that show it:", *code.splitlines()] if code else []
        return Summary(f"{self.part}: {self.said}", ["", ""], rows, notes)

    def lines(self) -> list[tuple[str, str]]:
        """Return what there is to say, kind by kind."""
        one = None if self.scale_for_one_percent is None else f"a scale of {number(self.scale_for_one_percent)}"
        example = self.counterexample
        return [
            ("why", self.problem),
            *(("remark", remark) for remark in self.remarks),
            ("mistake", self.misconception),
            ("help", self.help),
            ("error of 1% at", one or ""),
            ("counterexample", example.sentence if example and example.sentence != self.problem else ""),
            *(example.numbers() if example else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        seen = self.counterexample.data if self.counterexample else {}
        return plain(
            {
                # Keys and values lie on top as well, where every reader of arrays looks for them.
                **{name: seen[name] for name in ("keys", "values") if name in seen},
                "kind": "verdict",
                "part": self.part,
                "text": self.text,
                "status": self.status,
                "correct": self.correct,
                "problem": self.problem,
                "remarks": list(self.remarks),
                "misconception": self.misconception,
                "help": self.help,
                "scale_for_one_percent": self.scale_for_one_percent,
                "errors": [list(pair) for pair in self.errors],
                "counterexample": None if self.counterexample is None else self.counterexample.to_dict(),
            }
        )

    def __repr__(self) -> str:
        """Return one line; `print` shows more."""
        return f"<Verdict on {self.part}: {self.said}{f' ({self.misconception})' if self.misconception else ''}>"
