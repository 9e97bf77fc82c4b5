"""The lab: from the hand to the picture, the first load, and many people at once."""

import asyncio
import json
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from playwright.sync_api import Browser, sync_playwright

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CLIENTS, SECONDS = 64, 60

# From the moment the event is handled to the moment after the frame that follows it has been painted.
WATCH = """() => {
  window.waits = [];
  window.works = [];
  addEventListener("pointermove", (event) => {
    const start = performance.now();
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => waits.push(performance.now() - start);
      channel.port2.postMessage(0);
    });
  }, { capture: true });
}"""


@contextmanager
def lab() -> Iterator[tuple[str, int]]:
    """Start a lab and give its address and process."""
    command = [str(Path(sys.executable).with_name("headwise")), "lab", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())
        assert found
        while True:
            try:
                httpx.get(f"{found[0]}api/health")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        try:
            yield found[0], process.pid
        finally:
            process.send_signal(signal.SIGINT)


def memory(pid: int) -> float:
    """Return the megabytes that a process and its children hold."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    pages = [Path(f"/proc/{one}/statm").read_text().split()[1] for one in pids]
    return sum(map(int, pages)) * 4096 / 1e6


def said(name: str, found: float, goal: float, unit: str) -> None:
    verdict = "met" if found <= goal else "MISSED"
    print(f"{name:<66} {found:>9.4g} {unit:<3} goal <= {goal:g}  {verdict}", flush=True)


def drag(browser: Browser, address: str) -> None:
    rng = np.random.default_rng(0)
    for count in (200, 2000):
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.wait_for_selector(".headwise-lab h2")
        file = {"name": "k.json", "mimeType": "application/json"}
        data = {"keys": rng.standard_normal((count, 8)).tolist(), "values": rng.standard_normal((count, 8)).tolist()}
        page.locator("input[type=file]").set_input_files({**file, "buffer": json.dumps(data).encode()})
        page.wait_for_selector("text=seen along")
        page.wait_for_timeout(1000)
        page.evaluate(WATCH)
        box = page.locator("[aria-label^='query']").bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for step in range(300):
            turn = step / 15
            page.mouse.move(x + 50 * np.sin(turn), y + 50 * (np.cos(turn) - 1))
        page.mouse.up()
        page.wait_for_timeout(300)
        waits = page.evaluate("waits")
        said(f"drag at {count} keys of width 8, p95 of {len(waits)} events", float(np.quantile(waits, 0.95)), 16, "ms")
        page.close()


def first_load(browser: Browser, address: str) -> None:
    seconds, size = [], 0
    for _ in range(7):
        context = browser.new_context()
        page = context.new_page()
        sizes: list[int] = []
        page.on("requestfinished", lambda request, sizes=sizes: sizes.append(request.sizes()["responseBodySize"]))
        start = time.perf_counter()
        page.goto(address)
        page.wait_for_selector(".headwise-lab h2")
        seconds.append(time.perf_counter() - start)
        page.wait_for_load_state("networkidle")
        size = sum(sizes)
        context.close()
    said("first load, median of 7", statistics.median(seconds), 1, "s")
    said("first load, everything that is sent", size / 1e6, 1.5, "MB")


def question(rng: random.Random) -> tuple[str, dict[str, object]]:
    """Return something that a person would ask, about 200 keys; no two are the same."""
    kind = rng.choice(["aim", "copyable", "noise", "check", "extractor"])
    keys = [[round(rng.gauss(0, 1), 6) for _ in range(2)] for _ in range(200)]
    bodies: dict[str, dict[str, object]] = {
        "aim": {"keys": keys, "indices": [rng.randrange(200)]},
        "copyable": {"keys": keys},
        "noise": {"count": 200, "scale": rng.uniform(1, 20), "isotropic": 1e-6, "length_variance": rng.uniform(0.1, 1)},
        "check": {"part": "b.ii", "text": f"t ({rng.uniform(1, 2)} k_a + k_b), t large"},
        "extractor": {"basis": [keys[0]], "against": [keys[1]]},
    }
    return kind, bodies[kind]


async def crowd(address: str, pid: int) -> None:
    rng = random.Random(0)
    times: list[float] = []
    held: list[float] = []
    stop = time.monotonic() + SECONDS

    async def person(client: httpx.AsyncClient) -> None:
        await asyncio.sleep(rng.uniform(0, 2))
        while time.monotonic() < stop:
            kind, body = question(rng)
            start = time.perf_counter()
            reply = await client.post(f"{address}api/{kind}", json=body)
            times.append(time.perf_counter() - start)
            assert reply.status_code == 200, reply.text
            await asyncio.sleep(rng.uniform(1, 3))

    async def watch() -> None:
        while time.monotonic() < stop:
            held.append(memory(pid))
            await asyncio.sleep(1)

    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(limits=limits, timeout=30) as client:
        await asyncio.gather(watch(), *(person(client) for _ in range(CLIENTS)))
    slow = 1000 * float(np.quantile(times, 0.99))
    said(f"{CLIENTS} people for {SECONDS} s, {len(times)} mixed questions at n = 200, p99", slow, 250, "ms")
    early, late = statistics.median(held[5:15]), statistics.median(held[-10:])
    said(f"memory grew over that time (it is {late:.0f} MB)", late - early, 20, "MB")


def main() -> None:
    with lab() as (address, pid):
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            first_load(browser, address)
            drag(browser, address)
            browser.close()
        asyncio.run(crowd(address, pid))
