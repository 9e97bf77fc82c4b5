"""The GPU programs, run by Triton's interpreter on the CPU, against the torch blocks in float64."""

import os
import random
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from array_api_compat import torch as xp

from headwise.core.masks import Table
from headwise.inspect import blocks
from headwise.inspect.ranges import tables
from headwise.inspect.rules import Spans
from headwise.inspect.task import Task

HERE = Path(__file__)
# Batch, heads, key heads, queries, keys, width, and what is special.
CASES = {
    "grouped": (1, 2, 1, 150, 150, 64, {}),
    "window": (1, 2, 2, 90, 130, 32, {"window": 50}),
    "padding": (2, 2, 1, 130, 130, 64, {"causal": False, "padding": True}),
    "late": (1, 2, 1, 150, 150, 32, {"late": True}),
    "cap": (1, 1, 1, 100, 100, 48, {"cap": 3.0, "window": 20}),
    "segments": (1, 2, 2, 120, 120, 64, {"segments": True}),
    "sink": (1, 2, 2, 77, 120, 64, {"sink": True}),
    "both ways": (1, 1, 1, 70, 70, 128, {"causal": False, "window": 9}),
    "half": (1, 1, 1, 70, 70, 64, {"dtype": torch.float16}),
    "half, long values": (1, 1, 1, 70, 70, 64, {"dtype": torch.float16, "values": 100}),
    "far": (1, 2, 1, 200, 200, 64, {"far": True}),
    "steep": (1, 2, 1, 200, 200, 64, {"far": True, "scale": 2e-6}),
}


def drawn(seed):
    """Return a case drawn at random: shapes, masks, scales, and how steep its scores are."""
    choice = random.Random(seed)
    batch, groups, keys, causal = choice.choice([1, 2]), choice.choice([1, 2]), choice.randint(1, 180), choice.random() < 0.6
    queries = choice.randint(1, keys if causal else 180)
    given = {"causal": causal, "steep": choice.choice([1, 1, 4, 12]), "cap": choice.choice([None, None, 3.0])}
    width = choice.choice([16, 32, 40, 64])
    given["scale"] = choice.choice([width**-0.5, width**-0.5, 1e-3, 2e-6])
    if choice.random() < 0.4:
        given["window"] = choice.randint(1, 60)
    if choice.random() < 0.4:
        starts = [choice.randrange(keys) for _ in range(batch)]
        given["seen"] = [(start, choice.randint(start + 1, keys)) for start in starts]
    if choice.random() < 0.3:
        given["sink"] = True
    return batch, groups * choice.choice([1, 2]), groups, queries, keys, width, given


def task_of(case, values, noise):
    """Return a task of float32, and the same in float64."""
    batch, heads, groups, queries, keys, width, given = case
    generator = torch.Generator().manual_seed(7)
    shapes = (batch, heads, queries, width), (batch, groups, keys, width), (batch, groups, keys, width)
    q, k, v = (torch.randn(shape, generator=generator).to(given.get("dtype", torch.float32)) for shape in shapes)
    if "far" in given:
        # Largest scores of some of these rows are far above those of the tile that comes first.
        q[:, :, 100:] *= 20
    v *= given.get("values", 1)
    scale = given.get("scale", width**-0.5)
    q *= given.get("steep", 1) * width**-0.5 / scale
    table = segments = sinks = None
    if "padding" in given:
        seen = torch.zeros(batch, 1, 1, keys, dtype=torch.bool)
        seen[0], seen[1, ..., 17:99] = True, True
        table = Table(seen)
    if "seen" in given:
        place = torch.arange(keys)
        table = Table(torch.stack([(place >= first) & (place < last) for first, last in given["seen"]])[:, None, None])
    if "late" in given:
        # A whole tile of rows has nothing to look at.
        table = Table((torch.arange(keys) >= 100).reshape(1, 1, 1, keys))
    if "segments" in given:
        segments = torch.repeat_interleave(torch.arange(3), keys // 3)[None]
    if "sink" in given:
        sinks = torch.randn(heads, generator=generator)
    rule = Spans(torch, xp, q.device, queries, keys, given.get("causal", True), given.get("window"), segments, table)
    made = [
        Task(torch, *arrays, v.to(dtype) if values else None, rule, scale, given.get("cap"), sinks, sensitivity=noise)
        for dtype in (q.dtype, torch.float64)
        for arrays in [(q.to(dtype), k.to(dtype))]
    ]
    return made[0], made[1]


def compare(name):
    """Run one case with and without values and noise; meant for a process whose Triton interprets."""
    from headwise.inspect.gpu import launch

    again = Watched(launch.contexts.rest)
    launch.contexts.rest = again
    for values, noise in ((False, False), (True, False), (True, True)):
        same(name, CASES[name], values, noise)
    if name == "half":
        task, _ = task_of(CASES[name], values=True, noise=True)
        assert launch.rows(replace(task, queries=100 * task.queries)) is None
    # Tiles are done again where there is reason to, and float16 has no first try.
    tries = {"half": set(), "half, long values": set(), "far": {0, 1}, "steep": {0, 1}}.get(name, {1})
    assert again.seen == tries, (name, again.seen)


def compare_drawn():
    """Run cases drawn at random."""
    for seed in range(24):
        same(seed, drawn(seed), values=seed % 3 > 0, noise=seed % 3 > 1, loud=True)


def same(name, case, values, noise, *, loud=False):
    """Check that the programs agree with the blocks in float64; where scores are loud, to their rounding."""
    from headwise.inspect.gpu import launch

    task, exact = task_of(case, values, noise)
    found, wanted = launch.rows(task), blocks.rows(exact)
    for field in wanted.__dataclass_fields__:
        x, y = getattr(found, field), getattr(wanted, field)
        if y is None:
            assert x is None, field
            continue
        equal = (x == y) | (torch.isinf(x) & torch.isinf(y))
        error = torch.where(equal, 0.0, (x.double() - y).abs() / (1 + y.abs()))
        limit = torch.tensor(0.5 if field == "top_index" else 2e-3 if task.queries.dtype.itemsize < 4 else 2e-5)
        if loud:
            limit = limit * (1 + wanted.top_score.abs().max() / 10)
        if field == "context":
            limit = limit * case[-1].get("values", 1)
        if field == "sensitivity":
            # A difference of sums: its rounding is a part of gain times squared value length.
            limit = limit + 1e-6 * wanted.gain * exact.values.square().sum(-1).max()
        assert bool((error < limit).all()), (name, field, float((error / limit).max()), case)


class Watched:
    """The program that does tiles again, with a note of which flags it has seen."""

    def __init__(self, program):
        self.program, self.seen = program, set()

    def __getitem__(self, grid):
        def started(*given, **options):
            self.seen |= set(given[7].unique().tolist())
            self.program[grid](*given, **options)

        return started


def single_keys():
    """The program for single keys by itself, for all types and widths: the interpreter has no products of bfloat16."""
    from headwise.inspect.gpu import rows

    count, nothing = 40, torch.zeros(1, 40, dtype=torch.int32)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for width in (32, 64, 128, 256):
            q, k = torch.randn(1, 2, count, width).to(dtype), torch.randn(1, 1, count, width).to(dtype)
            scores = 0.02 * q[0].double() @ k[0, 0].double().T
            code = torch.randint(4, (2, count), dtype=torch.int32)
            spread = torch.tensor([0, 1, 8, 9, 16, 17, 24, 25])
            best = (code[..., None] * 2 + spread).long()
            out, weights, found = torch.zeros(6, 2, count), torch.empty(4, 2, count), code.clone()
            out[5] = -10
            wide = min(width, 64)
            rows.single_keys[(-(-count * wide // 256), 2)](
                q, k, nothing, nothing + count, nothing, out, found, weights, *q.stride()[:3], *k.stride()[:3], count, count,
                0.02, 1.0, 2, 2, 2, D=width, BR=256 // wide, W=wide, CHUNK=8, CAP=False,
            )  # fmt: skip
            of_best = scores.gather(-1, best).sort(descending=True)
            assert bool((found == best.gather(-1, of_best.indices)[..., 0]).all()), (dtype, width)
            wanted = {
                "second": of_best.values[..., 1] - out[5],
                "first": scores[..., 0].exp() - weights[0],
                "own": torch.diagonal(scores, dim1=1, dim2=2).exp() - weights[1],
                "previous": torch.diagonal(scores, -1, dim1=1, dim2=2).exp() - weights[2, :, 1:],
            }
            for name, error in wanted.items():
                assert bool(error.abs().max() < 2e-5), (dtype, width, name, float(error.abs().max()))


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is made for Linux only")
@pytest.mark.parametrize("name", [*CASES, "single keys", "drawn"])
def test_programs_agree_with_blocks(name):
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE), name], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_ranges_say_what_rules_say():
    """First and last key of every query are those of the rule's own table; a table with a hole has no ranges."""
    for name, case in CASES.items():
        task, _ = task_of(case, values=False, noise=False)
        batch, _, queries, _ = task.queries.shape
        found = tables(task.rule, batch, torch)
        assert found is not None
        for entry in range(batch):
            answer = task.rule.block(entry, slice(0, queries), slice(0, task.rule.keys))
            whole = torch.ones(queries, task.rule.keys, dtype=torch.bool) & answer
            column = torch.arange(task.rule.keys)
            inside = (column >= found[0][entry][:, None]) & (column < found[1][entry][:, None])
            assert bool((whole == inside).all()), name
            assert bool((found[2][entry] == task.rule.first(entry)).all()), name
    seen = torch.ones(1, 1, 1, 9, dtype=torch.bool)
    seen[..., 4] = False
    assert tables(Spans(torch, xp, torch.device("cpu"), 9, 9, table=Table(seen)), 1, torch) is None


if __name__ == "__main__":
    {"single keys": single_keys, "drawn": compare_drawn}.get(sys.argv[1], partial(compare, sys.argv[1]))()
