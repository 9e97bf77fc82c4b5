"""Run the parts and keep them as one result, which writes itself as a page, as data and as a notebook."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headwise.arrays import Given
from headwise.core.blas import one_blas_thread
from headwise.errors import FileError, OptionError
from headwise.files import replacing
from headwise.shown import Shown, Summary, as_json
from headwise.study import beyond, part_a, part_b, part_c, part_d, part_e
from headwise.study.part import FAILS, HOLDS, NOT_HERE, Part
from headwise.study.setting import Setting, checked
from headwise.study.worked import TITLE
from headwise.version import __version__

PARTS: Mapping[str, Callable[[Setting], Part]] = {
    "a.i": part_a.distribution,
    "a.ii": part_a.margin,
    "a.iii": part_a.output,
    "a.iv": part_a.who,
    "b.i": part_b.extraction,
    "b.ii": part_b.average_of_two,
    "c.i": part_c.tiny_noise,
    "c.ii": part_c.length_noise,
    "d.i": part_d.copies,
    "d.ii": part_d.two_heads,
    "e.i": part_e.plain,
    "e.ii": part_e.matrices,
    "beyond.i": beyond.side_by_side,
    "beyond.ii": beyond.robust_queries,
    "beyond.iii": beyond.transformers,
}


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """What the study found, part by part."""

    setting: Setting
    parts: Sequence[Part]

    @property
    def holds(self) -> bool:
        """Whether no claim fails; at some settings a claim does not apply, and its part says why."""
        return not any(part.verdict == FAILS for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Return every part as plain data, with the numbers of its picture."""
        return {
            "kind": "study",
            "version": __version__,
            "setting": self.setting.to_dict(),
            "holds": self.holds,
            "parts": [part.to_dict() for part in self.parts],
        }

    def summary(self) -> Summary:
        """Describe each part by one row."""
        rows = [[part.name, part.title, part.headline.shown, part.headline.within, part.verdict] for part in self.parts]
        notes = [f"{part.name}: {part.why}" for part in self.parts if part.verdict == NOT_HERE]
        return Summary("The attention exercise", ["part", "claim", "found", "error", ""], rows, notes)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        counts = Counter(part.verdict for part in self.parts)
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (FAILS, NOT_HERE) if counts[verdict])
        return f"<Study of {len(self.parts)} parts: {'all hold' if counts[HOLDS] == len(self.parts) else said}>"

    def write(self, folder: str | Path, *, notebook: bool = False) -> list[Path]:
        """Write `study.json`, and `study.html` where matplotlib and the rest of ``headwise[study]`` are installed.

        The files take the place of old ones together, when all are whole; what an earlier run wrote and this one does not is
        removed.

        Parameters
        ----------
        folder
            Made if it is not there.
        notebook
            Write `study.ipynb` as well, which runs from top to bottom.

        Returns
        -------
        list
            The files.
        """
        from headwise.study import report  # noqa: PLC0415

        pages = {"study.json": as_json(self.to_dict())}
        if notebook:
            from headwise.study.notebook import written  # noqa: PLC0415

            pages["study.ipynb"] = written(self)
        if not report.missing():
            pages["study.html"] = report.page(self)
        place = made(folder)
        with ExitStack() as files:
            # The last opened takes its place first, so the page comes last.
            for name, text in reversed(pages.items()):
                files.enter_context(replacing(place / name)).write(text.encode())
            for name in {"study.ipynb", "study.html"} - pages.keys():
                if (old := place / name).is_file() and TITLE in old.read_text(encoding="utf-8", errors="replace"):
                    old.unlink()
        return [place / name for name in pages]


def made(folder: str | Path) -> Path:
    """Make a folder, or say why it cannot be one that files are written to."""
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError("", f"{place}: the report needs a folder, but this is a file") from None
    except OSError as error:
        raise FileError("", f"{place}: the folder must be one that can be made, but it says: {error.strerror}") from None
    if not os.access(place, os.W_OK):
        raise FileError("", f"{place}: the folder must be writable, but it is not")
    return place


def run(
    *,
    keys: int | Given = 10,
    width: int | Given = 16,
    scale: float | Given = 10.0,
    length_variance: float | Given = 0.5,
    seed: int | Given = 0,
    parts: Sequence[str] | None = None,
    progress: Callable[[int, int, str], object] | None = None,
) -> Study:
    """Work through the attention exercise: every claim computed, with its error.

    Parameters
    ----------
    keys, width
        How many keys there are, and how wide; at least 3 keys, and room for them at right angles.
    scale
        The factor beta of the queries in the parts on noise.
    length_variance
        Variance of the length of key a.
    parts
        Names such as "a.ii", or "c" for all of c; everything unless given.
    progress
        Called with the parts done, the parts to do and the name of the next one.

    Examples
    --------
    >>> study = run(parts=["b.ii", "d"])
    >>> [(part.name, part.verdict) for part in study.parts]
    [('b.ii', 'holds'), ('d.i', 'holds'), ('d.ii', 'holds')]
    >>> round(study.parts[0].headline.value, 4)
    0.2023
    """
    setting = checked(keys, width, scale, length_variance, seed)
    names = chosen(parts)
    done = []
    with one_blas_thread():
        for place, name in enumerate(names):
            if progress is not None:
                progress(place, len(names), f"part {name}")
            done.append(PARTS[name](setting))
    return Study(setting, done)


def chosen(given: Sequence[str] | None) -> list[str]:
    """Return the parts named, in the order of the exercise."""
    if given is None:
        return list(PARTS)
    wanted = set()
    for name in [given] if isinstance(given, str) else given:
        plain = str(name).lower()
        found = [part for part in PARTS if part == plain or part.startswith(f"{plain}.")]
        if not found:
            close = get_close_matches(plain, [*PARTS, "beyond"], n=1, cutoff=0.3)
            step = f"Did you mean {close[0]}?" if close else ""
            raise OptionError("run", f"parts must be among {', '.join(PARTS)}, but got {name!r}", step)
        wanted.update(found)
    if not wanted:
        raise OptionError("run", "parts must name at least one part, but it names none")
    return [part for part in PARTS if part in wanted]
