"""Start the lab as a person does, and ask it things."""

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

HEADWISE = str(Path(sys.executable).with_name("headwise"))
# What is started so hears Ctrl-C even if the tests themselves, being in the background, do not.
HEARING = [shutil.which("env"), "--default-signal=INT"]


@contextmanager
def running(*words):
    """Give the address of a lab of its own, its process beside it; it is stopped by Ctrl-C at the end.

    What it prints after its address comes into `process.printed`, whole once the block has ended.
    """
    process = subprocess.Popen([*HEARING, HEADWISE, "lab", "--no-browser", *words], stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    address = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert address, line
    process.printed = []
    reader = threading.Thread(target=lambda: process.printed.extend(process.stderr), daemon=True)
    reader.start()
    try:
        wait_for(int(address[1]))
        yield address[0], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(20)
        reader.join(20)
        process.stderr.close()


def wait_for(port, seconds=60):
    """Wait until the server answers."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        try:
            if ask(port, "GET", "/api/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the lab did not start")


def free_port():
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_until(port, seconds=90):
    """Wait until somebody listens at a port."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens at {port}")


def helpers(process):
    """Return the processes that work for a server."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def ticks(leader):
    """Return the processor time that a process and those it started have used, in hundredths of a second."""
    used = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended meanwhile
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == leader:  # every helper leads a group
                used += sum(map(int, fields[11:15]))
    return used


def busy(process, count=1, seconds=60):
    """Wait until so many of its helpers have really worked."""
    before = {pid: ticks(pid) for pid in helpers(process)}
    start = time.monotonic()
    while sum(ticks(pid) - before[pid] >= 10 for pid in before) < count:
        assert time.monotonic() - start < seconds, "the helpers do not work"
        time.sleep(0.01)


def port_of(address):
    return int(address.rsplit(":", 1)[1].strip("/"))


def ask(port, method, path, body=None, headers=None):
    """Return status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
    connection.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, dict(reply.getheaders()), content
