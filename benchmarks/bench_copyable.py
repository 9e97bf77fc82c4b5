"""`copyable` for all keys at once against one float32 product of the keys with themselves, and the memory it takes."""

import time

import numpy as np

from benchmarks.measure import forget_peak, peak, row
from headwise.core.blas import one_blas_thread
from headwise.design.copyable import Copyable, copyable
from headwise.design.witnesses import over_blocks

BLOCK = 2048
THREADS = 2


def product(keys: np.ndarray) -> float:
    """Seconds of K K^T in float32, in blocks that are not kept: one BLAS thread in each of two Python threads, as ours."""
    short = keys.astype(np.float32)

    def rows(start: int) -> None:
        space = np.empty(BLOCK * BLOCK, dtype=np.float32)
        queries = short[start : start + BLOCK]
        for first in range(0, len(short), BLOCK):
            others = short[first : first + BLOCK]
            np.matmul(queries, others.T, out=space[: len(queries) * len(others)].reshape(len(queries), len(others)))

    with one_blas_thread():
        start = time.perf_counter()
        for _ in over_blocks(rows, len(short), BLOCK, THREADS):
            pass
        return time.perf_counter() - start


def timed(keys: np.ndarray) -> tuple[float, Copyable]:
    start = time.perf_counter()
    found = copyable(keys, distance="bound", workers=THREADS)
    return time.perf_counter() - start, found


def case(count: int, width: int, goal: float, memory: float | None = None) -> None:
    keys = np.random.default_rng(0).standard_normal((count, width))
    copyable(keys[:2000], distance="bound")
    before = product(keys)
    forget_peak()
    ours, found = timed(keys)
    held = peak()
    theirs = (before + product(keys)) / 2
    row(f"copyable, {count} x {width} Gauss, against K K^T in float32", ours, theirs, goal)
    if memory is not None:
        row(f"copyable, {count} x {width} Gauss, memory (keys {keys.nbytes / 1e9:.2f} GB)", held, memory, 1.0, unit="GB")
    assert not found.undecided.any()
    print(f"  {found!r}", flush=True)


def main() -> None:
    case(50_257, 768, 0.6, memory=2.0)
    case(50_000, 8, 10.0)
