"""Verdict and best query for one key against HiGHS and against least squares over all keys; a layer against the clock.

The whole of `design.copy` also finds the smallest scale and tries it with `attend`; it has lines of its own.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog, nnls

from benchmarks.measure import in_turns, row
from headwise import design
from headwise.core.blas import one_blas_thread
from headwise.design.face import contest
from headwise.design.separate import Separation, separate

Work = Callable[[np.ndarray, int], object]


def by_program(keys: np.ndarray, index: int) -> bool:
    """Ask HiGHS for weights that mix the other keys to this one; True if it says that there are none."""
    others = np.delete(keys, index, axis=0)
    system = np.vstack([others.T, np.ones(len(others))])
    return linprog(np.zeros(len(others)), A_eq=system, b_eq=np.append(keys[index], 1.0), method="highs").status == 2


def proved(keys: np.ndarray, index: int) -> bool:
    """Find the best direction for a key and prove that it wins; True if it does."""
    return isinstance(separate(contest(keys, [index]).question), Separation)


def by_least_squares(keys: np.ndarray, index: int) -> np.ndarray:
    """Return the difference from the nearest point in the hull of the others, by one problem over all of them."""
    differences = (keys[index] - np.delete(keys, index, axis=0)) / np.abs(keys).max()
    wanted = np.append(np.zeros(keys.shape[1]), 1.0)
    shares, _ = nnls(np.vstack([differences.T, np.ones(len(differences))]), wanted)
    return shares @ differences / shares.sum()


def one_key(width: int, program: float, squares: float) -> None:
    """Print both ratios for 1900 keys, and check that the answers agree."""
    keys = np.random.default_rng(0).standard_normal((1900, width))
    rows = np.random.default_rng(1).choice(1900, 20, replace=False).tolist()
    for index in rows[:3]:
        found, point = design.copy(keys, index), by_least_squares(keys, index)
        assert found.verdict == "possible"
        assert abs(found.best_margin / (np.linalg.norm(point) * np.abs(keys).max()) - 1) < 1e-9

    def against(name: str, ours: Work, theirs: Work, few: int, factor: float) -> None:
        """Compare the time per key, over all rows for ours and a few for theirs."""
        times = in_turns(
            lambda: [ours(keys, index) for index in rows], lambda: [theirs(keys, index) for index in rows[:few]], rounds=5
        )
        row(f"{name}, 1900 x {width}", times[0] / len(rows) * 1e3, times[1] / few * 1e3, 1 / factor, unit="ms")

    against("one key against nnls on all keys", proved, by_least_squares, len(rows), squares)
    against("one key against HiGHS", proved, by_program, 1, program)
    against("design.copy against nnls on all keys", design.copy, by_least_squares, len(rows), 1)


def one_layer() -> None:
    """Time a layer in which every token reads another one."""
    rng = np.random.default_rng(0)
    tokens, reads = rng.standard_normal((64, 128)), dict(enumerate(rng.permutation(64).tolist()))
    times = []
    for _ in range(5):
        start = time.perf_counter()
        found = design.layer(tokens, reads=reads)
        times.append(time.perf_counter() - start)
    assert found.verdict == "possible"
    row("layer, 64 tokens of width 128, against 0.1 s", sorted(times)[2], 0.1, 1.0)


def main() -> None:
    with one_blas_thread():
        one_key(64, 100, 8)
        one_key(256, 150, 5)
        one_layer()
