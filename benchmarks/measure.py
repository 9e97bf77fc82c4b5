"""Timing two things in turns, so that a noisy machine disturbs both alike."""

import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """Return the median seconds of each after one round of warming up."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for work, times in zip((ours, theirs), seconds, strict=True):
            start = time.perf_counter()
            work()
            if turn:
                times.append(time.perf_counter() - start)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that Python and NumPy held at one time while `work` ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def peak() -> float:
    """Most gigabytes that this process held since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e6


def forget_peak() -> None:
    """Start counting for `peak` again."""
    Path("/proc/self/clear_refs").write_text("5")


def row(name: str, ours: float, theirs: float, goal: float, unit: str = "s") -> None:
    """Print one line: ours, the peer's, their ratio and the goal for it."""
    ratio = ours / theirs
    verdict = "met" if ratio <= goal else "MISSED"
    shown, wanted = (f"{x:.3f}" if x >= 0.01 else f"1/{1 / x:.0f}" for x in (ratio, goal))
    times = " ".join(f"{number:>10.4g} {unit:<2}" for number in (ours, theirs))
    print(f"{name:<66} {times} ratio {shown:>9}  goal <= {wanted}  {verdict}", flush=True)
