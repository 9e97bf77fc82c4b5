"""`attend` against torch's own kernel and against the plain NumPy script."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import headwise as hw
from benchmarks.measure import in_turns, peak_bytes, row


def against_torch() -> None:
    """Contexts of 8 heads, 4096 tokens, width 64, float32."""
    queries, keys, values = torch.randn(3, 1, 8, 4096, 64)
    scale = 64**-0.5
    ours, theirs = in_turns(
        lambda: hw.attend(queries, keys, values, scale=scale).contexts,
        lambda: torch.nn.functional.scaled_dot_product_attention(queries, keys, values, scale=scale),
        rounds=15,
    )
    row("torch contexts, 8 x 4096 x 64, against SDPA", ours, theirs, 1.05)


def plain(queries: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Softmax attention as everyone writes it."""
    scores = queries @ keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ values


def against_numpy() -> None:
    """1 000 queries on 100 000 keys of width 64: seconds and peak memory."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        queries, keys, values = (rng.normal(size=(n, 64)).astype(dtype) for n in (1_000, 100_000, 100_000))
        queries *= dtype(0.125)
        name = f"NumPy contexts, 1000 x 100000 x 64, {np.dtype(dtype)}"
        ours, theirs = in_turns(
            lambda q=queries, k=keys, v=values: hw.attend(q, k, v).contexts,
            lambda q=queries, k=keys, v=values: plain(q, k, v),
            rounds=5,
        )
        row(f"{name}, against plain", ours, theirs, 1.0)
        memory = [
            peak_bytes(work) / 1e6
            for work in (
                lambda q=queries, k=keys, v=values: hw.attend(q, k, v).contexts,
                lambda q=queries, k=keys, v=values: plain(q, k, v),
            )
        ]
        row(f"{name}, peak memory", *memory, 0.1, unit="MB")


def many_keys(count: int = 10_000_000) -> None:
    """Ten million keys in a file, all statistics: time against reading the file, memory against holding it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.npy"
        stored = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(count, 64))
        rng = np.random.default_rng(0)
        for start in range(0, count, 500_000):
            stored[start : start + 500_000] = rng.standard_normal((min(500_000, count - start), 64), dtype=np.float32)
        stored.flush()
        del stored
        keys = np.load(path, mmap_mode="r")
        queries = 0.125 * rng.standard_normal((4, 64), dtype=np.float32)

        def everything() -> None:
            out = hw.attend(queries, keys, keys)
            assert np.isfinite([out.log_normalizer, out.entropy, out.margin, out.top]).all()
            assert np.isfinite(out.contexts).all()

        start = time.perf_counter()
        used = peak_bytes(everything) / 1e6
        ours = time.perf_counter() - start
        start = time.perf_counter()
        for first in range(0, count, 65_536):
            keys[first : first + 65_536].sum()
        theirs = time.perf_counter() - start
        row(f"{count:,} keys in a file, 4 queries, all statistics, memory", used, keys.nbytes / 1e6, 0.1, unit="MB")
        print(f"{'':<58} {ours:>9.3f} s; summing the file takes {theirs:.3f} s", flush=True)


def main() -> None:
    against_torch()
    against_numpy()
    many_keys()
