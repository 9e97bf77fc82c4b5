"""The command line as a person and as a program use it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from headwise.cli import main
from headwise.version import __version__


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder with orthonormal keys and the query k_0 + k_1."""
    monkeypatch.chdir(tmp_path)
    keys = np.eye(10)
    np.save("k.npy", keys)
    np.save("q.npy", keys[0] + keys[1])
    np.savez("run.npz", queries=9 * (keys[:2] + keys[1:3]), keys=keys)
    Path("v.csv").write_text("\n".join(",".join(map(str, row)) for row in keys.tolist()))
    return lambda *words: CliRunner().invoke(main, list(words))


def every_command(group=main, above=""):
    """Yield the words of every command, those of groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


FILES = ("--queries", "q.npy", "--keys", "k.npy", "--values", "v.csv")


def test_a_table_for_people(run):
    result = run("attend", *FILES, "--leak", "0,1")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "Attention of 1 query on 10 keys of width 10, values of width 10, scale 1"
    assert lines[1].split() == ["key", "score", "weight"]
    assert lines[3].split()[:3] == ["0", "1", "0.2023"]
    assert f"leak outside 0,1: {8 / (2 * math.e + 8):.4g}" in lines
    assert result.stderr == ""


def test_json_for_programs(run):
    result = run("attend", *FILES, "--scale", "9", "--leak", "0,1", "--weights", "--json")
    data = json.loads(result.stdout)
    assert data["leak"] == pytest.approx(8 / (2 * math.exp(9) + 8), rel=1e-12)
    assert data["scale"] == 9
    assert len(data["weights"]) == len(data["contexts"]) == 10
    assert data["keys"] == 10
    assert "weights" not in json.loads(run("attend", *FILES, "--json").stdout)


def test_contexts_into_a_file(run):
    result = run("attend", "--queries", "run.npz:queries", "--keys", "run.npz:keys", "--values", "v.csv", "--out", "c.npy")
    assert result.exit_code == 0, result.stderr
    assert np.load("c.npy").shape == (2, 10)
    assert "2 queries" in result.stdout


def test_masks(run):
    np.save("allowed.npy", np.r_[np.ones(5), np.zeros(5)])
    words = ("attend", "--queries", "k.npy", "--keys", "k.npy", "--values", "k.npy", "--json", "--weights")
    weights = np.array(json.loads(run(*words, "--allowed", "allowed.npy", "--causal", "start").stdout)["weights"])
    assert weights[0].tolist() == [1.0] + [0.0] * 9
    assert (weights[:, 5:] == 0).all()


def test_mistakes_are_one_sentence_and_a_hint(run):
    np.save("six.npy", np.ones((2, 6)))
    result = run("attend", "--queries", "q.npy", "--keys", "six.npy", "--values", "six.npy")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "error: attend(): queries and keys must agree on axis d, but queries has d=10 and keys has d=6.\n"
    result = run("attend", *FILES, "--empty", "zeros")
    assert result.stderr.splitlines() == [
        'error: attend(): empty must be "error" or "zero", but got "zeros".',
        'hint: Did you mean "zero"?',
    ]
    result = run("attend", *FILES, "--leak", "first")
    assert result.stderr == "error: --leak must be rows with commas between them, but got 'first'.\n"
    result = run("attend", "--queries", "q.npy", "--keys", "nowhere.npy", "--values", "v.csv")
    assert result.stderr == "error: nowhere.npy: the file must exist, but there is none.\n"


def test_output_never_replaces_an_input_or_something_odd(run):
    result = run("attend", *FILES, "--out", "k.npy")
    assert result.stderr == "error: --out must be a new file, but k.npy is one of the inputs.\n"
    assert np.load("k.npy").shape == (10, 10)
    result = run("attend", "--queries", "run.npz:queries", "--keys", "k.npy", "--values", "v.csv", "--out", "run.npz")
    assert result.exit_code == 2
    result = run("attend", *FILES, "--out", "nowhere/c.npy")
    assert result.exit_code == 2
    assert "nowhere/c.npy: the folder must exist and be writable" in result.stderr
    result = run("attend", *FILES, "--weights")
    assert result.stderr == "error: --weights goes with --json, but --json is missing.\n"


def test_without_words_the_help(run):
    assert run().stdout.startswith("Usage: headwise")
    assert run().exit_code == 0


def test_a_full_disk_is_a_sentence(tmp_path):
    np.save(tmp_path / "k.npy", np.eye(2))
    line = f"{sys.executable} -m headwise attend --queries k.npy --keys k.npy --values k.npy > /dev/full"
    result = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "error: output: No space left on device.\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("attnd",), "No such command 'attnd'"),
        (("attend", "--quer"), "No such option"),
        (("attend",), "Missing option '--queries'"),
        (("attend", *FILES, "--scale", "big"), "'big' is not a valid float"),
        (("attend", *FILES, "--causal", "middle"), "'middle' is not one of"),
    ],
)
def test_wrong_words_exit_with_2(run, words, problem):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert problem in result.stderr
    assert "hint: Try: headwise" in result.stderr
    assert "Traceback" not in result.stderr


COMMANDS = list(every_command())


@pytest.mark.parametrize("command", ["", "design", *COMMANDS])
def test_every_help_has_an_example(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Example:\n" in result.stdout
    assert "  headwise " in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_json(run, command):
    assert "--json " in run(*command.split(), "--help").stdout


def test_version(run):
    assert run("--version").stdout == f"headwise {__version__}\n"


def test_study(run):
    result = run("study", "--parts", "b, a.ii", "--keys", "12", "--json")
    data = json.loads(result.stdout)
    assert [part["part"] for part in data["parts"]] == ["a.ii", "b.i", "b.ii"]
    assert data["setting"]["keys"] == 12
    assert json.loads(Path("study-out/study.json").read_text()) == data
    assert Path("study-out/study.html").read_text().startswith("<!doctype html>")
    assert result.stderr == "wrote study-out/study.json\nwrote study-out/study.html\n"
    assert "0.1761" in run("study", "--parts", "b.ii", "--keys", "12", "--out", "other").stdout
    assert Path("other/study.html").exists()


def test_study_that_fails_ends_with_1(run, monkeypatch):
    from headwise.study import Finding

    monkeypatch.setattr(Finding, "holds", property(lambda _: False))
    result = run("study", "--parts", "a.i")
    assert result.exit_code == 1
    assert "FAILS" in result.stdout


def test_a_reader_that_leaves_early_is_no_mistake(tmp_path):
    """`headwise ... | head -1` must not end in a traceback."""
    np.save(tmp_path / "big.npy", np.ones((400, 300)))
    words = " ".join(f"--{name} big.npy" for name in ("queries", "keys", "values"))
    headwise = Path(sys.executable).with_name("headwise")
    line = f"{headwise} attend {words} --weights --json | head -c 10"
    result = subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.startswith('{"kind"')
