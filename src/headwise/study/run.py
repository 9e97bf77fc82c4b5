"""Run the parts that exist, draw the picture, and keep both as one result."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwise.shown import Shown, Summary, number
from headwise.study.parts import Part, parts

_TO_COME = "to come: b.i, c and d (noisy keys, one head against two), e.ii (key, query and value matrices)"


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """What the study found, part by part, and where its pictures lie."""

    parts: Sequence[Part]
    pictures: Sequence[Path]

    def to_dict(self) -> dict[str, Any]:
        """Return every part as plain data."""
        return {
            "kind": "study",
            "parts": [{**asdict(part), "holds": part.holds} for part in self.parts],
            "pictures": [str(path) for path in self.pictures],
        }

    def summary(self) -> Summary:
        """Describe each part by one row."""
        rows = [
            [
                part.name,
                part.claim,
                number(part.found),
                number(part.tolerance if part.holds else abs(part.found - part.expected)),
                "holds" if part.holds else "FAILS",
            ]
            for part in self.parts
        ]
        return Summary("The attention exercise", ["part", "claim", "found", "formula within", ""], rows, [_TO_COME])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Study of {len(self.parts)} parts>"


def run(*, out: str | Path | None = None) -> Study:
    """Work through the exercise.

    Parameters
    ----------
    out
        Folder for the picture, made if it is not there; None draws nothing. Without matplotlib nothing is drawn.

    Examples
    --------
    >>> study = run()
    >>> all(part.holds for part in study.parts)
    True
    """
    pictures = []
    if out is not None and find_spec("matplotlib"):
        from headwise.study.figures import averaging  # noqa: PLC0415  loads matplotlib

        pictures.append(averaging(Path(out)))
    return Study(list(parts()), pictures)
