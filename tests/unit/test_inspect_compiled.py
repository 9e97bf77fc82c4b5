"""The compiled loops against the torch blocks in float64, over shapes, masks and what is asked."""

import threading

import numpy as np
import pytest
import torch
from array_api_compat import torch as xp
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.core.masks import Table
from headwise.inspect import blocks, compiled
from headwise.inspect.rules import Spans
from headwise.inspect.task import Task


@pytest.fixture(autouse=True)
def _worth(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH", 0)


@st.composite
def tasks(draw):
    groups, each, batch = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    queries = draw(st.sampled_from([1, 7, 130, 500]))
    keys = queries + draw(st.sampled_from([0, 1, 600]))
    width, value_width = draw(st.sampled_from([1, 8, 33])), draw(st.sampled_from([1, 16]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 1000)))

    def normal(*shape):
        return torch.randn(shape, generator=random)

    size = draw(st.sampled_from([0.0, 1.0, 6.0]))
    q, k, v = normal(batch, groups * each, queries, width) * size, normal(batch, groups, keys, width), None
    if draw(st.booleans()):
        v = normal(batch, groups, keys, value_width)
    kind, place = draw(st.sampled_from(["none", "padding", "nothing", "table"])), torch.arange(keys)
    table = {
        "padding": Table(torch.stack([(place > 3 * entry) & (place < keys - 2) for entry in range(batch)])[:, None, None]),
        "nothing": Table(torch.zeros(batch, 1, 1, keys, dtype=torch.bool)),
        "table": Table((place >= torch.arange(queries)[:, None] // 2) & (place < 400)),
    }.get(kind)
    segments = torch.arange(keys)[None] // 50 if draw(st.booleans()) else None
    window = draw(st.sampled_from([None, 1, 30]))
    rule = Spans(torch, xp, q.device, queries, keys, draw(st.booleans()), window, segments, table)
    sinks = normal(groups * each) if draw(st.booleans()) else None
    return Task(torch, q, k, v, rule, width**-0.5, None, sinks, sensitivity=draw(st.booleans()))


@settings(max_examples=60)
@given(task=tasks())
def test_loops_agree_with_blocks(task):
    found = compiled.rows(task)
    assert found is not None
    values = None if task.values is None else task.values.double()
    exact = Task(
        torch, task.queries.double(), task.keys.double(), values, task.rule, task.scale, None, task.sinks,
        sensitivity=task.sensitivity,
    )  # fmt: skip
    wanted = blocks.rows(exact)
    for name in wanted.__dataclass_fields__:
        x, y = getattr(found, name), getattr(wanted, name)
        if y is None:
            assert x is None, name
            continue
        assert x.shape == y.shape
        if name == "top_index":
            # Scores that differ by less than a rounding may change places.
            sure = wanted.top_score - wanted.second_score > 1e-4 * (1 + wanted.top_score.abs())
            assert bool((x == y)[sure].all())
            continue
        same = (x == y) | (torch.isinf(x) & (x.double() == y))
        error = torch.where(same, 0.0, (x.double() - y).abs() / (1 + y.abs()))
        limit = 1e-5 if name != "sensitivity" else 1e-5 * (1 + y.mean() / (1 + y.abs()))
        assert bool((error <= limit).all()), (name, float(error.max()))


def test_rows_are_counted_and_ctrl_c_stops():
    q, k = torch.randn(1, 2, 500, 8), torch.randn(1, 2, 500, 8)
    rule, heard = Spans(torch, xp, q.device, 500, 500), []
    compiled.rows(Task(torch, q, k, None, rule, 1.0, tick=lambda done, total: heard.append((done, total))))
    assert heard[-1] == (1000, 1000)
    assert np.all(np.diff([done for done, _ in heard]) > 0)

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled.rows(Task(torch, q, k, None, rule, 1.0, tick=stop))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_what_is_left_to_blocks(monkeypatch):
    q = torch.randn(1, 1, 9, 4)
    rule = Spans(torch, xp, q.device, 9, 9)
    assert compiled.rows(Task(torch, q, q, None, rule, 1.0)) is not None
    assert compiled.rows(Task(torch, q.double(), q.double(), None, rule, 1.0)) is None
    assert compiled.rows(Task(torch, q, q, None, rule, 1.0, 5.0)) is None
    holes = Spans(torch, xp, q.device, 9, 9, table=Table((torch.arange(9) % 2 == 0)[None]))
    assert compiled.rows(Task(torch, q, q, None, holes, 1.0)) is None
    monkeypatch.setattr(compiled, "WORTH", 82)
    assert compiled.rows(Task(torch, q, q, None, rule, 1.0)) is None


def test_scores_far_apart():
    """Terms that are left out as too small change nothing that is told."""
    q, k = torch.full((1, 1, 300, 1), 30.0), torch.linspace(-2, 2, 300)[None, None, :, None]
    task = Task(torch, q, k, k, Spans(torch, xp, q.device, 300, 300, causal=True), 1.0)
    found, wanted = compiled.rows(task), blocks.rows(task)
    assert found is not None
    for name in ("entropy", "purity", "context", "gain"):
        assert torch.allclose(getattr(found, name), getattr(wanted, name), rtol=1e-5, atol=1e-5), name
