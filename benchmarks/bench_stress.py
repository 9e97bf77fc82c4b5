"""`stress.law` against vectorised NumPy that samples whole keys: time to an error of 1e-3 in the covariance.

The peer's time is its measured rate times the draws it needs, from the spread of its own samples.
"""

import time
from collections.abc import Callable

import numpy as np

from benchmarks.measure import forget_peak, peak, row
from benchmarks.noise_cases import CASES, Case, whole_keys
from headwise import RandomKeys
from headwise.core.blas import one_blas_thread
from headwise.stress import law
from headwise.stress.sampling import Sampler, contexts
from headwise.stress.scores import Scores

FACTORS = {"A1": 1e3, "A2": 1e4, "B": 3e5, "C": 1e6}
# The time in which a finer tolerance has to be reached, in seconds.
FINE = {"A1": (1e-9, 3e-3), "B": (1e-6, 0.5), "C": (1e-6, 10.0)}


def best_of(case: Case, tolerance: float, rounds: int) -> tuple[float, float]:
    """Return the median time, and the error stated."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        found = law(case.queries, case.keys, case.values, tolerance=tolerance)
        times.append(time.perf_counter() - start)
    assert found.met
    return float(np.median(times[1:] if rounds > 1 else times)), found.error


def peer(case: Case) -> float:
    """Return the seconds that sampling whole keys would take for an error of 1e-3."""
    rng = np.random.default_rng(0)
    size = int(np.clip(2**23 // case.means.size, 1, 4096))
    start, drawn = time.perf_counter(), []
    while time.perf_counter() - start < 3 or len(drawn) < 2:
        drawn.append(whole_keys(case, size, rng))
    rate = (time.perf_counter() - start) / (len(drawn) * size)
    # The spread of a covariance from n draws is K / sqrt(n) of its size; K from samples of scores, which are cheaper.
    scores = Scores(case.queries, case.keys, case.values)
    few = int(np.clip(2**27 // (scores.count * scores.heads), 64, 20_000))
    away = np.concatenate([contexts(scores, min(few, 500), rng).mean(axis=1) for _ in range(-(-few // 500))])
    away = away - away.mean(axis=0)
    covariance = away.T @ away / len(away)
    size_of = float((covariance**2).sum())
    constant = (float(((away**2).sum(axis=1) ** 2).mean()) - size_of) / size_of
    return rate * constant * 1e6


def sampler(case: Case) -> None:
    """Print how many scores are drawn per second: compiled, the same numbers by NumPy, and by NumPy's own generator."""
    scores = Scores(case.queries, case.keys, case.values)
    drawn = Sampler(scores)
    each = scores.count * scores.heads
    fused, plain = (_rate(lambda first, c=c: drawn.weights((0, 0), first, 4, compiled=c), each) for c in (True, False))
    usual = _rate(lambda first: contexts(scores, 4, np.random.default_rng(first)), each)
    reads = _rate(lambda first: drawn.contexts((0, 0), first, 4), each)
    row("fused sampler, case C, time per score against 0.6 G scores/s", 1 / fused, 1 / 0.6, 1.0, unit="ns")
    row("fused sampler, case C, against the same by NumPy", 1 / fused, 1 / plain, 1.0, unit="ns")
    print(f"  with contexts {reads:.3f}, in NumPy with its own generator {usual:.3f} G scores per second", flush=True)


def _rate(work: Callable[[int], object], each: int) -> float:
    """Return G scores per second for calls that make four draws."""
    work(0)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < 2:
        work(done)
        done += 4
    return done * each / (time.perf_counter() - start) / 1e9


def million() -> None:
    """Print time and memory for a million keys in eight heads."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((1_000_000, 16)) / 4
    keys = RandomKeys(means, isotropic=1e-2, along_mean=dict.fromkeys(range(8), 0.5))
    values = rng.standard_normal((1_000_000, 8))
    forget_peak()
    start = time.perf_counter()
    found = law(4 * means[:8] / np.linalg.norm(means[:8], axis=1, keepdims=True), keys, values)
    seconds, held = time.perf_counter() - start, peak()
    row("law, 1 000 000 keys in 8 heads, memory (means and values 0.19 GB)", held, 4.0, 1.0, unit="GB")
    print(f"  {found!r} in {seconds:.1f} s", flush=True)


def main() -> None:
    with one_blas_thread():
        for name, factor in FACTORS.items():
            case = CASES[name]()
            ours, _ = best_of(case, 1e-3, 9 if name.startswith("A") else 2)
            row(f"law to 1e-3, case {name}, against sampling whole keys", ours, peer(case), 1 / factor)
            if name in FINE:
                tolerance, limit = FINE[name]
                seconds, error = best_of(case, tolerance, 9 if name.startswith("A") else 1)
                row(f"law to {tolerance:g}, case {name} (stated {error:.1e}), against the clock", seconds, limit, 1.0)
            if name == "C":
                sampler(case)
        million()
