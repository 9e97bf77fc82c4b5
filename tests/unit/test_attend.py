"""Shapes, kinds and special cases of `attend`, for every array library."""

import cases
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import headwise as hw
from headwise.core import setting as setting_module
from headwise.shown import plain

NUMBERS = ("log_normalizer", "entropy", "effective_keys", "collision_keys", "top", "top_weight", "margin", "score_error")


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_known_weights(library, case):
    query, keys = library(case.query, case.keys)
    out = hw.attend(query, keys, keys)
    # Scores near 1e4 carry a rounding error of 1e-12 before the softmax.
    np.testing.assert_allclose(np.asarray(out.weights), case.weights, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(np.asarray(out.contexts), case.weights @ case.keys, rtol=1e-11, atol=1e-11)
    entropy = -sum(weight * np.log(weight) for weight in case.weights if weight > 0)
    np.testing.assert_allclose(float(out.entropy), entropy, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(float(out.effective_keys), np.exp(entropy), rtol=1e-11)
    np.testing.assert_allclose(float(out.collision_keys), 1 / (case.weights**2).sum(), rtol=1e-11)
    assert int(out.top) == case.weights.argmax()


@pytest.mark.parametrize(
    ("queries", "keys", "values", "batch"),
    [
        ((3,), (5, 3), (5, 2), ()),
        ((7, 3), (5, 3), (5, 2), (7,)),
        ((2, 7, 3), (5, 3), (5, 11), (2, 7)),
        ((7, 3), (2, 5, 3), (5, 11), (2, 7)),
        ((7, 3), (5, 3), (2, 5, 11), (7,)),
        ((13, 1, 7, 3), (2, 5, 3), (13, 2, 5, 11), (13, 2, 7)),
    ],
)
def test_shapes_broadcast(library, rng, queries, keys, values, batch):
    arrays = [rng.normal(size=shape) for shape in (queries, keys, values)]
    out = hw.attend(*library(*arrays))
    scores = arrays[0] @ np.swapaxes(arrays[1], -1, -2)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    wanted = weights @ arrays[2] if len(queries) > 1 else (weights[None] @ arrays[2])[..., 0, :]
    np.testing.assert_allclose(np.asarray(out.contexts), wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(np.asarray(out.weights), weights, rtol=1e-12)
    assert out.scores.shape == (*batch, 5)
    assert {tuple(getattr(out, name).shape) for name in NUMBERS} == {batch}
    assert tuple(out.leak([0, 1]).shape) == batch


def test_kind_dtype_and_inputs_are_kept(library, rng):
    arrays = library(rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2)))
    before = [np.asarray(array).copy() for array in arrays]
    out = hw.attend(*arrays)
    results = [out.scores, out.weights, out.contexts, out.leak(0), *(getattr(out, name) for name in NUMBERS)]
    assert all(isinstance(result, library.kind) for result in results)
    floats = [result for result in results if result is not out.top]
    assert {str(result.dtype).rsplit(".", maxsplit=1)[-1] for result in floats} == {"float64"}
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(np.asarray(array), copy)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_torch_small_dtypes_are_kept(dtype):
    keys = torch.eye(5, dtype=dtype)
    out = hw.attend(keys, keys, keys)
    assert {out.contexts.dtype, out.weights.dtype, out.scores.dtype, out.entropy.dtype} == {dtype}
    # e / (e + 4) and the resolution of the coarsest of the three
    assert abs(float(out.weights[0, 0]) - np.e / (np.e + 4)) < 2**-8


def test_numpy_half_and_jax_bfloat16_compute_in_float32():
    half = np.full((3, 2), 200.0, dtype=np.float16)  # scores of 80 000 overflow float16
    out = hw.attend(half, half, half)
    assert out.weights.dtype == np.float16
    np.testing.assert_array_equal(out.weights, np.full((3, 3), np.float16(1 / 3)))
    tiny = jnp.eye(3, dtype=jnp.bfloat16)
    assert hw.attend(tiny, tiny, tiny).contexts.dtype == jnp.bfloat16


def test_mixed_widths_take_the_wider():
    keys = np.eye(3)
    assert hw.attend(keys.astype(np.float32), keys, keys).contexts.dtype == np.float64


def test_gradients_flow_through_torch():
    keys = torch.eye(3, dtype=torch.float64)
    query = torch.tensor([0.3, -0.1, 0.2], dtype=torch.float64, requires_grad=True)
    for quantity in ("contexts", "entropy", "weights"):
        assert torch.autograd.gradcheck(lambda q, name=quantity: getattr(hw.attend(q, keys, keys), name), (query,))


def test_mask_hides_keys(library, rng):
    queries, keys, values = rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    allowed = rng.random((7, 5)) < 0.6
    allowed[:, 2] = True
    out = hw.attend(*library(queries, keys, values), allowed=library.asarray(allowed))
    for i in range(7):
        part = hw.attend(queries[i], keys[allowed[i]], values[allowed[i]])
        np.testing.assert_allclose(np.asarray(out.contexts)[i], part.contexts, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(float(out.entropy[i]), part.entropy, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(float(out.margin[i]), part.margin, rtol=1e-12)
        assert np.flatnonzero(allowed[i])[part.top] == int(out.top[i])
    assert np.asarray(out.weights)[~allowed].max() == 0
    assert np.asarray(out.scores)[~allowed].max() == -np.inf


def test_a_mask_of_another_library_will_do():
    keys = torch.eye(3)
    out = hw.attend(keys, keys, keys, allowed=np.tril(np.ones((3, 3), dtype=bool)))
    assert out.weights[0].tolist() == [1.0, 0.0, 0.0]


def test_empty_zero(library):
    keys = np.eye(3)
    out = hw.attend(*library(keys, keys, keys), allowed=library.asarray(np.diag([True, False, True])), empty="zero")
    row = {name: float(getattr(out, name)[1]) for name in NUMBERS if name != "score_error"}
    zeros = dict.fromkeys(("entropy", "effective_keys", "collision_keys", "top_weight", "margin"), 0.0)
    assert row == {**zeros, "log_normalizer": -np.inf, "top": -1}
    assert np.asarray(out.contexts).tolist() == np.diag([1.0, 0.0, 1.0]).tolist()
    assert np.asarray(out.weights).tolist() == np.diag([1.0, 0.0, 1.0]).tolist()
    assert np.asarray(out.leak(0)).tolist() == [0.0, 0.0, 1.0]


def test_one_visible_key_has_infinite_margin(library):
    keys = np.eye(3)
    out = hw.attend(*library(keys, keys, keys), allowed=hw.causal(3, 3))
    assert float(out.margin[0]) == np.inf
    assert float(out.log_leak(0)[0]) == -np.inf


def test_leak_of_none_and_of_all(library):
    keys = np.eye(4)
    out = hw.attend(*library(keys[0], keys, keys))
    assert float(out.leak([])) == 1
    assert float(out.leak(range(4))) == 0
    np.testing.assert_allclose(float(out.leak([1, 1, 2])), 1 - 2 / (np.e + 3), rtol=1e-15)


def test_overflow_is_rescued_when_it_is_no_overflow():
    # The first score passes 1.8e308 on the way and comes back to 0; the last is truly below the range.
    query = np.array([1e200, 1e200, 1.0])
    keys = np.array([[1e200, -1e200, 0.0], [0.0, 0.0, np.log(3.0)], [-1e200, -1e200, 0.0]])
    out = hw.attend(query, keys, np.eye(3))
    np.testing.assert_allclose(out.weights, [0.25, 0.75, 0.0], rtol=1e-15)
    np.testing.assert_allclose(out.contexts, [0.25, 0.75, 0.0], rtol=1e-15)
    assert out.scores[2] == -np.inf


def test_zero_queries_give_empty_results(library):
    keys = np.eye(3)
    out = hw.attend(*library(np.zeros((0, 3)), keys, keys))
    assert tuple(out.contexts.shape) == (0, 3)
    assert tuple(out.entropy.shape) == (0,)


def test_lists_count_as_numpy():
    out = hw.attend([1, 0], [[1, 0], [0, 1]], [[1, 2], [3, 4]])
    assert out.contexts.dtype == np.float64
    np.testing.assert_allclose(out.weights, [np.e / (np.e + 1), 1 / (np.e + 1)])


def test_negative_and_zero_scale(library, rng):
    arrays = library(rng.normal(size=(7, 3)), rng.normal(size=(5, 3)), rng.normal(size=(5, 2)))
    flat = hw.attend(*arrays, scale=0)
    np.testing.assert_allclose(np.asarray(flat.weights), 0.2, rtol=1e-15)
    np.testing.assert_allclose(np.asarray(flat.contexts)[0], np.asarray(arrays[2]).mean(axis=0), rtol=1e-13)
    turned = hw.attend(-arrays[0], *arrays[1:], scale=2)
    back = hw.attend(*arrays, scale=-2)
    np.testing.assert_allclose(np.asarray(back.contexts), np.asarray(turned.contexts), rtol=1e-13)


def test_torch_takes_its_own_kernel(monkeypatch):
    calls = []
    own = torch.nn.functional.scaled_dot_product_attention

    def counted(*args, **options):
        calls.append(options)
        return own(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    keys = torch.eye(4)
    out = hw.attend(keys, keys, keys, scale=3.0, allowed=hw.causal(4, 4))
    assert out.contexts.shape == (4, 4)
    assert [(call["is_causal"], call["attn_mask"], call["scale"]) for call in calls] == [(True, None, 3.0)]


def test_keys_in_a_file_are_read_in_blocks(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(setting_module, "_BLOCK", 1024)
    queries, keys, values = rng.normal(size=(3, 4)), rng.normal(size=(3000, 4)), rng.normal(size=(3000, 2))
    for name, array in (("keys", keys), ("values", values)):
        np.save(tmp_path / f"{name}.npy", array)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("keys", "values")]
    out, whole = hw.attend(queries, *mapped), hw.attend(queries, keys, values)
    np.testing.assert_allclose(out.contexts, whole.contexts, rtol=1e-12)
    np.testing.assert_allclose(out.entropy, whole.entropy, rtol=1e-12)
    np.testing.assert_array_equal(out.top, whole.top)
    np.testing.assert_array_equal(out.score_error, whole.score_error)
    assert type(out.contexts) is np.ndarray


def test_queries_in_a_file_are_read_whole(tmp_path, rng):
    keys = rng.normal(size=(5, 4))
    np.save(tmp_path / "keys.npy", keys)
    mapped = np.load(tmp_path / "keys.npy", mmap_mode="r")
    out = hw.attend(mapped, mapped, mapped)
    np.testing.assert_allclose(out.contexts, hw.attend(keys, keys, keys).contexts, rtol=1e-13)
    assert "5 queries" in str(out)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_scores_told_in_small_dtypes_are_within_their_error(dtype, rng):
    queries, keys = (torch.tensor(rng.normal(size=shape)).to(dtype) for shape in ((3, 64), (50, 64)))
    out = hw.attend(queries, keys, keys)
    exact = queries.double() @ keys.double().T
    assert ((out.scores.double() - exact).abs() <= out.score_error.double()[:, None]).all()


def test_one_row_may_be_an_array_of_no_axes():
    keys = np.eye(3)
    assert hw.attend(keys[0], keys, keys).leak(np.array(0)) == hw.attend(keys[0], keys, keys).leak(0)


def test_wide_floats_and_empty_batches_print():
    assert plain({"wide": np.longdouble([0.5, np.inf])}) == {"wide": [0.5, None]}
    assert "no batch entry" in str(hw.attend(np.zeros((0, 3, 4)), np.zeros((5, 4)), np.zeros((5, 2))))


def test_memory_is_bounded_by_the_block(tmp_path):
    import tracemalloc

    count = 400_000
    keys = np.lib.format.open_memmap(tmp_path / "keys.npy", mode="w+", dtype=np.float32, shape=(count, 16))
    for start in range(0, count, 50_000):
        keys[start : start + 50_000] = np.random.default_rng(start).normal(size=(50_000, 16))
    keys.flush()
    mapped = np.load(tmp_path / "keys.npy", mmap_mode="r")
    tracemalloc.start()
    out = hw.attend(np.ones((8, 16), dtype=np.float32), mapped, mapped)
    assert np.isfinite(out.contexts).all()
    assert np.isfinite([out.log_normalizer, out.entropy, out.margin]).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The table would be 8 x 400 000 x 4 bytes; keys in memory 16 x 400 000 x 4.
    assert peak < 100e6, peak
    assert out.top.max() < count


def test_repr_is_one_line_and_str_is_a_table():
    keys = np.eye(12)
    out = hw.attend(keys, keys, keys)
    assert repr(out) == "<Attention of 12 queries on 12 keys, NumPy float64>"
    text = str(out)
    assert text.splitlines()[0] == "Attention of 12 queries on 12 keys of width 12, values of width 12, scale 1"
    assert "2 more queries" in text
    assert "\x1b" not in text
    assert "<td>" in out._repr_html_()
    assert "weight" in str(hw.attend(keys[0], keys, keys))


def test_to_dict_and_json_are_plain():
    import json

    out = hw.attend(np.ones(2), np.ones((1, 2)), np.ones((1, 3)))
    data = out.to_dict(weights=True)
    assert data["margin"] == np.inf
    assert data["weights"] == [1.0]
    assert json.loads(out.to_json())["margin"] is None
