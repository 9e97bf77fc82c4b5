"""Marking: time for an answer, a class of 200 hand-ins, one that is killed half way, and mutated answers."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import row
from headwise.check import folder, load
from headwise.check.mark import judged

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "unit"))

HANDINS = 200
MUTATED = 200_000


def handins(place: Path) -> None:
    """Write hand-ins: an answer to every part, right or not, with numbers changed so that few are the same."""
    from written_answers import ANSWERS

    rng = random.Random(1)
    by_part: dict[str, list[str]] = {}
    for part, text, *_ in ANSWERS:
        by_part.setdefault(part, []).append(text)
    place.mkdir()
    for number in range(HANDINS):
        given = {part: rng.choice(texts) for part, texts in by_part.items()}
        given["b.ii"] = f"{rng.uniform(0.5, 2):.4f} t (k_a + k_b), t large"
        given["d.i"] = f"q_1 = {rng.uniform(0.5, 2):.4f} t mu_a, q_2 = {rng.uniform(0.5, 2):.4f} t mu_b, t large"
        (place / f"student{number:03}.json").write_text(json.dumps(given))


def killed(source: Path, goal: Path) -> bool:
    """Kill a run half way, run again, and say whether the gradebook is that of an undisturbed run."""
    program = f"from headwise.check import folder\nif __name__ == '__main__': folder({str(source)!r}, {str(goal)!r})"
    script = goal.parent / "mark.py"
    script.write_text(program)
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    while process.poll() is None and len(list(goal.glob("marks/*.json"))) < HANDINS // 2:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    found = folder(source, goal)
    print(f"  killed with {found.again} of {HANDINS} done", flush=True)
    return 0 < found.again < HANDINS


def main() -> None:
    from test_check_hostile import mutated
    from written_answers import ANSWERS

    sheet = load("attention")
    for part, text, *_ in ANSWERS:
        judged(sheet.problems[part], text)
    times = []
    for part, text, *_ in ANSWERS:
        start = time.perf_counter()
        judged(sheet.problems[part], text)
        times.append(time.perf_counter() - start)
    row("median time of an answer, warm, against 50 ms", statistics.median(times), 0.05, 1.0)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        handins(place / "in")
        start = time.perf_counter()
        folder(place / "in", place / "whole")
        row(f"{HANDINS} hand-ins on two cores, against a minute", time.perf_counter() - start, 60.0, 1.0)
        assert killed(place / "in", place / "killed")
        assert (place / "whole" / "gradebook.csv").read_bytes() == (place / "killed" / "gradebook.csv").read_bytes()
    rng = random.Random(5)
    slowest, read = 0.0, 0
    start = time.perf_counter()
    for _ in range(MUTATED):
        part, text, *_ = rng.choice(ANSWERS)
        before = time.perf_counter()
        read += judged(sheet.problems[part], mutated(text, rng)).status != "unreadable"
        slowest = max(slowest, time.perf_counter() - before)
    row(f"slowest of {MUTATED} mutated answers, against 2 s", slowest, 2.0, 1.0)
    print(f"  {read} of them could be read; {time.perf_counter() - start:.0f} s in all", flush=True)
