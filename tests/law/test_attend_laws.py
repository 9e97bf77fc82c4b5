"""What must hold for every setting."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import headwise as hw
from headwise.core import setting as setting_module

EPS = np.finfo(np.float64).eps


@st.composite
def settings_(draw, largest=50.0):
    """Queries, keys and values of any small size, with ties likely."""
    queries, keys, width, value_width = (draw(st.integers(1, top)) for top in (3, 9, 3, 2))
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-largest, largest))
    return tuple(
        draw(arrays(np.float64, shape, elements=numbers)) for shape in ((queries, width), (keys, width), (keys, value_width))
    )


@given(settings_(largest=1e100))
def test_weights_are_a_distribution(setting):
    out = hw.attend(*setting)
    assert (out.weights >= 0).all()
    np.testing.assert_allclose(out.weights.sum(axis=-1), 1, rtol=8 * EPS * len(setting[1]))
    assert (out.entropy >= 0).all()
    assert (out.effective_keys <= len(setting[1]) * (1 + 1e-12)).all()
    assert (out.collision_keys <= out.effective_keys * (1 + 1e-12)).all()
    assert (out.collision_keys >= 1 - 1e-12).all()
    assert (out.margin >= 0).all()
    np.testing.assert_array_equal(out.top, out.scores.argmax(axis=-1))
    np.testing.assert_allclose(out.top_weight, out.weights.max(axis=-1), rtol=1e-14)


@given(settings_(), st.floats(-1e3, 1e3))
def test_a_constant_on_all_scores_changes_nothing(setting, constant):
    """A coordinate in which all keys agree adds the same number to every score of a query."""
    queries, keys, values = setting
    wider = np.column_stack([queries, np.ones(len(queries))]), np.column_stack([keys, np.full(len(keys), constant)])
    plain, moved = hw.attend(queries, keys, values), hw.attend(*wider, values)
    # A score s + constant is rounded: a weight moves by that much, relatively.
    allowed = 8 * (moved.score_error + plain.score_error)[:, None] + 1e-14
    assert (np.abs(moved.weights - plain.weights) <= allowed * np.maximum(plain.weights, moved.weights)).all()
    np.testing.assert_allclose(moved.log_normalizer, plain.log_normalizer + constant, rtol=1e-12, atol=1e-9)


@given(settings_(), st.randoms(use_true_random=False))
def test_permuting_keys_permutes_weights(setting, random):
    queries, keys, values = setting
    order = list(range(len(keys)))
    random.shuffle(order)
    plain, turned = hw.attend(queries, keys, values), hw.attend(queries, keys[order], values[order])
    np.testing.assert_allclose(turned.weights, plain.weights[:, order], rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(turned.contexts, plain.contexts, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(turned.entropy, plain.entropy, rtol=1e-10, atol=1e-12)
    chosen = order[:2]
    np.testing.assert_allclose(turned.leak([0, 1][: len(chosen)]), plain.leak(chosen), rtol=1e-10)


@given(settings_(largest=1e100))
def test_contexts_lie_in_the_hull_of_values(setting):
    """Along every axis, and along every direction tried, the context is between the least and the largest value."""
    *_, values = setting
    contexts = hw.attend(*setting).contexts
    directions = np.vstack([np.eye(values.shape[1]), np.ones(values.shape[1])])
    slack = 4 * EPS * len(values) * np.abs(values).sum()
    for direction in directions:
        assert (contexts @ direction <= (values @ direction).max() + slack).all()
        assert (contexts @ direction >= (values @ direction).min() - slack).all()


@given(settings_(), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_blocks_of_any_size_give_the_same(setting, keys_at_once, queries_at_once, causal):
    mask = hw.causal(len(setting[0]), len(setting[1]), align="start") if causal else None
    whole = hw.attend(*setting, allowed=mask)
    names = ("contexts", "log_normalizer", "entropy", "effective_keys", "collision_keys", "top", "top_weight", "margin")
    wanted = {name: getattr(whole, name) for name in names}
    leak = whole.log_leak(0)
    before = setting_module._BLOCK, setting_module._MOST_QUERIES, setting_module._FEWEST_KEYS
    setting_module._BLOCK, setting_module._MOST_QUERIES, setting_module._FEWEST_KEYS = 1, queries_at_once, keys_at_once
    try:
        cut = hw.attend(*setting, allowed=mask)
        for name in names:
            np.testing.assert_allclose(getattr(cut, name), wanted[name], rtol=1e-9, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(cut.log_leak(0), leak, rtol=1e-9, atol=1e-12)
        # Contexts asked for alone take another path than contexts after statistics.
        np.testing.assert_allclose(hw.attend(*setting, allowed=mask).contexts, wanted["contexts"], rtol=1e-9, atol=1e-12)
    finally:
        setting_module._BLOCK, setting_module._MOST_QUERIES, setting_module._FEWEST_KEYS = before


@given(settings_(), st.sets(st.integers(0, 8)))
def test_leak_is_the_weight_outside(setting, rows):
    out = hw.attend(*setting)
    rows = [row for row in rows if row < len(setting[1])]
    outside = np.delete(out.weights, rows, axis=1).sum(axis=1)
    np.testing.assert_allclose(out.leak(rows), outside, rtol=1e-11, atol=1e-300)
    rest = [row for row in range(len(setting[1])) if row not in rows]
    np.testing.assert_allclose(out.leak(rows) + out.leak(rest), 1, rtol=1e-12)


@given(settings_())
def test_scores_are_within_their_stated_error(setting):
    """Exact rational arithmetic against the bound that is reported."""
    from fractions import Fraction

    queries, keys, _ = setting
    out = hw.attend(*setting, scale=0.3)
    for i, query in enumerate(queries):
        for j, key in enumerate(keys):
            exact = Fraction(0.3) * sum(Fraction(a) * Fraction(b) for a, b in zip(query, key, strict=True))
            assert abs(Fraction(float(out.scores[i, j])) - exact) <= Fraction(float(out.score_error[i])) + Fraction(1, 10**320)
