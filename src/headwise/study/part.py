"""What a part of the study says: a claim, what was computed, numbers with their errors, a verdict, and how to repeat it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.shown import at_most, number
from headwise.study.pictures import Picture
from headwise.study.setting import Setting

HOLDS, NOT_HERE, FAILS = "holds", "not here", "FAILS"
_SIGNS = {"=": "equal to", "<=": "at most", ">=": "at least", "<": "below", ">": "above"}


@dataclass(frozen=True)
class Finding:
    """A number, the error that it is within, and what it is held against: a formula, a bound, another computation.

    `against` may have an error of its own. Without `sign` the number is only reported. `otherwise` is for what a claim takes
    for granted and some settings do not give: it says why the claim does not apply if the number is not as it should be.

    >>> Finding("weight", 0.2023, 1e-4, "=", 0.20225).holds
    True
    """

    name: str
    value: float
    error: float
    sign: str = ""
    against: float | None = None
    against_error: float = 0.0
    otherwise: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether it is as it should be, or None if nothing was asked of it.

        Equal means within both errors; the other signs must hold whatever the errors do.
        """
        if self.against is None:
            return None
        off, room = float(self.value - self.against), float(self.error + self.against_error)
        if self.sign == "=":
            return abs(off) <= room
        if self.sign in ("<", ">"):
            return off < -room if self.sign == "<" else off > room
        return off <= room if self.sign == "<=" else off >= -room

    @property
    def verdict(self) -> str:
        """In a word or two; empty if nothing was asked of it."""
        return "" if self.holds is None else HOLDS if self.holds else NOT_HERE if self.otherwise else FAILS

    @property
    def shown(self) -> str:
        """The number for a table; what is within its error of zero is zero."""
        return "0" if abs(self.value) <= self.error else number(self.value)

    @property
    def within(self) -> str:
        """The error for a table, rounded up."""
        return at_most(self.error, 2)

    @property
    def said(self) -> str:
        """What it was held against, in words."""
        if self.against is None:
            return ""
        doubt = f" ± {at_most(self.against_error, 2)}" if self.against_error > 1e-6 * abs(self.against) else ""
        return f"{_SIGNS[self.sign]} {number(self.against)}{doubt}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        held = {"sign": self.sign, "against": self.against, "against_error": self.against_error, "holds": self.holds}
        held |= {"otherwise": self.otherwise} if self.otherwise else {}
        return {"name": self.name, "value": self.value, "error": self.error} | (held if self.against is not None else {})


@dataclass(frozen=True)
class Proof:
    """A statement with a certificate that was checked in exact arithmetic."""

    sentence: str
    checked: bool

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"sentence": self.sentence, "checked": self.checked}


@dataclass(frozen=True)
class Part:
    """One part of the exercise. Texts are Markdown with formulas between dollars; the first finding is the headline."""

    name: str
    heading: str
    title: str
    claim: str
    computed: str
    lesson: str
    findings: Sequence[Finding]
    picture: Picture
    code: str
    command: str
    proofs: Sequence[Proof] = ()

    @property
    def verdict(self) -> str:
        """In a word or two: "holds", "FAILS", or "not here" if the setting does not give what the claim takes for granted."""
        found = {one.verdict for one in self.findings}
        if FAILS in found or not all(one.checked for one in self.proofs):
            return FAILS
        return NOT_HERE if NOT_HERE in found else HOLDS

    @property
    def holds(self) -> bool:
        """Whether the claim applies, every number is as it should be and every proof was checked."""
        return self.verdict == HOLDS

    @property
    def why(self) -> str:
        """Why the claim does not apply, if so."""
        return " ".join(one.otherwise for one in self.findings if one.verdict == NOT_HERE)

    @property
    def headline(self) -> Finding:
        """The number that the table shows."""
        return self.findings[0]

    @property
    def sentence(self) -> str:
        """The verdict with its number and error."""
        return f"{self.verdict}: {self.headline.name} is {self.headline.shown} ± {self.headline.within}. {self.why}".strip()

    def _repr_svg_(self) -> str:
        """Let a notebook draw the picture."""
        from headwise.study.figures import svg  # noqa: PLC0415  loads matplotlib

        return svg(self.picture).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, the numbers of the picture too."""
        return {
            "part": self.name,
            "heading": self.heading,
            "title": self.title,
            "claim": self.claim,
            "computed": self.computed,
            "lesson": self.lesson,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "why": self.why,
            "findings": [one.to_dict() for one in self.findings],
            "proofs": [one.to_dict() for one in self.proofs],
            "picture": self.picture.to_dict(),
            "code": self.code,
            "command": self.command,
        }


@cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((Path(__file__).parent / "texts.toml").read_text(encoding="utf-8"))


def told(
    setting: Setting,
    name: str,
    facts: Mapping[str, object],
    findings: Sequence[Finding],
    picture: Picture,
    code: str,
    proofs: Sequence[Proof] = (),
) -> Part:
    """Put a part together: its texts come from texts.toml, with the facts in their places."""
    texts = {
        kind: re.sub(r"\{\{(\w+)\}\}", lambda found: str(facts[found[1]]), " ".join(text.split()))
        for kind, text in _texts()[name].items()
    }
    command = f"headwise study --parts {name}{setting.words()} --out study-{name}"
    return Part(name, **texts, findings=findings, picture=picture, code=code, command=command, proofs=proofs)
