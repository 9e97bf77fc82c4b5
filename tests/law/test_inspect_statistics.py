"""Row statistics in blocks against the whole map in float64: shapes, masks, windows, padding, segments, grouping."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_map import naive

import headwise.inspect.blocks as blocks_module
from headwise.inspect import compiled, engine
from headwise.inspect.statistics import statistics


@st.composite
def settings_of_heads(draw):
    """A setting: sizes, which keys may be seen, and the options that say so."""
    groups, each = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    keys = draw(st.integers(1, 70))
    queries = draw(st.integers(1, 70))
    width, value_width = draw(st.sampled_from([1, 4, 9])), draw(st.sampled_from([1, 5]))
    options, heads = {}, groups * each
    behind = (np.arange(queries) + keys - queries)[:, None] - np.arange(keys)
    allowed = np.ones((heads, queries, keys), dtype=bool)
    first = np.zeros(queries, dtype=int)
    if draw(st.booleans()):
        options["causal"] = True
        allowed &= behind >= 0
    if draw(st.booleans()):
        options["window"] = draw(st.integers(1, 40))
        allowed &= np.abs(behind) < options["window"]
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    seen = np.ones(keys, dtype=bool)
    kind = draw(st.sampled_from(["none", "padding", "table", "heads"]))
    if kind != "none":
        shape = {"padding": (keys,), "table": (queries, keys), "heads": (heads, queries, keys)}[kind]
        options["allowed"] = rng.random(shape) < draw(st.sampled_from([0.05, 0.5, 0.95]))
        allowed &= options["allowed"]
        seen = options["allowed"].reshape(-1, keys).any(0)
        first[:] = seen.argmax()
    if queries <= keys and draw(st.booleans()):
        options["segments"] = np.sort(rng.integers(0, 4, keys))
        labels = options["segments"]
        allowed &= labels[keys - queries :][:, None] == labels
        first = np.array([np.argmax(seen & (labels == label)) for label in labels[keys - queries :]])
    if draw(st.booleans()):
        options["sinks"] = rng.normal(size=heads) * 3
    if draw(st.booleans()):
        options["softcap"] = 2.5
    sizes = {"queries": (heads, queries, width), "keys": (groups, keys, width), "values": (groups, keys, value_width)}
    arrays = {name: rng.normal(size=size) * 2 for name, size in sizes.items()}
    return arrays, options, allowed, first


def wanted_of(arrays, options, allowed, first):
    scale = arrays["queries"].shape[-1] ** -0.5
    extra = {name: options[name] for name in ("sinks", "softcap") if name in options}
    return naive(arrays["queries"], arrays["keys"], arrays["values"], allowed, scale, first=first, **extra)


def compare(found, wanted, tolerance):
    for name, value in wanted.items():
        ours = np.asarray(getattr(found, name))
        scale = 1.0
        if name in ("sensitivity", "gain", "log_normalizer", "margin", "effective_keys", "collision_keys"):
            finite = np.abs(value[np.isfinite(value)])
            scale = 1.0 + (finite.max() if finite.size else 0.0)
        np.testing.assert_allclose(ours, value, rtol=0, atol=tolerance * scale, err_msg=name)


@settings(max_examples=60)
@given(settings_of_heads(), st.sampled_from([64, 1 << 9, 1 << 18]))
def test_float64_equals_the_map(case, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK", size)
        patch.setattr(blocks_module, "WIDTH", 32 if size < 1 << 18 else 512)
        arrays, options, _, _ = case
        found = statistics(**arrays, **options)
    assert found.entropy.dtype == np.float64
    compare(found, wanted_of(*case), 1e-10)


@settings(max_examples=30)
@given(settings_of_heads())
def test_float32_equals_the_map(case):
    arrays, options, allowed, first = case
    narrow = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    given_options = dict(options)
    if "sinks" in options:
        given_options["sinks"] = torch.from_numpy(options["sinks"]).float()
    found = statistics(**narrow, **given_options)
    assert found.entropy.dtype == torch.float32
    wide = {name: array.double().numpy() for name, array in narrow.items()}
    wanted = wanted_of(wide, options, allowed, first)
    near = wanted["margin"] < 1e-4  # ties within rounding are no mistake
    wanted["top_index"] = np.where(near, np.asarray(found.top_index), wanted["top_index"])
    compare(found, wanted, 1e-5)


def test_batch_with_padding_is_each_text_alone(rng):
    queries, keys, values = rng.normal(size=(2, 6, 11, 4)), rng.normal(size=(2, 2, 11, 4)), rng.normal(size=(2, 2, 11, 3))
    allowed = np.arange(11)[None] < np.array([11, 7])[:, None]
    found = statistics(queries, keys, values, causal=True, allowed=allowed[:, None, None, :])
    alone = statistics(queries[1, :, :7], keys[1, :, :7], values[1, :, :7], causal=True)
    for name in ("entropy", "margin", "first_weight", "previous_weight", "sensitivity", "contexts"):
        np.testing.assert_allclose(getattr(found, name)[1, :, :7], getattr(alone, name), rtol=1e-12, atol=1e-13)


def test_a_query_without_keys(rng):
    queries, keys = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4))
    allowed = np.array([[True] * 5, [False] * 5, [False, False, True, False, False]])
    found = statistics(queries, keys, keys, allowed=allowed)
    nothing = {name: np.asarray(getattr(found, name))[:, 1] for name in ("entropy", "effective_keys", "margin", "gain")}
    assert all((value == 0).all() for value in nothing.values())
    assert (found.log_normalizer[:, 1] == -np.inf).all()
    assert (found.top_index[:, 1] == -1).all()
    assert (found.contexts[:, 1] == 0).all()
    assert (found.margin[:, 2] == np.inf).all()
    assert (found.effective_keys[:, 2] == 1).all()


def test_the_first_of_equals_is_the_top():
    found = statistics(np.ones((1, 2)), np.ones((200, 2)))
    assert found.top_index.tolist() == [0]
    assert found.margin.tolist() == [0.0]
    assert found.effective_keys == pytest.approx(200)


def test_scores_may_be_large_and_sharp():
    """A tiny entropy is told, and no score overflows that float64 can hold."""
    found = statistics(np.array([[600.0, 0.0]]), np.eye(2), scale=1.0)
    assert found.entropy[0] == pytest.approx(600 * np.exp(-600), rel=1e-6)
    assert statistics(np.array([[1e150, 0.0]]), np.eye(2), scale=1.0).top_weight[0] == 1


def test_half_precision_is_computed_in_float32(rng):
    queries, keys = (torch.from_numpy(rng.normal(size=(2, 9, 8))).bfloat16() for _ in range(2))
    found = statistics(queries, keys, keys)
    wide = statistics(queries.float(), keys.float(), keys.float())
    assert found.entropy.dtype == torch.float32
    assert torch.equal(found.entropy, wide.entropy)


def test_memory_grows_with_length_not_with_its_square():
    """A map of 30 000 by 30 000 in float32 would take 3.6 GB; the statistics of a row take a few numbers."""
    import resource

    queries = torch.randn(1, 30_000, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = statistics(queries, queries, causal=True, window=300)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 2e8
    assert found.effective_keys.max() <= 301


def test_smaller_blocks_are_tried_when_memory_runs_out(rng, monkeypatch):
    tried, real = [], blocks_module.rows

    def short(task, block):
        tried.append(block)
        if block > 1 << 14:
            message = "[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes."
            raise RuntimeError(message)
        return real(task, block)

    monkeypatch.setattr(blocks_module, "rows", short)
    array = rng.normal(size=(1, 40, 4))
    found = statistics(array, array)
    assert len(tried) > 1
    assert found.entropy.shape == (1, 40)
    monkeypatch.setattr(engine, "_SMALLEST", 1 << 20)
    with pytest.raises(MemoryError) as caught:
        statistics(array, array)
    assert str(caught.value) == (
        "statistics(): 40 queries on 40 keys must fit in memory, but blocks of 393216 scores do not. "
        "Give fewer rows, fewer heads or a smaller batch at a time."
    )


def test_blocks_are_tried_where_the_loops_run_out_of_memory(monkeypatch):
    """NumPy's own error from one of the threads."""
    array = torch.randn(1, 2300, 4)
    wanted = statistics(array, array, array)
    short = np._core._exceptions._ArrayMemoryError((1 << 40,), np.dtype(float))

    def fail(*_):
        raise short

    monkeypatch.setattr(compiled._CompiledTile, "__init__", fail)
    found = statistics(array, array, array)
    for name in ("entropy", "contexts", "sensitivity"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=1e-5, atol=1e-6)


@settings(max_examples=30)
@given(settings_of_heads(), st.integers(2, 3), st.data())
def test_a_batch_is_each_entry_alone(case, count, data):
    """With keys that may be looked at of its own for each entry, and segments of its own."""
    arrays, options, allowed, _ = case
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    keys = allowed.shape[-1]
    many = {name: rng.normal(size=(count, *array.shape)) * 2 for name, array in arrays.items()}
    shared = {name: value for name, value in options.items() if name not in ("allowed", "segments")}
    masks = rng.random((count, 1, 1, keys)) < 0.7
    labels = np.sort(rng.integers(0, 3, (count, keys)), axis=-1)
    if "segments" in options:
        shared["segments"] = labels
    found = statistics(**many, **shared, allowed=masks)
    for entry in range(count):
        own = shared | ({"segments": labels[entry]} if "segments" in options else {})
        alone = statistics(**{name: array[entry] for name, array in many.items()}, **own, allowed=masks[entry])
        for name in (*wanted_of(*case), "contexts"):
            np.testing.assert_allclose(getattr(found, name)[entry], getattr(alone, name), rtol=1e-10, atol=1e-12, err_msg=name)


def test_plain_data_is_json():
    """Infinite margins are None."""
    found = statistics(np.ones((1, 2)), np.ones((1, 2))).to_dict()
    assert found["margin"] == [None]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
