"""Marking: a table of answers, random right and wrong ones, hostile text, hand-ins, folders and sheets."""

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
from hypothesis import given, settings
from hypothesis import strategies as st
from written_answers import ANSWERS

import headwise as hw
from headwise.check import answer, answers, folder, load
from headwise.check.mark import judged
from headwise.cli import main
from headwise.errors import FileError, OptionError


@pytest.mark.parametrize(("part", "text", "status", "misconception"), ANSWERS)
def test_written_answers(part, text, status, misconception):
    verdict = answer(part, text)
    assert (verdict.status, verdict.misconception) == (status, misconception), verdict.problem
    assert (status == "unreadable") <= bool(verdict.problem)
    assert bool(misconception) == bool(verdict.help)
    json.loads(verdict.to_json())


def test_the_table_is_long_enough():
    assert len({(part, text) for part, text, *_ in ANSWERS}) >= 150
    assert {part for part, *_ in ANSWERS} == set(load("attention").problems)


@pytest.mark.parametrize(("part", "text", "status", "misconception"), [row for row in ANSWERS if row[2] == "wrong"])
def test_a_counterexample_is_one(part, text, status, misconception):
    """The lines under a counterexample run, and show an output that is not the target."""
    example = answer(part, text).counterexample
    del status, misconception
    if example is None:
        return
    assert example.data["error"] > 1e-4 or part.startswith(("c.ii", "d.ii"))
    names = {}
    exec(example.code, names)  # noqa: S102  what a student would paste
    if part == "b.ii":
        found = np.asarray(names["found"].contexts)
        assert np.linalg.norm(found - names["target"]) > 1e-4


def right_answers(rng):
    """Yield parts and right answers: other scales, added components that change nothing, other notation."""
    c, e = rng.uniform(0.3, 9), rng.uniform(-3, 3)
    scale = rng.choice(["t", "t^2", f"{c:.3f} t", "(t + 1)", "sqrt(t)", "log(1 + t)", "t / 7", "t n"])
    yield "b.ii", f"{scale} (k_a + k_b) - {abs(e):.3f} t sum_{{i != a, b}} k_i, t large"
    yield "b.ii", rf"q = {scale} \left(k_b + k_a\right) + {e:.3f} (k_a + k_b), t \gg 0"
    yield "c.i", rf"{scale} (\mu_a + \mu_b), t \to \infty"
    yield "d.i", f"q_1 = {scale} mu_a + {e:.3f} mu_a, q_2 = {c:.3f} t mu_b, t large"
    yield "b.i", f"A A^T + {e:.3f} (I - A A^T - B B^T)"
    yield "b.i", rf"\sum_{{i=1}}^m a_i a_i^\top + {e:.3f} A (A^T A - I_m) A^T"
    q, v = "(u_d u_a^T + u_c u_d^T)", "(u_b u_b^T - u_c u_c^T)"
    yield "e.ii", f"K = {c:.3f} I, Q = {q} / ({c:.3f} beta), V = {v} / beta^2 + {e:.3f} u_c u_a^T / beta^2"
    yield "e.ii", rf"Q = {c:.3f} {q} + {e:.3f} u_a u_c^\top, K = I, V = \frac{{1}}{{\lVert u_a \rVert^2}} {v}"


def wrong_answers(rng):
    """Yield parts and answers that break the property by more than a percent."""
    e = rng.choice([-1, 1]) * rng.uniform(0.02, 3)
    yield "b.ii", f"t ({1 + e:.4f} k_a + k_b), t large"
    yield "b.ii", f"t (k_a + k_b) + {e:.4f} k_a, t large"
    yield "b.ii", f"{rng.uniform(0.1, 4):.3f} (k_a + k_b)"
    yield "c.i", f"t (mu_a + {1 + e:.4f} mu_b), t large"
    yield "d.i", f"q_1 = t mu_a, q_2 = t (mu_b + {1 + abs(e):.3f} mu_a), t large"
    yield "b.i", f"A A^T + {e:.4f} B B^T"
    yield "b.i", f"{1 + e:.4f} A A^T"
    q, v = "(u_d u_a^T + u_c u_d^T) / beta^2", "(u_b u_b^T - u_c u_c^T) / beta^2"
    yield "e.ii", f"K = I, Q = {q}, V = {1 + e:.4f} {v}"
    yield "e.ii", f"K = I, Q = {q} + {1.2 + abs(e):.4f} u_a u_a^T / beta^2, V = {v}"


@pytest.mark.parametrize("seed", range(16))
def test_right_answers_are_never_called_wrong(seed):
    rng = random.Random(seed)
    for _ in range(8):
        for part, text in right_answers(rng):
            verdict = answer(part, text)
            assert verdict.correct, (part, text, verdict.problem)


@pytest.mark.parametrize("seed", range(16))
def test_wrong_answers_are_never_called_right(seed):
    rng = random.Random(100 + seed)
    for _ in range(7):
        for part, text in wrong_answers(rng):
            assert not answer(part, text).correct, (part, text)


def mutated(text, rng):
    """Change a text at random: cut, double, swap, insert signs that mean something and signs that mean nothing."""
    signs = [*"()[]{}^_+-*/|\\$,;='\"<>.!%&~0123456789abktTxqAIuv \n\t\x00‖≫√Σβμₐ²½", "\\frac", "\\sum_", "||", "e999", "^T"]
    found = list(text)
    for _ in range(rng.randint(1, 6)):
        place = rng.randint(0, len(found))
        what = rng.random()
        if what < 0.4:
            found.insert(place, rng.choice(signs))
        elif what < 0.7 and found:
            del found[place % len(found)]
        elif found:
            other = rng.randrange(len(found))
            found[place % len(found)] = found[other]
    return "".join(found) * (3 if rng.random() < 0.02 else 1)


def test_mutated_answers_neither_crash_nor_take_long():
    rng = random.Random(7)
    slowest = 0.0
    for _ in range(4000):
        part, text, *_ = rng.choice(ANSWERS)
        start = time.process_time()
        verdict = judged(load("attention").problems[part], mutated(text, rng))
        slowest = max(slowest, time.process_time() - start)
        assert verdict.status in ("right", "remark", "wrong", "unreadable")
    assert slowest < 2.5


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.sampled_from(sorted(load("attention").problems)))
def test_any_text_has_a_verdict(text, part):
    assert judged(load("attention").problems[part], text).status in ("right", "remark", "wrong", "unreadable")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 3000,
        "k_a + " * 900,
        "\\frac{" * 600,
        "||" * 1500,
        "t^" * 1500 + "2",
        "sum_{i in S} " * 200 + "k_i",
        "sum_i sum_j sum_l sum_m (k_i + k_j + k_l + k_m)",
        "9" * 5000,
        "((((((((((t^64)^64)^64)^64)^64)^64)^64)^64)^64)^64) k_a",
        "A" * 100_000,
        "-" * 3900 + "k_a",
        "2 *" + " -" * 1800 + " k_a",
        "exp(" * 800,
        "\\" * 3000,
        "\u202e" * 10,
        "k_a" + "'" * 3000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_ends_soon(text):
    start = time.process_time()
    verdict = answer("b.ii", text)
    assert time.process_time() - start < 2.5
    assert verdict.status in ("unreadable", "wrong", "remark")


def test_reading_runs_and_opens_nothing():
    """An audit hook sees what Python itself sees: imports, files, compiled code."""
    program = """
import sys
from headwise.check import answer
for text in ("t (k_a + k_b), t large", "k_a + k_b"):
    answer("b.ii", text)
seen = []
watch = {"import", "open", "exec", "compile", "os.system", "subprocess.Popen", "socket.connect"}
sys.addaudithook(lambda event, _: seen.append(event) if event in watch else None)
for text in ("__import__('os').system('ls')", "eval(1)", "t (k_b + k_a), t large", "open('x')", "2 (k_a + k_b)", "k_a k_b"):
    answer("b.ii", text)
print(seen)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_mistake_of_ours_stops_nobody(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules["headwise.check.mark"], "judged", fail)
    verdict = answer("b.ii", "an answer that nobody gave before")
    assert verdict.problem == "this could not be marked, for headwise itself failed (ZeroDivisionError)"


def test_places_are_pointed_at():
    assert (
        answer("b.ii", "beta (k_a + A)").problem == "a vector and a number cannot be added\n  beta (k_a + A)\n        ^^^^^^^"
    )
    assert answer("b.i", "A + A A^T").problem.splitlines()[0] == "a d-by-m matrix and a d-by-d matrix cannot be added"
    assert answer("b.ii", "t (k_a + k_c)").problem.splitlines()[0] == "k_c is no name of this problem (k_a, k_b)"


def test_the_scale_for_one_percent():
    """With ten keys, |c - target| = leak sqrt(1/2 + 1/8), and leak = 8 / (2 e^beta + 8)."""
    found = answer("b.ii", "t (k_a + k_b), t large").scale_for_one_percent
    leak = 8 / (2 * np.exp(found) + 8)
    assert leak * np.sqrt(0.5 + 1 / 8) == pytest.approx(0.01, rel=1e-2)


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
    page = (stopped / "feedback" / "student00.json.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


SHEET = """
title = "Mine"

[part."1"]
kind = "average"
give = ["q"]
keys = ["a", "b", "c"]

[part."2"]
kind = "number"
give = ["x"]
value = "sqrt(2)"
tolerance = 0.01
points = 2

[part."3"]
kind = "layer"
targets = { 2 = "u_b" }
"""


def test_a_sheet_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(SHEET)
    mine = load(tmp_path / "mine.toml")
    assert answer("1", "t (k_a + k_b + k_c), t large", sheet=mine).status == "right"
    assert answer("1", "t (k_a + k_b), t large", sheet=mine).status == "wrong"
    assert answer("2", "1.41", sheet=mine).status == "right"
    assert answer("3", "K = I, Q = u_d u_a^T, V = u_b u_b^T / beta^2", sheet=mine).status == "right"
    assert answers({"2": "1.4142"}, sheet=mine).points == 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            ('kind = "number"', 'kind = "nombre"'),
            "line 10: part 2: kind must be one of average, extract, layer, approximates, equals",
        ),
        (("tolerance = 0.01\n", ""), "line 9: part 2: tolerance must be given for the kind number, but it is not"),
        (
            ('value = "sqrt(2)"', 'value = "sqrt("'),
            "line 12: part 2: the value cannot be read: expected a number, a name or a bracket",
        ),
        (('{ 2 = "u_b" }', '{ 2 = "u_z" }'), "line 18: part 3: the targets cannot be read: u_z is no name of this problem"),
        (('give = ["q"]', 'give = "q"'), "line 6: part 1: give must be list, but it is 'q'"),
        (("points = 2", "point = 2"), "line 14: part 2: point is not known for the kind number"),
        (("[part.", "[port."), 'a sheet must have a table [part."..."] for every part, but it has none'),
        (("tolerance = 0.01", "tolerance = "), "a sheet must be TOML, but Invalid value (at line 13"),
    ],
)
def test_wrong_sheets_are_told_with_their_line(tmp_path, change, sentence):
    (tmp_path / "mine.toml").write_text(SHEET.replace(*change))
    with pytest.raises(FileError) as caught:
        load(tmp_path / "mine.toml")
    assert sentence in str(caught.value)


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
    assert "3 of 15 points" in runner.invoke(main, ["check", "mine.md"]).stdout
    assert runner.invoke(main, ["check", "mine.md", "--format", "html", "--out", "page.html"]).exit_code == 0
    assert "data:image/svg+xml" in Path("page.html").read_text()
    assert json.loads(runner.invoke(main, ["check", "mine.md", "--format", "gradescope"]).stdout)["score"] == 3
    assert "b.ii" in runner.invoke(main, ["check", "--list"]).stdout
    nothing = runner.invoke(main, ["check"])
    assert nothing.exit_code == 2
    assert nothing.stderr.startswith("error: GIVEN must be an answer")
    assert hw.check.answers({"b.i": "A A^T"}).points == 1
