"""A class in which something breaks: one hand-in must not take the marks of the others."""

import csv
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from headwise.check import answers, folder
from headwise.cli import main
from headwise.errors import FileError

# The function of the same name hides the module.
FOLDER = sys.modules["headwise.check.folder"]


# A process that ends at a certain hand-in, as the system ends one that takes all memory.
DEADLY = """
import os, signal, sys
from pathlib import Path
from headwise.check import folder
module = sys.modules["headwise.check.folder"]
real = module._mark

def deadly(path, goal, sheet):
    if path.name == "bad.json":
        os.kill(os.getpid(), signal.SIGKILL)
    real(path, goal, sheet)

if __name__ == "__main__":
    module._mark = deadly
    print(folder(Path(sys.argv[1]), Path(sys.argv[2])).again)
"""


def rows(out):
    return {row["name"]: row for row in csv.DictReader((out / "gradebook.csv").read_text().splitlines())}


@pytest.fixture
def handins(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    for name in ("anna", "bad", "carl", "dora", "emil"):
        (place / f"{name}.json").write_text(json.dumps({"b.i": "A A^T"}))
    return place


def test_a_process_that_dies_takes_its_own_hand_in_only(tmp_path, handins):
    (tmp_path / "mark.py").write_text(DEADLY)
    out = tmp_path / "out"
    run = [sys.executable, str(tmp_path / "mark.py"), str(handins), str(out)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "0\n"
    found = rows(out)
    assert found.pop("bad.json")["note"] == "could not be marked (the process that marked it ended)"
    assert [row["b.i"] for row in found.values()] == ["right"] * 4
    assert "could not be marked" in (out / "feedback" / "bad.json.html").read_text()
    first = (out / "gradebook.csv").read_bytes()
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "5\n"
    assert (out / "gradebook.csv").read_bytes() == first


def test_processes_that_cannot_start_are_nobodys_fault(tmp_path, handins):
    (tmp_path / "mark.py").write_text("import sys\nfrom headwise.check import folder\nfolder(*sys.argv[1:])\n")
    run = [sys.executable, str(tmp_path / "mark.py"), str(handins), str(tmp_path / "out")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert "processes must be able to start, but they end at once" in done.stderr
    assert not list((tmp_path / "out" / "marks").iterdir())


def test_halves_of_characters_stop_nobody(tmp_path, handins):
    (handins / "bad.json").write_text('{"b.ii": "\\ud800 k_a", "b.i": "A A^T", "\\ud801": "x"}')
    (handins / os.fsdecode(b"\xff.json")).write_text('{"b.i": "A A^T"}')
    out = tmp_path / "out"
    folder(handins, out)
    found = rows(out)
    assert (found["bad.json"]["b.i"], found["bad.json"]["b.ii"]) == ("right", "unreadable")
    assert found["?.json"]["b.i"] == "right"
    page = CliRunner().invoke(main, ["check", str(handins / "bad.json"), "--format", "html"])
    assert page.exit_code == 0
    assert "? k_a" in page.stdout


def test_a_page_that_cannot_be_made_is_told(tmp_path, handins, monkeypatch):
    real = FOLDER.page
    monkeypatch.setattr(FOLDER, "page", lambda marks: 1 / 0 if marks.verdicts else real(marks))
    FOLDER._mark(handins / "anna.json", _made(tmp_path / "out"), "attention")
    kept = json.loads((tmp_path / "out" / "marks" / "anna.json.json").read_text())
    assert kept["row"]["note"] == "could not be marked (ZeroDivisionError)"


def _made(goal):
    for name in ("marks", "feedback"):
        (goal / name).mkdir(parents=True)
    return goal


def test_long_names_and_long_notes(tmp_path, handins):
    (handins / f"{'n' * 250}.md").write_text("## b.i\nA A^T\n" + "".join(f"## {'x' * 50}{place}\nx\n" for place in range(900)))
    out = tmp_path / "out"
    folder(handins, out)
    row = rows(out)[f"{'n' * 250}.md"]
    assert row["b.i"] == "right"
    assert len(row["note"]) < 2000
    assert folder(handins, out).again == 6


def test_a_hand_in_that_vanishes_is_told(tmp_path, handins):
    FOLDER._mark(handins / "gone.json", _made(tmp_path / "out"), "attention")
    kept = json.loads((tmp_path / "out" / "marks" / "gone.json.json").read_text())
    assert kept["row"]["note"].endswith("the hand-in must be readable, but No such file or directory.")


def test_text_that_is_not_utf_8_is_told(tmp_path):
    (tmp_path / "a.md").write_bytes("## b.i\nA A^T".encode("utf-16"))
    with pytest.raises(FileError, match=r"a hand-in must be UTF-8, but it is UTF-16\. Save it as UTF-8\.$"):
        answers(tmp_path / "a.md")


def test_the_output_does_not_take_the_place_of_the_hand_in(handins):
    path = str(handins / "anna.json")
    said = CliRunner().invoke(main, ["check", path, "--format", "html", "--out", path])
    assert said.exit_code == 2
    assert f"--out must be another file than the hand-in, but both are {path}" in said.stderr
    assert json.loads((handins / "anna.json").read_text()) == {"b.i": "A A^T"}
