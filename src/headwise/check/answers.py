"""Answers one by one, or a whole hand-in."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from headwise.arrays import Given
from headwise.check.handins import Handin, read_handin
from headwise.check.mark import marked
from headwise.check.marks import Marks
from headwise.check.sheet import Problem, Sheet, load, plain_name
from headwise.check.unreadable import as_text
from headwise.check.verdict import Verdict
from headwise.errors import OptionError


def answer(part: str, text: str | Given, *, sheet: str | Path | Sheet = "attention") -> Verdict:
    r"""Mark one answer.

    Parameters
    ----------
    part
        The part of the sheet, such as "b.ii".
    text
        The answer: plain text, Unicode or LaTeX.
    sheet
        "attention", a TOML file, or a sheet that was loaded.

    Examples
    --------
    >>> answer("b.ii", r"q = \beta (k_a + k_b), \beta \gg 0")
    <Verdict on b.ii: right>
    >>> answer("b.ii", "k_a + k_b")
    <Verdict on b.ii: wrong (the scale is missing)>
    """
    found = problem(part, sheet if isinstance(sheet, Sheet) else load(sheet))
    if not isinstance(text, str):
        raise OptionError("answer", f"text must be a string, but it is a {type(text).__name__}")
    return _remembered(found, as_text(text))


@lru_cache(maxsize=2048)
def _remembered(found: Problem, text: str) -> Verdict:
    """Mark an answer once; in a class, many give the same."""
    return marked(found, text)


def answers(handin: Mapping[str, str] | str | Path | Given, *, sheet: str | Path | Sheet = "attention") -> Marks:
    """Mark a whole hand-in.

    Parameters
    ----------
    handin
        Answers by part, or a .toml, .json or .md file of them. Parts that it lacks are missing; the rest is marked.
    sheet
        "attention", a TOML file, or a sheet that was loaded.

    Examples
    --------
    >>> answers({"b.i": "A A^T", "b.ii": "t (k_a + k_b), t large", "d.ii": "2.3%"})
    <Marks of hand-in: 2 of 15 points>
    """
    problems = sheet if isinstance(sheet, Sheet) else load(sheet)
    if isinstance(handin, Mapping):
        name, given = "hand-in", Handin({str(part): str(text) for part, text in handin.items()})
    elif isinstance(handin, (str, Path)):
        name, given = as_text(Path(handin).name), read_handin(Path(handin), problems)
    else:
        raise OptionError("answers", f"handin must be a file or answers by part, but it is a {type(handin).__name__}")
    verdicts = {part: answer(part, text, sheet=problems) for part, text in given.answers.items()}
    return Marks(name, problems, verdicts, given.notes)


def problem(part: str, sheet: Sheet) -> Problem:
    """Return the part of a sheet, or say which there are."""
    known = {plain_name(one): one for one in sheet.problems}
    found = part if part in sheet.problems else known.get(plain_name(str(part)), "")
    if not found:
        close = get_close_matches(str(part), list(sheet.problems), n=1, cutoff=0.3)
        step = f"Did you mean {close[0]}?" if close else ""
        raise OptionError("answer", f"part must be one of {', '.join(sheet.problems)}, but got {part!r}", step)
    return sheet.problems[found]
