"""Averaged heads, projected heads and self-attention against their definitions."""

import numpy as np
import pytest

import headwise as hw


def softmax(scores):
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)


def test_average_heads_is_the_mean_of_its_heads(library, rng):
    queries, keys, values = rng.normal(size=(3, 5)), rng.normal(size=(7, 5)), rng.normal(size=(7, 2))
    out = hw.average_heads(*library(queries, keys, values), scale=0.5)
    wanted = (softmax(0.5 * queries @ keys.T) @ values).mean(axis=0)
    np.testing.assert_allclose(np.asarray(out.contexts), wanted, rtol=1e-12)
    assert tuple(out.weights.shape) == (3, 7)
    np.testing.assert_allclose(np.asarray(out.mean_weights), softmax(0.5 * queries @ keys.T).mean(axis=0), rtol=1e-12)


def test_average_heads_over_positions(library, rng):
    queries, keys, values = rng.normal(size=(3, 11, 5)), rng.normal(size=(7, 5)), rng.normal(size=(7, 2))
    out = hw.average_heads(*library(queries, keys, values))
    np.testing.assert_allclose(np.asarray(out.contexts), (softmax(queries @ keys.T) @ values).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(out.mean_weights), softmax(queries @ keys.T).mean(axis=0), rtol=1e-12)


def test_averaged_heads_are_projected_heads_with_a_special_output(rng):
    """W_K and W_V shared, W_O = (1/H) [I .. I]; the queries of the heads are the rows of W_Q x for a constant x = 1."""
    queries, keys, values = rng.normal(size=(3, 5)), rng.normal(size=(7, 5)), rng.normal(size=(7, 2))
    averaged = hw.average_heads(queries, keys, values)
    projected = hw.MultiHeadAttention(
        queries.reshape(15, 1),
        np.tile(np.eye(5), (3, 1)),
        np.tile(np.eye(2), (3, 1)),
        np.tile(np.eye(2), 3) / 3,
        heads=3,
        scale=1,
    )
    out = projected(np.ones((1, 1)), keys, values)
    np.testing.assert_allclose(out.contexts[0], averaged.contexts, rtol=1e-12)
    np.testing.assert_allclose(out.weights[:, 0], averaged.weights, rtol=1e-12)


def test_multi_head_attention_by_hand(library, rng):
    heads, width = 2, 6
    maps = {name: rng.normal(size=(heads * 3, width)) for name in ("query", "key")}
    maps["value"] = rng.normal(size=(heads * 5, width))
    bias = rng.normal(size=heads * 5)
    tokens = rng.normal(size=(4, 7, width))
    given = {name: library.asarray(matrix) for name, matrix in maps.items()}
    given["value"] = (given["value"], library.asarray(bias))
    out = hw.MultiHeadAttention(**given, heads=heads)(library.asarray(tokens))
    for head in range(heads):
        q, k = (tokens @ maps[name][3 * head : 3 * head + 3].T for name in ("query", "key"))
        v = tokens @ maps["value"][5 * head : 5 * head + 5].T + bias[5 * head : 5 * head + 5]
        weights = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(3))
        np.testing.assert_allclose(np.asarray(out.weights)[:, head], weights, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(out.contexts)[..., 5 * head : 5 * head + 5], weights @ v, rtol=1e-11, atol=1e-13)
    assert out.to_dict()["joined"] == "projected"
    assert str(out).splitlines()[0] == "2 heads, contexts projected, shape (4, 7, 10)"


def test_self_attention_by_hand(library, rng):
    tokens = rng.normal(size=(7, 5))
    maps = {"key": rng.normal(size=(3, 5)), "query": rng.normal(size=(3, 5)), "value": rng.normal(size=(2, 5))}
    out = hw.SelfAttention(**{name: library.asarray(matrix) for name, matrix in maps.items()})(library.asarray(tokens))
    scores = (tokens @ maps["query"].T) @ (tokens @ maps["key"].T).T
    np.testing.assert_allclose(np.asarray(out.contexts), softmax(scores) @ tokens @ maps["value"].T, rtol=1e-11, atol=1e-13)


def test_self_attention_without_matrices_is_attend(rng):
    tokens = rng.normal(size=(7, 5))
    mask = hw.causal(7, 7)
    np.testing.assert_array_equal(
        hw.SelfAttention(scale=0.3)(tokens, allowed=mask).contexts,
        hw.attend(tokens, tokens, tokens, scale=0.3, allowed=mask).contexts,
    )


@pytest.mark.parametrize("size", [2.0, 4.0])
def test_the_textbook_matrices(size):
    """Key, query and value matrices that make token 2 read u_b and token 1 read u_b - u_c."""
    u_a, u_b, u_c, u_d = size * np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0][:4]
    tokens = np.stack([u_d + u_b, u_a, u_c + u_b])
    value = (np.outer(u_b, u_b) - np.outer(u_c, u_c)) / size**2
    query = (np.outer(u_d, u_a) + np.outer(u_c, u_d)) / size**2
    contexts = hw.SelfAttention(query=query, value=value)(tokens).contexts
    # Margin size^2 over two other tokens; no value is farther than 2 size.
    bound = 2 * np.exp(-(size**2)) * 2 * size
    assert np.linalg.norm(contexts[1] - u_b) <= bound
    assert np.linalg.norm(contexts[0] - (u_b - u_c)) <= bound
