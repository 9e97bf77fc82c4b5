"""The marks of a whole hand-in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.check.sheet import Sheet
from headwise.check.verdict import Verdict
from headwise.shown import Shown, Summary, number


@dataclass(frozen=True, repr=False)
class Marks(Shown):
    """Verdicts by part; parts without an answer are missing. `notes` say what else there is to say of the hand-in."""

    name: str
    sheet: Sheet
    verdicts: Mapping[str, Verdict]
    notes: Sequence[str] = ()

    @property
    def points(self) -> float:
        """What the right answers are worth."""
        return sum(self.sheet.problems[part].points for part, verdict in self.verdicts.items() if verdict.correct)

    @property
    def most(self) -> float:
        """What all parts are worth."""
        return sum(problem.points for problem in self.sheet.problems.values())

    def summary(self) -> Summary:
        """Describe every part by a row."""
        rows = []
        for part in self.sheet.problems:
            verdict = self.verdicts.get(part)
            if verdict is None:
                rows.append([part, "missing", ""])
                continue
            notes = [verdict.misconception, *verdict.remarks] if verdict.correct or verdict.misconception else [verdict.problem]
            rows.append([part, verdict.said, "; ".join(note.splitlines()[0] for note in notes if note)])
        total = f"{number(self.points)} of {number(self.most)} points"
        return Summary(f"{self.name}: {total}", ["part", "verdict", ""], rows, self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "kind": "marks",
            "name": self.name,
            "sheet": self.sheet.name,
            "points": self.points,
            "most": self.most,
            "notes": list(self.notes),
            "verdicts": {part: verdict.to_dict() for part, verdict in self.verdicts.items()},
        }

    def to_gradescope(self) -> dict[str, Any]:
        """Return what Gradescope reads from an autograder, its `results.json`."""
        tests = []
        for part, problem in self.sheet.problems.items():
            verdict = self.verdicts.get(part)
            correct = verdict is not None and verdict.correct
            said = (
                "missing"
                if verdict is None
                else "\n".join([verdict.said, *(f"{kind}: {text}" for kind, text in verdict.lines() if text)])
            )
            tests.append(
                {
                    "name": f"{part}: {problem.title}",
                    "score": problem.points if correct else 0.0,
                    "max_score": problem.points,
                    "status": "passed" if correct else "failed",
                    "output": said,
                }
            )
        above = {"output": "\n".join(self.notes)} if self.notes else {}
        return {"score": self.points, "visibility": "visible", **above, "tests": tests}

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Marks of {self.name}: {number(self.points)} of {number(self.most)} points>"
