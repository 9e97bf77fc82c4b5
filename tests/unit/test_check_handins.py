"""Marking hand-ins and folders of them, and the command."""

import csv
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from written_answers import ANSWERS, Q, V

import headwise as hw
from headwise.check import answer, answers, folder, load
from headwise.cli import main
from headwise.errors import FileError, OptionError
from headwise.files import read_array

HANDIN = {"b.i": "A A^T", "b.ii": "k_a + k_b", "d.ii": "7.9%", "e.i more": "no", "e.ii": "K = I"}
MARKDOWN = r"""
# My answers

## b.i
The matrix is $M = AA^\top$.

## Part b.ii

$q = k_a + k_b$

## d.ii
7.9%

## e.i more
No, because it is a mixture.

## e.ii
$$K = I$$

## nonsense
x
"""


def test_hand_ins_in_every_format(tmp_path):
    files = {
        "a.json": json.dumps(HANDIN),
        "a.toml": "\n".join(f"{json.dumps(part)} = {json.dumps(text)}" for part, text in HANDIN.items()),
        "a.md": MARKDOWN,
    }
    statuses = {"b.i": "right", "b.ii": "wrong", "d.ii": "right", "e.i more": "right", "e.ii": "unreadable"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        marks = answers(tmp_path / name)
        assert {part: verdict.status for part, verdict in marks.verdicts.items()} == statuses, name
        assert marks.points == 3
    results = marks.to_gradescope()
    assert results["score"] == 3
    assert sum(test["score"] for test in results["tests"]) == 3
    assert {test["name"].split(":")[0] for test in results["tests"]} == set(load("attention").problems)
    assert "missing" in str(marks)


@pytest.mark.parametrize(
    ("heading", "body", "status"),
    [
        ("(b)(ii)", r"$q=\beta(k_a+k_b)$ with $\beta$ large", "right"),
        ("Part (b) ii", r"We take $q = t(k_a + k_b)$ where $t \gg 0$.", "right"),
        ("b.ii: my query", "`t (k_a + k_b)`, t large", "right"),
        ("Problem b.ii", "```\nt (k_a + k_b), t large\n```", "right"),
        ("b.ii", "**q = t (k_a + k_b), t large**", "right"),
        ("b.ii", "I do not know.", "unreadable"),
        ("b.ii", "$q = k_a + k_b$ so that both score the same", "wrong"),
    ],
)
def test_markdown_as_students_write_it(tmp_path, heading, body, status):
    (tmp_path / "a.MD").write_text(f"\ufeff# Homework\n\n## {heading}\n\n{body}\n", encoding="utf-8")
    assert answers(tmp_path / "a.MD").verdicts["b.ii"].status == status


@pytest.mark.parametrize(
    ("part", "body", "status"),
    [
        ("a.iii", r"The output is approximately $v_j$: $c \approx v_j$.", "right"),
        ("e.ii", f"$$K = I$$\n$$Q = {Q}$$\n$$V = {V}$$\nSo $c_2 \\approx u_b$.", "right"),
        ("e.ii", f"\\[K = I\\]\n\n\\[Q = {Q}\\]\n\n\\[V = {V}\\]", "right"),
        ("b.i", "$M = A^T A$ or maybe $M = A A^T$", "unreadable"),
        ("b.i", "I am not sure, perhaps $M = A A^T$", "unreadable"),
        ("b.i", "$M = A^T A$ and $M = A A^T$", "unreadable"),
        ("d.i", "$q_1 = t \\mu_a$\n\n$q_2 = t \\mu_b$\n\nwhere $t$ is large", "right"),
    ],
)
def test_markdown_with_several_formulas(tmp_path, part, body, status):
    (tmp_path / "a.md").write_text(f"## {part}\n\n{body}\n")
    verdict = answers(tmp_path / "a.md").verdicts[part]
    assert verdict.status == status, verdict.problem


def test_pieces_of_one_answer(tmp_path):
    layer = {"K": "I", "Q": Q, "V": V}
    (tmp_path / "a.json").write_text(json.dumps({"d.i": {"q_1": "t mu_a", "q_2": "t mu_b"}, "e.ii": layer}))
    (tmp_path / "b.json").write_text(json.dumps({"d.i": ["t mu_a", "t mu_b", "t large"], "nonsense": "x"}))
    (tmp_path / "c.toml").write_text(f'd.i = "q_1 = t mu_a, q_2 = t mu_b"\ne.ii = {{K = "I", Q = "{Q}", V = "{V}"}}\n')
    for name, statuses in (("a.json", ["remark", "right"]), ("b.json", ["right"]), ("c.toml", ["remark", "right"])):
        assert [verdict.status for verdict in answers(tmp_path / name).verdicts.values()] == statuses
    assert answers(tmp_path / "b.json").notes == ["'nonsense' is no part of the sheet and was left out"]


def test_what_is_left_out_is_noted(tmp_path):
    (tmp_path / "a.md").write_text("# Homework\n\n## b.i\nA A^T\n\n## b.9\nx\n\n## b.i\nA^T A\n")
    marks = answers(tmp_path / "a.md")
    notes = ["'b.9' is no part of the sheet and was left out", "b.i is answered twice; the last answer was marked"]
    assert marks.notes == notes
    assert marks.verdicts["b.i"].status == "wrong"
    assert all(note in str(marks) for note in notes)
    assert marks.to_gradescope()["output"] == "\n".join(notes)


def test_tables_in_toml_and_strange_files(tmp_path):
    (tmp_path / "a.toml").write_text('b.i = "A A^T"\nb.ii = "k_a + k_b"\n[d]\nii = 0.0786\n')
    marks = answers(tmp_path / "a.toml")
    assert {part: verdict.status for part, verdict in marks.verdicts.items()} == {
        "b.i": "right",
        "b.ii": "wrong",
        "d.ii": "right",
    }
    (tmp_path / "b.json").write_text('{"c.ii": ' + "9" * 6000 + "}")
    (tmp_path / "c.json").write_bytes(bytes(range(256)))
    (tmp_path / "d.md").write_text("")
    (tmp_path / "=e.json").write_text('{"b.i": "<script>alert(1)</script>"}')
    rows = folder(tmp_path, tmp_path / "out").rows
    assert [row["points"] for row in rows] == [0, 2, 0, 0, 0]
    book = (tmp_path / "out" / "gradebook.csv").read_text()
    assert "\n'=e.json," in book
    assert ",'," not in book
    assert "<script>" not in (tmp_path / "out" / "feedback" / "=e.json.html").read_text()


def test_a_folder_goes_on_where_it_was(tmp_path):
    handins = tmp_path / "in"
    handins.mkdir()
    rng = random.Random(3)
    for number in range(12):
        chosen = rng.sample(ANSWERS, 8)
        (handins / f"student{number:02}.json").write_text(json.dumps({part: text for part, text, *_ in chosen}))
    (handins / "broken.json").write_text("{")
    whole = folder(handins, tmp_path / "whole")
    assert whole.again == 0
    stopped = tmp_path / "stopped"
    folder(handins, stopped)
    for path in sorted((stopped / "marks").iterdir())[:6]:
        path.unlink()
    (stopped / "gradebook.csv").unlink()
    again = folder(handins, stopped)
    assert again.again == 7
    assert (stopped / "gradebook.csv").read_bytes() == (tmp_path / "whole" / "gradebook.csv").read_bytes()
    rows = list(csv.DictReader((stopped / "gradebook.csv").read_text().splitlines()))
    assert len(rows) == 13
    assert "must be JSON" in rows[0]["note"]
    assert "must be JSON" in (stopped / "feedback" / "broken.json.html").read_text()
    (stopped / "feedback" / "student03.json.html").unlink()
    (handins / "notes.txt").write_text("not a hand-in")
    third = folder(handins, stopped)
    assert (third.again, third.ignored) == (12, ["notes.txt"])
    assert "notes.txt" in str(third)
    assert (stopped / "feedback" / "student03.json.html").exists()
    page = (stopped / "feedback" / "student00.json.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


def test_sentences(tmp_path):
    with pytest.raises(OptionError) as caught:
        answer("b.iii", "x")
    assert str(caught.value).endswith("but got 'b.iii'. Did you mean b.ii?")
    for place, sentence in (
        (tmp_path / "none.json", "the hand-in must be readable, but No such file or directory."),
        (tmp_path / "x.txt", "a hand-in must end in .toml, .json, .md, but it ends in .txt."),
    ):
        with pytest.raises(FileError) as missing:
            answers(place)
        assert str(missing.value) == f"{place}: {sentence}"
    with pytest.raises(FileError, match="hand-ins must be in a folder, but there is none"):
        folder(tmp_path / "nowhere", tmp_path)
    with pytest.raises(FileError, match="the folder must hold hand-ins"):
        folder(tmp_path, tmp_path / "out")
    with pytest.raises(OptionError, match="text must be a string, but it is a int"):
        answer("b.ii", 3)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.md").write_text(MARKDOWN)
    runner = CliRunner()
    one = runner.invoke(main, ["check", "--part", "b.ii", "k_a + k_b"])
    assert "the scale is missing" in one.stdout
    assert "keys = values = np.eye(10)" in one.stdout
    data = json.loads(runner.invoke(main, ["check", "--part", "b.ii", "k_a + k_b", "--json"]).stdout)
    assert data["counterexample"]["kind"] == "setting"
    assert np.shape(data["counterexample"]["keys"]) == (10, 10)
    Path("verdict.json").write_text(json.dumps(data))
    for name in ("keys", "values"):  # as the lab opens files
        assert read_array(f"verdict.json:{name}").tolist() == data["counterexample"][name]
    assert "3 of 15 points" in runner.invoke(main, ["check", "mine.md"]).stdout
    assert runner.invoke(main, ["check", "mine.md", "--format", "html", "--out", "page.html"]).exit_code == 0
    assert "data:image/svg+xml" in Path("page.html").read_text()
    assert json.loads(runner.invoke(main, ["check", "mine.md", "--format", "gradescope"]).stdout)["score"] == 3
    broken = runner.invoke(main, ["check", "none.md", "--format", "gradescope", "--out", "results.json"])
    assert broken.exit_code == 0
    results = json.loads(Path("results.json").read_text())
    assert (results["score"], len(results["tests"])) == (0, 15)
    assert "must be readable" in results["output"]
    assert runner.invoke(main, ["check", "none.md"]).exit_code == 2
    for part, text, said in (("b.ii", "-t sum_{i != a, b} k_i, t large", "right"), ("c.ii", "-0.5", "wrong")):
        assert runner.invoke(main, ["check", "--part", part, text]).stdout.startswith(f"{part}: {said}")
    assert "b.ii" in runner.invoke(main, ["check", "--list"]).stdout
    nothing = runner.invoke(main, ["check"])
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("error: GIVEN must be an answer")
    assert hw.check.answers({"b.i": "A A^T"}).points == 1


def test_workers_end_with_their_parent(tmp_path):
    """Kill the process that started the marking: those that mark end too."""
    (tmp_path / "in").mkdir()
    for number in range(400):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"b.ii": f"t (k_a + {1 + number / 1000} k_b), t large"}))
    script = tmp_path / "mark.py"
    call = f"folder({str(tmp_path / 'in')!r}, {str(tmp_path / 'out')!r})"
    script.write_text(f"from headwise.check import folder\nif __name__ == '__main__': {call}\n")
    process = subprocess.Popen([sys.executable, str(script)])
    while process.poll() is None and not list((tmp_path / "out").glob("marks/*.json")):
        time.sleep(0.05)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) >= 2
    process.kill()
    process.wait()
    give_up = time.monotonic() + 20
    while time.monotonic() < give_up and any(_runs(worker) for worker in workers):
        time.sleep(0.1)
    assert not any(_runs(worker) for worker in workers)


def _runs(worker):
    try:
        return Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("text", ["", "just some text"])
def test_markdown_without_a_heading_gets_a_note(tmp_path, text):
    (tmp_path / "a.md").write_text(text)
    found = answers(tmp_path / "a.md")
    assert found.points == 0
    assert found.notes == ["there is no heading that names a part, such as # b.ii"]


def test_json_that_answers_a_part_twice(tmp_path):
    (tmp_path / "a.json").write_text('{"b.i": "A A^T", "b.i": "I"}')
    found = answers(tmp_path / "a.json")
    assert found.notes == ["b.i is answered twice; the last answer was marked"]
    assert found.verdicts["b.i"].status == "wrong"


def test_folders_in_a_folder_are_told(tmp_path):
    inner = tmp_path / "in" / "alice"
    inner.mkdir(parents=True)
    (inner / "a.json").write_text("{}")
    with pytest.raises(FileError, match=r"holds none\. Folders in it are not looked into: put all hand-ins side by side\.$"):
        folder(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "b.json").write_text("{}")
    assert folder(tmp_path / "in", tmp_path / "out").ignored == ["alice/"]
