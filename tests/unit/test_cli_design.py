"""`headwise design` on files."""

import json
import math
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import headwise as hw
from headwise.cli import main
from headwise.files import read_array


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder with three corners, their middle, and what else the commands read."""
    monkeypatch.chdir(tmp_path)
    np.save("k.npy", np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.25, 0.25]]))
    np.savetxt("w.csv", [[0.1, 0.2, 0.3, 0.4]], delimiter=",")
    np.savetxt("t.csv", [[0.3, 0.3]], delimiter=",")
    np.save("x.npy", np.eye(3))
    return lambda *words: CliRunner().invoke(main, ["design", *words])


def test_copy(run):
    result = run("copy", "--keys", "k.npy", "--index", "1", "--leak", "1e-6", "--out", "q.npy", "--json")
    data = json.loads(result.stdout)
    assert data["verdict"] == "possible"
    keys = np.load("k.npy")
    assert float(hw.attend(np.load("q.npy")[0], keys, keys).leak(1)) <= 1e-6
    result = run("copy", "--keys", "k.npy", "--index", "3")
    assert result.stdout.splitlines()[0] == "copy: impossible"
    assert "key 3 is a mixture of keys 0, 1, 2" in result.stdout
    result = run("copy", "--keys", "k.npy", "--index", "3", "--out", "q.npy")
    assert result.stderr.splitlines() == [
        "error: --out needs a result to write, but there is none.",
        "hint: See the verdict.",
    ]


def test_average(run):
    result = run("average", "--keys", "x.npy", "--indices", "0,1", "--values", "x.npy", "--heads", "2", "--json")
    data = json.loads(result.stdout)
    assert np.array(data["queries"]).shape == (2, 3)
    assert data["error_bound"] < 2e-3


def test_copyable(run):
    result = run("copyable", "--keys", "k.npy", "--out", "found.npy")
    assert result.stdout.splitlines()[0] == "copyable: 3 of 4 keys"
    found = np.load("found.npy")
    assert found[:, 0].tolist() == [1, 1, 1, -1]
    np.testing.assert_allclose(found[:, 1], [math.sqrt(0.125), math.sqrt(0.625), math.sqrt(0.625), 0], atol=1e-12)
    data = json.loads(run("copyable", "--keys", "k.npy", "--distance", "bound", "--json").stdout)
    assert data["verdicts"] == ["possible", "possible", "possible", "impossible"]
    assert data["distances"][0] <= math.sqrt(0.125)
    assert data["distance_errors"] == [None, None, None, 0.0]


def test_an_interrupted_copyable_prints_what_it_knows(run, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    np.save("wide.npy", np.random.default_rng(0).normal(size=(500, 6)))
    monkeypatch.setattr(sys.modules["headwise.design.copyable"], "corrected_queries", stop)
    result = run("copyable", "--keys", "wide.npy", "--out", "found.npy")
    assert result.exit_code == 130
    assert "interrupted" in result.stdout
    assert set(np.load("found.npy")[:, 0]) == {0.0, 1.0}


def test_weights_and_context(run):
    data = json.loads(run("weights", "--keys", "k.npy", "--target", "w.csv", "--json").stdout)
    assert data["verdict"] == "impossible"
    assert data["certificate"]["kind"] == "spread"
    data = json.loads(
        run("context", "--keys", "k.npy", "--values", "k.npy", "--target", "t.csv", "--out", "q.npy", "--json").stdout
    )
    assert data["verdict"] == "possible"
    keys = np.load("k.npy")
    np.testing.assert_allclose(hw.attend(np.load("q.npy")[0], keys, keys).contexts, [0.3, 0.3], atol=1e-6)


def test_extract(run):
    np.save("a.npy", np.array([[1.0, 0.0]]))
    np.save("b.npy", np.array([[1.0, 1.0]]))
    np.save("s.npy", np.array([5.0, 2.0]))
    data = json.loads(
        run("extract", "--basis", "a.npy", "--against", "b.npy", "--total", "s.npy", "--out", "m.npy", "--json").stdout
    )
    assert data["norm"] == pytest.approx(math.sqrt(2))
    np.testing.assert_allclose(data["extracted"], [3, 0], atol=1e-12)
    np.testing.assert_allclose(np.load("m.npy"), [[1, -1], [0, 0]], atol=1e-12)
    assert "45 degrees" in run("extract", "--basis", "a.npy", "--against", "b.npy").stdout


def test_layer(run):
    words = ("--reads", '{"0": 2, "1": {"0": 0.5, "2": 0.5}}', "--out", "layer.safetensors", "--json")
    result = run("layer", "--tokens", "x.npy", *words)
    data = json.loads(result.stdout)
    assert data["verdict"] == "possible"
    matrices = [read_array(f"layer.safetensors:{name}") for name in ("key", "query")]
    table = hw.SelfAttention(key=matrices[0], query=matrices[1])(np.eye(3)).weights
    np.testing.assert_allclose(table[1], [0.5, 0, 0.5], atol=1e-3)
    result = run("layer", "--tokens", "x.npy", "--reads", "0:2")
    assert result.stderr.splitlines() == [
        "error: --reads must be a JSON object from positions, but got '0:2'.",
        'hint: Write for example {"1": 0}.',
    ]
