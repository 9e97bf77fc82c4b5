"""The lab's questions, its server and its files, without a browser."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from lab_server import HEADWISE, ask, port_of, running, wait_for

import headwise as hw
from headwise.cli import main
from headwise.lab import questions
from headwise.lab.bundle import STATIC, bundled
from headwise.lab.questions import KINDS, answered

SQUARE = [[0, 0], [4, 0], [0, 4], [1, 1]]
NOISY = {"count": 10, "scale": 10, "isotropic": 1e-6, "length_variance": 0.5}


@pytest.fixture(scope="module")
def lab():
    with running() as (address, _):
        yield port_of(address)


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
    assert errors == sorted(errors)
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
    ],
)
def test_bad_questions_get_a_sentence(kind, body, said):
    status, found = answer(kind, body)
    assert status == 400
    assert said in found["error"]


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
        ("k.csv", b"1" * (5 << 20), "k.csv: a file may have 4 MB here, but it has 5.0. Use Python."),
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


def test_headers_and_who_may_ask(lab):
    status, headers, content = ask(lab, "GET", "/")
    assert (status, b"headwise lab" in content) == (200, True)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "access-control-allow-origin" not in headers
    body = {"keys": SQUARE}
    assert ask(lab, "POST", "/api/copyable", body)[0] == 200
    assert ask(lab, "POST", "/api/copyable", body, {"Host": "evil.example"})[0] == 400
    assert ask(lab, "GET", "/", None, {"Host": f"evil.example:{lab}"})[0] == 400
    assert ask(lab, "POST", "/api/copyable", body, {"Origin": "http://evil.example"})[0] == 403
    assert ask(lab, "POST", "/api/copyable", body, {"Origin": f"http://127.0.0.1:{lab}"})[0] == 200
    assert ask(lab, "POST", "/api/copyable", body, {"Content-Type": "text/plain"})[0] == 415
    assert ask(lab, "POST", "/api/nothing", body)[0] == 404
    assert ask(lab, "GET", "/api/copyable")[0] == 405
    assert ask(lab, "GET", "/static/../server.py")[0] == 404
    assert ask(lab, "POST", "/api/copyable", b" " * (7 << 20))[0] == 413


def test_files_over_http(lab):
    status, _, content = ask(lab, "POST", "/api/file?name=k.csv", b"1,2\n3,4\n", {"Content-Type": "application/octet-stream"})
    assert (status, json.loads(content)) == (200, {"arrays": {"keys": [[1.0, 2.0], [3.0, 4.0]]}})


def test_mutated_questions_never_break_it(lab):
    """Bytes changed, fields dropped, numbers made huge: the server says 200 or a sentence, never 500."""
    rng = random.Random(3)
    bodies = {
        "aim": {"keys": SQUARE, "indices": [1, 2], "values": SQUARE, "leak": 0.01},
        "copyable": {"keys": SQUARE},
        "noise": NOISY,
        "layer": {"tokens": [[1, 0], [0, 1]], "targets": {"0": [0, 1]}},
        "extractor": {"basis": [[1, 0]], "against": [[1, 1]]},
        "check": {"part": "b.ii", "text": "t (k_a + k_b), t large"},
        "parts": {},
        "file": "1,2\n3,4\n",
    }
    odd = [b"1e308", b"-1e308", b"1e-320", b"NaN", b"null", b"[]", b"{}", b'"x"', b"\x00", b"\xff", b"9" * 400, b"[[[["]
    seen = set()
    for _ in range(400):
        kind = rng.choice(list(bodies))
        text = bytearray(json.dumps(bodies[kind]).encode())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text) + 1)
            cut = rng.randrange(4)
            text[place : place + cut] = rng.choice([rng.choice(odd), bytes([rng.randrange(256)]), b""])
        status, _, content = ask(lab, "POST", f"/api/{kind}", bytes(text))
        assert status in (200, 400), (kind, bytes(text), content)
        assert status == 200 or json.loads(content)["error"]
        seen.add((kind, status))
    assert {status for _, status in seen} == {200, 400}


def test_work_that_nobody_waits_for_is_given_up(lab):
    """Both processes are put to work on something long; the clients go away; the next question is answered soon."""
    rng = np.random.default_rng(0)
    body = json.dumps({"keys": rng.standard_normal((2000, 64)).tolist()}).encode()
    lines = ("POST /api/copyable HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}")
    head = "\r\n".join((*lines, "", ""))
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", lab)) as left:
            left.sendall(head.encode() + body)
            time.sleep(0.3)
    start = time.monotonic()
    assert ask(lab, "POST", "/api/parts", {})[0] == 200
    assert time.monotonic() - start < 20


def test_a_port_that_is_taken(lab):
    done = subprocess.run([HEADWISE, "lab", "--no-browser", "--port", str(lab)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, second = done.stderr.strip().splitlines()
    assert first == f"error: serve(): port must be free, but {lab} is used by another headwise lab."
    assert re.fullmatch(r"hint: Try: headwise lab --port \d+", second)


def test_ports_that_cannot_be():
    result = run("--port", "70000")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: serve(): port must be a whole number from 0 to 65535, but got 70000.")


def test_ctrl_c_stops_it_and_its_processes():
    with running() as (_, process):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    time.sleep(0.2)
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_killed_worker_is_replaced():
    with running() as (address, process):
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        time.sleep(0.2)
        statuses = [ask(port_of(address), "POST", "/api/parts", {})[0] for _ in range(3)]
        assert statuses[-1] == 200


def test_no_browser_is_no_trouble(tmp_path):
    """Where none can be opened, the address is printed and the server runs."""
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    process = subprocess.Popen([sys.executable, HEADWISE, "lab"], stderr=subprocess.PIPE, text=True, env=env)
    try:
        first = process.stderr.readline()
        assert first.startswith("the lab is at http://127.0.0.1:")
        wait_for(int(re.search(r":(\d+)/", first)[1]))
        assert process.stderr.readline().startswith("no browser was found; open http://127.0.0.1:")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


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
    assert [message["id"] for message in sent] == [4, 5, 6]
    assert sent[0]["answer"]["verdicts"][3] == "impossible"
    assert all("error" in message for message in sent[1:])
    with pytest.raises(hw.HeadwiseError, match=r"widget\(\): panel must be"):
        hw.lab.widget("copying")


def test_every_kind_of_question_is_asked_here():
    assert set(KINDS) == {"aim", "check", "copyable", "curve", "extractor", "file", "layer", "noise", "parts", "remedies"}


def test_the_command_tells_a_program_where_it_is(tmp_path):
    with subprocess.Popen([HEADWISE, "lab", "--no-browser", "--json"], stdout=-1, stderr=-1, text=True) as process:
        line = process.stdout.readline()
        port = int(json.loads(line)["address"].removeprefix("http://127.0.0.1:").rstrip("/"))
        wait_for(port)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    done = subprocess.run(
        [HEADWISE, "lab", "--export", tmp_path / "a.html", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"written": str(tmp_path / "a.html")}
