"""A folder of hand-ins: marked by several processes and kept one file each, so that a stopped run goes on where it was."""

import csv
import hashlib
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

from headwise.check.answers import answers
from headwise.check.feedback import page
from headwise.check.handins import KINDS
from headwise.check.marks import Marks
from headwise.check.sheet import load
from headwise.check.unreadable import as_text
from headwise.errors import FileError, HeadwiseError, OptionError
from headwise.files import replacing
from headwise.shown import Shown, Summary, as_json, number
from headwise.version import __version__

# A cell of the gradebook must open in any spreadsheet.
_LONGEST_NOTE = 2000
# File names have at most 255 bytes.
_LONGEST_NAME = 200
# A hand-in, the folder for what is found, and the sheet.
_Job: TypeAlias = tuple[Path, Path, str]


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
    for count, _ in enumerate(_marked(jobs, processes), 1):
        if progress is not None:
            progress(done + count, len(paths), "hand-ins")
    rows = [kept for path in paths if (kept := _kept(path, goal, str(sheet))) is not None]
    with replacing(goal / "gradebook.csv") as stream:
        stream.write(_csv([row["row"] for row in rows]).encode())
    ignored = [as_text(path.name) + "/" * path.is_dir() for path in files if path not in paths]
    return Gradebook([row["row"] for row in rows], goal / "gradebook.csv", done, ignored)


def _marked(jobs: Sequence[_Job], processes: int) -> Iterator[None]:
    """Mark hand-ins, and yield when each is done. When a process dies, those that were under way are marked alone.

    What ends its process alone as well could not be marked, and is kept as such.
    """
    waiting = list(reversed(jobs))
    while waiting:
        suspects: list[_Job] = []
        yield from _side_by_side(waiting, processes, suspects)
        for path, goal, sheet in suspects:
            again: list[_Job] = []
            yield from _side_by_side([(path, goal, sheet)], 1, again)
            for _ in again:
                _check_processes()
                _keep_failed(path, goal, sheet, "could not be marked (the process that marked it ended)")
                yield


def _check_processes() -> None:
    """Say so if no process can be started at all, which is nobody's hand-in."""
    try:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(os.getpid).result()
    except BrokenProcessPool:
        step = 'In a script, call it under if __name__ == "__main__":.'
        raise OptionError("folder", "processes must be able to start, but they end at once", step) from None


def _side_by_side(waiting: list[_Job], processes: int, suspects: list[_Job]) -> Iterator[None]:
    """Mark hand-ins until none is waiting, or a process dies; `suspects` are then those that were under way."""
    count = min(processes, len(waiting))
    running: dict[Future[None], _Job] = {}
    with ProcessPoolExecutor(count, get_context("spawn"), _end_with, (os.getpid(),)) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < count:
                    running[pool.submit(_mark, *waiting[-1])] = waiting[-1]
                    waiting.pop()
                for task in wait(running, return_when=FIRST_COMPLETED).done:
                    task.result()
                    del running[task]
                    yield
        except BrokenProcessPool:
            suspects += running.values()


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
    try:
        raw = path.read_bytes()
    except OSError:  # told in its marks
        raw = b"\0"
    return hashlib.sha256(b"\0".join([raw, known, __version__.encode()])).hexdigest()


def _name(path: Path) -> str:
    """Return the name that a hand-in is kept under: its own, if it leaves room for an ending."""
    raw = os.fsencode(path.name)
    return path.name if len(raw) <= _LONGEST_NAME else hashlib.sha256(raw).hexdigest()


def _kept(path: Path, goal: Path, sheet: str) -> dict[str, Any] | None:
    """Return what an earlier run found, if nothing has changed since and its page is there."""
    if not (goal / "feedback" / f"{_name(path)}.html").is_file():
        return None
    try:
        found = json.loads((goal / "marks" / f"{_name(path)}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if found.get("stamp") == _stamp(path, sheet) else None


def _mark(path: Path, goal: Path, sheet: str) -> None:
    """Mark one hand-in and keep it; whatever is in it, there is a row for it."""
    try:
        marks = answers(path, sheet=sheet)
        said = {part: verdict.status for part, verdict in marks.verdicts.items()}
        _keep(
            path, goal, sheet, marks, "; ".join(marks.notes), {part: said.get(part, "missing") for part in marks.sheet.problems}
        )
    except Exception as error:  # noqa: BLE001  one bad hand-in must not stop the others
        note = error.problem if isinstance(error, HeadwiseError) else f"could not be marked ({type(error).__name__})"
        _keep_failed(path, goal, sheet, note)


def _keep_failed(path: Path, goal: Path, sheet: str, note: str) -> None:
    """Keep why a hand-in has no marks."""
    problems = load(sheet)
    marks = Marks(path.name, problems, {}, [as_text(note)])
    _keep(path, goal, sheet, marks, as_text(note), dict.fromkeys(problems.problems, ""), problem=as_text(note))


def _keep(path: Path, goal: Path, sheet: str, marks: Marks, note: str, said: dict[str, str], **more: str) -> None:
    """Write the page and the marks of a hand-in; the file with the stamp comes last."""
    name = as_text(path.name)
    row = {"name": name, "points": marks.points, "note": note[:_LONGEST_NOTE], **said}
    with replacing(goal / "feedback" / f"{_name(path)}.html") as stream:
        stream.write(page(replace(marks, name=name)).encode())
    with replacing(goal / "marks" / f"{_name(path)}.json") as stream:
        stream.write(as_json({"stamp": _stamp(path, sheet), "row": row, **marks.to_dict(), **more}).encode())


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    page_ = io.StringIO()
    writer = csv.DictWriter(page_, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    # A cell that a spreadsheet would take for a formula is made text.
    writer.writerows(
        [{key: f"'{cell}" if str(cell)[:1] in tuple("=+-@\t\r") else cell for key, cell in row.items()} for row in rows]
    )
    return page_.getvalue()
