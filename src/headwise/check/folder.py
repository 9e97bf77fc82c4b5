"""A folder of hand-ins: marked by several processes and kept one file each, so that a stopped run goes on where it was."""

import csv
import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from headwise.check.answers import answers
from headwise.check.feedback import page
from headwise.check.handins import KINDS
from headwise.check.marks import Marks
from headwise.check.sheet import load
from headwise.errors import FileError, HeadwiseError
from headwise.files import replacing
from headwise.shown import Shown, Summary, as_json, number
from headwise.version import __version__


@dataclass(frozen=True, repr=False)
class Gradebook(Shown):
    """What was marked: a row per hand-in."""

    rows: Sequence[dict[str, Any]]
    place: Path
    again: int
    ignored: Sequence[str] = ()

    def summary(self) -> Summary:
        """Describe every hand-in by a row."""
        rows = [[row["name"], number(row["points"]), row["note"]] for row in self.rows]
        notes = [f"{len(self.rows)} hand-ins, {self.again} marked before; gradebook: {self.place}"]
        if self.ignored:
            notes.append(f"not read, for they are no files that end in {', '.join(KINDS)}: {', '.join(self.ignored)}")
        return Summary("Gradebook", ["name", "points", ""], rows, notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows as plain data."""
        return {
            "kind": "gradebook",
            "gradebook": str(self.place),
            "rows": list(self.rows),
            "ignored": list(self.ignored),
        }


def folder(
    place: str | Path,
    out: str | Path,
    *,
    sheet: str | Path = "attention",
    processes: int = 2,
    progress: Callable[[int, int, str], object] | None = None,
) -> Gradebook:
    """Mark every hand-in of a folder: a gradebook, and for each a page of feedback and its verdicts as JSON.

    A hand-in that has not changed since it was marked is not marked again. In a script, call it under
    ``if __name__ == "__main__":``, for it starts processes.

    Parameters
    ----------
    place
        Folder with hand-ins (.toml, .json, .md).
    out
        Folder for ``gradebook.csv``, ``feedback/`` and ``marks/``, made if it is not there.
    progress
        Called with the hand-ins done, those to do and the name of the stage.
    """
    source, goal = Path(place), Path(out)
    if not source.is_dir():
        raise FileError("", f"{source}: hand-ins must be in a folder, but there is none")
    files = sorted(path for path in source.iterdir() if not path.name.startswith(".") and path.resolve() != goal.resolve())
    paths = [path for path in files if path.is_file() and path.suffix.lower() in KINDS]
    if not paths:
        step = "Folders in it are not looked into: put all hand-ins side by side." if any(map(Path.is_dir, files)) else ""
        raise FileError("", f"{source}: the folder must hold hand-ins ({', '.join(KINDS)}), but it holds none", step)
    load(sheet)
    for name in ("marks", "feedback"):
        (goal / name).mkdir(parents=True, exist_ok=True)
    jobs = [(path, goal, str(sheet)) for path in paths if _kept(path, goal, str(sheet)) is None]
    done = len(paths) - len(jobs)
    if jobs:
        context = get_context("spawn")
        with ProcessPoolExecutor(min(processes, len(jobs)), context, _end_with, (os.getpid(),)) as pool:
            for count, task in enumerate(as_completed([pool.submit(_mark, *job) for job in jobs]), 1):
                task.result()
                if progress is not None:
                    progress(done + count, len(paths), "hand-ins")
    rows = [kept for path in paths if (kept := _kept(path, goal, str(sheet))) is not None]
    with replacing(goal / "gradebook.csv") as stream:
        stream.write(_csv([row["row"] for row in rows]).encode())
    ignored = [path.name + "/" * path.is_dir() for path in files if path not in paths]
    return Gradebook([row["row"] for row in rows], goal / "gradebook.csv", done, ignored)


def _end_with(parent: int) -> None:
    """End this process soon after the one that started it, however that ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _stamp(path: Path, sheet: str) -> str:
    """Return what changes when the hand-in, the sheet or headwise does."""
    known = Path(sheet).read_bytes() if Path(sheet).is_file() else sheet.encode()
    return hashlib.sha256(b"\0".join([path.read_bytes(), known, __version__.encode()])).hexdigest()


def _kept(path: Path, goal: Path, sheet: str) -> dict[str, Any] | None:
    """Return what an earlier run found, if nothing has changed since and its page is there."""
    if not (goal / "feedback" / f"{path.name}.html").is_file():
        return None
    try:
        found = json.loads((goal / "marks" / f"{path.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.get("stamp") == _stamp(path, sheet) else None


def _mark(path: Path, goal: Path, sheet: str) -> None:
    """Mark one hand-in and keep it; the file with the stamp comes last."""
    data: dict[str, Any]
    parts = list(load(sheet).problems)
    try:
        marks = answers(path, sheet=sheet)
    except Exception as error:  # noqa: BLE001  one bad hand-in must not stop the others
        note = error.problem if isinstance(error, HeadwiseError) else f"could not be marked ({type(error).__name__})"
        marks = Marks(path.name, load(sheet), {}, [note])
        row = {"name": path.name, "points": 0.0, "note": note, **dict.fromkeys(parts, "")}
        data = {**marks.to_dict(), "problem": note}
    else:
        said = {part: verdict.status for part, verdict in marks.verdicts.items()}
        row = {
            "name": path.name,
            "points": marks.points,
            "note": "; ".join(marks.notes),
            **{part: said.get(part, "missing") for part in parts},
        }
        data = marks.to_dict()
    with replacing(goal / "feedback" / f"{path.name}.html") as stream:
        stream.write(page(marks).encode())
    with replacing(goal / "marks" / f"{path.name}.json") as stream:
        stream.write(as_json({"stamp": _stamp(path, sheet), "row": row, **data}).encode())


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    page_ = io.StringIO()
    writer = csv.DictWriter(page_, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    # A cell that a spreadsheet would take for a formula is made text.
    writer.writerows(
        [{key: f"'{cell}" if str(cell)[:1] in tuple("=+-@\t\r") else cell for key, cell in row.items()} for row in rows]
    )
    return page_.getvalue()
