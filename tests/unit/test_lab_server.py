"""The lab's server and the processes that work for it: who may ask, what stops, what is cleaned up."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from lab_server import HEADWISE, HEARING, ask, busy, helpers, port_of, running, wait_for

from headwise.lab.workers import Helper

SQUARE = [[0, 0], [4, 0], [0, 4], [1, 1]]
NOISY = {"count": 10, "scale": 10, "isotropic": 1e-6, "length_variance": 0.5}


@pytest.fixture(scope="module")
def lab():
    with running() as (address, _):
        yield port_of(address)


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
    refused = (
        ("POST", "/api/copyable", {"Host": "evil.example"}),
        ("POST", "/api/copyable", {"Host": "127.0.0.1.evil.example"}),
        ("POST", "/api/copyable", {"Origin": "http://evil.example"}),
        ("GET", "/api/copyable", {}),
        ("POST", "/", {}),
        ("GET", "/static/nothing.js", {}),
        ("GET", "/nothing", {}),
    )
    for method, path, more in refused:
        status, headers, content = ask(lab, method, path, body if method == "POST" else None, more)
        assert 400 <= status < 500
        assert headers["content-type"] == "application/json"
        assert "content-security-policy" in headers
        assert json.loads(content)["error"]


def test_files_over_http(lab):
    status, _, content = ask(lab, "POST", "/api/file?name=k.csv", b"1,2\n3,4\n", {"Content-Type": "application/octet-stream"})
    assert (status, json.loads(content)) == (200, {"arrays": {"keys": [[1.0, 2.0], [3.0, 4.0]]}})


def test_mutated_questions_never_break_it(lab):
    """Bytes changed, fields dropped, numbers made huge: the server says 200 or a sentence, never 500."""
    rng = random.Random(3)
    few = NOISY | {"count": 3}
    bodies = {
        "curve": few,
        "remedies": few,
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
    odd += [b"1e100", b"-1e-100", b"5e-324", b"1e16", b"0", b"-0.0"]
    names = ["k.csv", "k.json", "k.npy", "k.npz", "k.safetensors", "..", "%00.csv", "%C3%A9" * 90, "a%2Fb.csv", "", "<b>.csv"]
    seen = set()
    for _ in range(500):
        kind = rng.choice(list(bodies))
        text = bytearray(json.dumps(bodies[kind]).encode())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text) + 1)
            cut = rng.randrange(4)
            text[place : place + cut] = rng.choice([rng.choice(odd), bytes([rng.randrange(256)]), b""])
        name = f"?name={rng.choice(names)}" if kind == "file" else ""
        status, _, content = ask(lab, "POST", f"/api/{kind}{name}", bytes(text))
        assert status in (200, 400), (kind, bytes(text), content)
        assert status == 200 or json.loads(content)["error"]
        seen.add((kind, status))
    assert {status for _, status in seen} == {200, 400}


def asked_by_hand(port, kind, body, *, part=1.0):
    """Send a question, or the first part of it, and return the open connection."""
    lines = (f"POST /api/{kind} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}")
    opened = socket.create_connection(("127.0.0.1", port))
    opened.sendall("\r\n".join((*lines, "", "")).encode() + body[: int(part * len(body))])
    return opened


def large_question():
    return json.dumps({"keys": np.random.default_rng(0).standard_normal((2000, 64)).tolist()}).encode()


def long_question(scale=100):
    """Work for longer than anybody waits."""
    return json.dumps({"count": 200, "scale": scale, "isotropic": 0.1, "length_variance": 0.5}).encode()


def test_work_that_nobody_waits_for_is_given_up():
    """Both processes are at work when the clients go; work cannot be called back, so the processes must end."""
    with running() as (address, process):
        workers = helpers(process)
        left = [asked_by_hand(port_of(address), "remedies", long_question(scale)) for scale in (100, 101)]
        busy(process, 2)
        for one in left:
            one.close()
        start = time.monotonic()
        while any(pid in helpers(process) for pid in workers):
            assert time.monotonic() - start < 60, "the work goes on"
            time.sleep(0.05)
        assert ask(port_of(address), "POST", "/api/parts", {})[0] == 200


def test_ctrl_c_while_something_is_worked_on():
    """The open question is answered with that the server stops, and nothing but "stopped" is printed."""
    with running() as (address, process):
        with asked_by_hand(port_of(address), "remedies", long_question()) as opened:
            busy(process)
            process.send_signal(signal.SIGINT)
            opened.settimeout(30)
            reply = b"".join(iter(lambda: opened.recv(4096), b""))
        assert process.wait(30) == 0
    assert reply.startswith(b"HTTP/1.1 503")
    assert json.loads(reply.partition(b"\r\n\r\n")[2]) == {"error": "the server has stopped."}
    assert process.printed == ["stopped\n"]


def test_a_client_that_goes_in_the_middle_of_a_question():
    with running() as (address, process):
        for part in (0.0, 0.5, 0.9):
            asked_by_hand(port_of(address), "copyable", large_question(), part=part).close()
        assert ask(port_of(address), "POST", "/api/parts", {})[0] == 200
    assert process.printed == ["stopped\n"]


def test_warnings_of_the_work_stay_out_of_the_terminal():
    """Numbers far apart make NumPy warn; whoever looks at the page does not see it in the terminal."""
    with running() as (address, process):
        for keys in ([[1e-300, 0], [1e100, 1], [0, 1e-320]], [[1e99, 1e-99]] * 3):
            for kind, more in (("copyable", {}), ("aim", {"indices": [0], "values": keys}), ("aim", {"indices": [0, 1]})):
                assert ask(port_of(address), "POST", f"/api/{kind}", {"keys": keys, **more})[0] in (200, 400)
    assert process.printed == ["stopped\n"]


def test_a_port_that_is_taken(lab):
    done = subprocess.run([HEADWISE, "lab", "--no-browser", "--port", str(lab)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first, second = done.stderr.strip().splitlines()
    assert first == f"error: serve(): port must be free, but {lab} is used by another headwise lab."
    assert re.fullmatch(r"hint: Try: headwise lab --port \d+", second)


def test_ctrl_c_stops_it_and_its_processes():
    with running() as (_, process):
        children = helpers(process)
        assert len(children) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    time.sleep(0.2)
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_killed_worker_is_replaced():
    with running() as (address, process):
        for child in helpers(process):
            os.kill(child, signal.SIGKILL)
        time.sleep(0.2)
        statuses = [ask(port_of(address), "POST", "/api/parts", {})[0] for _ in range(3)]
        assert statuses[-1] == 200


def test_no_browser_is_no_trouble(tmp_path):
    """Where none can be opened, the address is printed and the server runs."""
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    process = subprocess.Popen([*HEARING, sys.executable, HEADWISE, "lab"], stderr=subprocess.PIPE, text=True, env=env)
    try:
        first = process.stderr.readline()
        assert first.startswith("the lab is at http://127.0.0.1:")
        wait_for(int(re.search(r":(\d+)/", first)[1]))
        assert process.stderr.readline().startswith("no browser was found; open http://127.0.0.1:")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_helper_gives_up_and_is_replaced():
    """Work that takes too long, and a process that somebody kills: a sentence each, and the next question is answered."""
    helper = Helper(seconds=0.2)
    try:
        status, content = helper.ask("remedies", long_question())
        assert (status, json.loads(content)["error"][:39]) == (400, "the work must end within 0.2 s here, bu")
        helper.seconds = 60
        assert helper.ask("parts", b"{}")[0] == 200
        same = helper.process
        assert helper.ask("copyable", b"{")[0] == 400
        assert helper.process is same
        late = threading.Timer(0.3, same.kill)
        late.start()
        status, content = helper.ask("remedies", long_question())
        assert (status, json.loads(content)["error"]) == (500, "the process that works on this has ended; ask again.")
        assert helper.ask("parts", b"{}")[0] == 200
    finally:
        helper.end()


def test_the_command_tells_a_program_where_it_is(tmp_path):
    with subprocess.Popen([*HEARING, HEADWISE, "lab", "--no-browser", "--json"], stdout=-1, stderr=-1, text=True) as process:
        line = process.stdout.readline()
        port = int(json.loads(line)["address"].removeprefix("http://127.0.0.1:").rstrip("/"))
        wait_for(port)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    done = subprocess.run(
        [HEADWISE, "lab", "--export", tmp_path / "a.html", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"written": str(tmp_path / "a.html")}
