"""How long a user waits before anything happens, against Python alone."""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import in_turns


def main() -> None:
    headwise = str(Path(sys.executable).with_name("headwise"))
    for name, command, goal in (
        ("headwise --help", [headwise, "--help"], 0.3),
        ("import headwise", [sys.executable, "-c", "import headwise"], 0.2),
        ("import headwise, attend", [sys.executable, "-c", "import headwise; headwise.attend"], 0.3),
    ):
        ours, bare = in_turns(
            lambda command=command: subprocess.run(command, check=True, capture_output=True),
            lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
            rounds=9,
        )
        verdict = "met" if ours <= goal else "MISSED"
        print(f"{name:<58} {ours:>9.3f} s; Python alone {bare:.3f} s  goal <= {goal} s  {verdict}", flush=True)
