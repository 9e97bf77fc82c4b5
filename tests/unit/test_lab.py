"""The lab's questions, its server and its files, without a browser."""

import io
import json
import re
import tracemalloc
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import headwise as hw
from headwise.cli import main
from headwise.lab import questions
from headwise.lab.bundle import STATIC, bundled
from headwise.lab.questions import KINDS, answered

SQUARE = [[0, 0], [4, 0], [0, 4], [1, 1]]
NOISY = {"count": 10, "scale": 10, "isotropic": 1e-6, "length_variance": 0.5}


def run(*words):
    return CliRunner().invoke(main, ["lab", *words])


def answer(kind, body):
    status, data = answered(kind, json.dumps(body).encode())
    return status, json.loads(data)


def test_aiming_is_design():
    status, found = answer("aim", {"keys": SQUARE, "indices": [3]})
    assert (status, found["verdict"]) == (200, "impossible")
    status, found = answer("aim", {"keys": SQUARE, "indices": [1, 2], "leak": 1e-2, "values": SQUARE})
    wanted = hw.design.average(np.array(SQUARE, float), [1, 2], leak=1e-2, values=np.array(SQUARE, float)).to_dict()
    assert status == 200
    assert found == json.loads(json.dumps(wanted))


def test_noise_is_the_law():
    """The table of the theory: at a scale of 10 one head varies by 0.3905 and two by 0.0254."""
    _, found = answer("noise", NOISY)
    assert found["one"]["variance"]["value"] == pytest.approx(0.3905, abs=1e-4)
    assert found["two"]["variance"]["value"] == pytest.approx(0.0254, abs=1e-4)
    assert found["flip"]["value"] == pytest.approx(0.5, abs=1e-3)
    assert found["negative"]["value"] == pytest.approx(0.0786, abs=1e-4)
    trace = np.trace(np.array(found["one"]["covariance"]))
    assert trace <= found["one"]["variance"]["value"] <= trace + 0.01


def test_curves_and_remedies_are_those_of_stress():
    """The best of one head's scales is 2.1364, as the theory has it; remedies come best first."""
    status, found = answer("curve", NOISY)
    assert status == 200
    assert found["series"]["one head"]["best_scale"] == pytest.approx(2.1364, abs=0.02)
    status, found = answer("remedies", NOISY)
    errors = [one["mean_squared_error"]["value"] for one in found["remedies"]]
    assert status == 200
    np.testing.assert_allclose(errors, sorted(errors), rtol=0.01)  # a tie within errors keeps its order
    assert len(errors) > 4


def test_an_answer_is_marked_and_typeset():
    _, found = answer("check", {"part": "b.ii", "text": "k_a + k_b"})
    assert (found["status"], found["misconception"]) == ("wrong", "the scale is missing")
    assert found["mathml"].startswith("<math")
    assert answer("check", {"part": "b.ii", "text": "k_a + + )"})[1]["mathml"] is None


def test_layers_extractors_and_parts():
    u = 4 * np.eye(4)
    tokens = [u[3] + u[1], u[0], u[2] + u[1]]
    body = {"tokens": np.array(tokens).tolist(), "targets": {"0": (u[1] - u[2]).tolist(), "1": u[1].tolist()}}
    _, found = answer("layer", body)
    assert found["verdict"] == "possible"
    contexts = hw.SelfAttention(key=found["key"], query=found["query"], value=found["value"])(np.array(tokens)).contexts
    assert np.abs(contexts[1] - u[1]).max() <= found["error_bound"]
    _, found = answer("extractor", {"basis": [[1, 0]], "against": [[1, 1]]})
    assert found["norm"] == pytest.approx(np.sqrt(2))
    assert len(answer("parts", {})[1]["parts"]) == len(hw.check.load("attention").problems)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("extractor", {"basis": [[1, 0]], "against": [[1, 0]]}, "the two subspaces must meet only in zero"),
        ("aim", {"keys": SQUARE, "indices": [9]}, "copy(): index must be a key's row, 0 to 3, but got 9."),
        ("aim", {"keys": [[1, 2], [3]], "indices": [0]}, "the rows of keys must have one length, but they differ"),
        ("aim", {"keys": SQUARE}, "missing required field `indices`"),
        ("aim", {"keys": SQUARE, "indices": [0], "more": 1}, "unknown field `more`"),
        ("noise", NOISY | {"count": 10**6}, "Expected `int` <= 200"),
        ("noise", NOISY | {"scale": -1}, "Expected `float` > 0"),
        ("copyable", {"keys": [[0.0] * 65]}, "length <= 64"),
        ("layer", {"tokens": SQUARE, "targets": {"x": [1, 2]}}, "targets must be named by rows of tokens, but one is not"),
        ("check", {"part": "z", "text": "1"}, "part must be one of a.i, a.ii"),
        ("copyable", {"keys": [[1e101, 0]]}, "the numbers of keys must be at most 1e+100 in size, but one is larger."),
        ("layer", {"tokens": [[1, 0]], "targets": {"0": [1e308, 0]}}, "the numbers of targets must be at most 1e+100"),
    ],
)
def test_bad_questions_get_a_sentence(kind, body, said):
    status, found = answer(kind, body)
    assert status == 400
    assert said in found["error"]


def test_what_fails_below_is_a_sentence_too(monkeypatch):
    """Arithmetic that breaks down is the numbers' fault, all else is ours; a page gets an answer to both."""
    body = {"tokens": [[1, 0], [0, 1]], "targets": {"0": [0, 1]}}
    for error, status, said in (
        (ZeroDivisionError(), 400, "floating point can work on them, but they are not (ZeroDivisionError)."),
        (np.linalg.LinAlgError(), 400, "floating point can work on them, but they are not (LinAlgError)."),
        (RuntimeError(), 500, "headwise itself failed (RuntimeError)."),
    ):

        def fails(*_, error=error, **__):
            raise error

        monkeypatch.setattr(hw.design, "layer", fails)
        found = answer("layer", body)
        assert found[0] == status
        assert said in found[1]["error"]


def test_a_token_of_zeros():
    assert answer("layer", {"tokens": [[0, 0], [4, 0]], "targets": {"0": [4, 1]}})[0] in (200, 400)


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "\0.npy", "é" * 190 + ".csv", "x" * 5000 + ".csv", "a\0.csv", "a:b.csv", "😀.csv"]
)
def test_names_of_files_that_are_odd(name):
    """None of them becomes a path of ours; the ending alone says how the file is read."""
    if name.endswith(".csv"):
        assert questions.dropped(name, b"1,2\n3,4\n")["arrays"]["keys"].shape == (2, 2)
        return
    with pytest.raises(hw.HeadwiseError) as caught:
        questions.dropped(name, b"1,2\n3,4\n")
    assert len(str(caught.value)) < 200


def header(shape):
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + words.ljust(117).encode() + b"\n"


def bomb():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("keys.npy", header((1 << 22, 1)) + bytes(32 << 20))
    return packed.getvalue()


def test_an_archive_is_refused_before_it_is_unpacked():
    content = bomb()
    assert len(content) < 1 << 16
    tracemalloc.start()
    try:
        with pytest.raises(hw.HeadwiseError, match=r"b.npz: an archive may hold 16 MB here, but it holds 32.0. Give it to"):
            questions.dropped("b.npz", content)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_dropped_files(tmp_path):
    np.savez(tmp_path / "both.npz", keys=np.eye(3), values=np.ones((3, 2)))
    found = questions.dropped("both.npz", (tmp_path / "both.npz").read_bytes())["arrays"]
    assert found["keys"].shape == (3, 3)
    assert found["values"].shape == (3, 2)
    assert questions.dropped("../k.csv", b"1,2\n3,4\n")["arrays"]["keys"].tolist() == [[1, 2], [3, 4]]
    for name, content, said in (
        ("k.csv", b"1,x\n3,4\n", "k.csv:"),
        ("k.npy", b"nothing", "k.npy: the file must be a whole .npy file, but it is damaged or cut short."),
        ("k.txt", b"1", "k.txt: the file must end in .npy"),
        ("k.csv", b"1,2\n" * 2001, "k.csv: keys must have up to 2000 rows of up to 64 numbers, but the shape is (2001, 2)."),
        ("k.json", b"[[1, NaN]]", "k.json: keys must be finite, but holds NaN or infinity."),
        (
            "k.csv",
            b"1" * (5 << 20),
            "k.csv: a file may have 4 MB here, but it has 5.0. Give it to headwise.design or headwise.stress in Python.",
        ),
        ("k.json", b"[" * 100_000, "k.json: the file must be JSON, but it cannot be read (it is nested too deeply)."),
        (
            "k.json",
            b"[[1" + b"0" * 5000 + b"]]",
            "k.json: the file must be JSON, but it cannot be read (a number is too long).",
        ),
        ("k.npy", header((10**12, 64)), "k.npy: the "),
        ("k.json", b'{"keys": [[1, "x"]], "values": [[1]]}', "k.json: the file must hold rows of numbers of equal length"),
        ("k.json", b'{"keys": [[1, 2]], "values": "oops"}', "k.json: the file must hold rows of numbers of equal length"),
        ("k.json", b'{"values": [[1]]}', "k.json: the file must hold keys, but it holds values without them."),
        ("k.json", b'{"keys": [[1], [2]], "values": [[1]]}', "k.json: keys and values must have as many rows, but"),
        ("k.json", b'{"keys": [[1e200, 0]]}', "k.json: keys must hold numbers up to 1e+100 in size, but one is larger."),
        (
            "k.json",
            b'{"k": [[1]], "v": [[1]]}',
            "k.json: the file must be named with one of its arrays, but it holds k, v. Call",
        ),
    ):
        with pytest.raises(hw.HeadwiseError) as caught:
            questions.dropped(name, content)
        assert str(caught.value).startswith(said)
        assert "/tmp" not in str(caught.value)  # noqa: S108  the folder is ours, not the user's


def test_no_two_modules_share_a_name():
    """They stand in one text in the offline file; every name that is declared at the top is declared once."""
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", bundled("page.js"), flags=re.MULTILINE)
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))
    assert not re.search(r"^(import|export) ", bundled("page.js"), flags=re.MULTILINE)


def test_nothing_is_fetched_from_elsewhere():
    for path in STATIC.iterdir():
        for url in re.findall(r"https?://[^\s\"'`)]+", path.read_text()):
            assert url.startswith(("http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML")), path.name


def test_ports_that_cannot_be():
    result = run("--port", "70000")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: serve(): port must be a whole number from 0 to 65535, but got 70000.")


def test_the_offline_file(tmp_path):
    result = run("--export", str(tmp_path / "lab.html"))
    assert result.exit_code == 0
    text = (tmp_path / "lab.html").read_text()
    assert '<link rel="stylesheet"' not in text
    assert "src=" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert text.count("</script>") == 1
    assert run("--export", str(tmp_path / "lab.txt")).stderr.startswith("error: ")


def test_widgets():
    made = hw.lab.widget("copy", keys=np.eye(3))
    assert made.state == {"panel": "copy", "state": {"keys": np.eye(3).tolist()}}
    sent = []
    made.send = lambda message, *_: sent.append(message)
    made._asked(None, {"id": 4, "kind": "copyable", "body": {"keys": SQUARE}}, None)
    made._asked(None, {"id": 5, "kind": "nothing", "body": {}}, None)
    made._asked(None, {"id": 6, "kind": "aim", "body": {"keys": []}}, None)
    made._asked(None, {"id": 7, "kind": "layer", "body": {"tokens": [[0, 0], [4, 0]], "targets": {"0": [4, 1]}}}, None)
    made._asked(None, {"id": 8, "kind": "file", "body": {"name": "..", "base64": ""}}, None)
    made._asked(None, {"id": 9, "kind": "aim", "body": {1j: object()}}, None)
    made._asked(None, {"id": 10}, None)
    made._asked(None, "not a message", None)
    assert [message["id"] for message in sent] == [4, 5, 6, 7, 8, 9, 10, None]
    assert sent[0]["answer"]["verdicts"][3] == "impossible"
    assert all("error" in message for message in [*sent[1:3], *sent[4:]])
    with pytest.raises(hw.HeadwiseError, match=r"widget\(\): panel must be"):
        hw.lab.widget("copying")


def test_every_kind_of_question_is_asked_here():
    assert set(KINDS) == {"aim", "check", "copyable", "curve", "extractor", "file", "layer", "noise", "parts", "remedies"}
