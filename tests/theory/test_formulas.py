"""Measured values against the formulas of the exercise."""

import math

import numpy as np
import pytest

import headwise as hw


@pytest.mark.parametrize("count", [2, 3, 10, 101])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.5, 1.0, 10.0, 600.0])
def test_averaging_a_set(count, size, beta):
    """The sum of a set S of orthonormal keys, times beta, leaks (n - |S|) / (|S| e^beta + n - |S|)."""
    if size >= count:
        size = count - 1
    keys = hw.orthonormal(count, count + 3)
    out = hw.attend(beta * keys[:size].sum(axis=0), keys, keys)
    log_leak = math.log(count - size) - np.logaddexp(math.log(size) + beta, math.log(count - size))
    assert float(out.log_leak(range(size))) == pytest.approx(log_leak, rel=1e-12, abs=1e-11)


def test_the_number_everybody_should_know():
    keys = np.eye(10)
    assert hw.attend(keys[0] + keys[1], keys, keys).weights[0] == pytest.approx(0.2023, abs=5e-5)


@pytest.mark.parametrize("leak", [0.5, 1e-3, 1e-12, 1e-200])
def test_the_scale_for_a_leak(leak):
    """beta = log((n - |S|)(1 - eps) / (|S| eps)) leaks exactly eps."""
    beta = math.log(8 * (1 - leak) / 2) - math.log(leak)
    keys = np.eye(10)
    assert float(hw.attend(beta * (keys[0] + keys[1]), keys, keys).leak([0, 1])) == pytest.approx(leak, rel=1e-12)


def test_copying_is_bounded_by_the_margin(rng):
    """leak <= (n-1) e^-g / (1 + (n-1) e^-g), and |c - v_j| <= leak max |v_i - v_j|."""
    for _ in range(50):
        keys, values = rng.normal(size=(20, 6)), rng.normal(size=(20, 3))
        out = hw.attend(rng.normal(size=6) * 4, keys, values)
        others = 19 * math.exp(-float(out.margin))
        leak = float(out.leak(int(out.top)))
        assert leak <= others / (1 + others) * (1 + 1e-12)
        far = np.linalg.norm(values - values[out.top], axis=1).max()
        assert np.linalg.norm(out.contexts - values[out.top]) <= leak * far * (1 + 1e-12)


def test_uniform_weights_count_all_keys():
    out = hw.attend(np.zeros(3), np.ones((64, 3)), np.ones((64, 1)))
    assert float(out.effective_keys) == pytest.approx(64, rel=1e-13)
    assert float(out.collision_keys) == pytest.approx(64, rel=1e-13)
    assert float(out.entropy) == pytest.approx(math.log(64), rel=1e-13)


def test_negative_lengths_are_eight_percent():
    """Length 1 + sqrt(1/2) z is negative with probability Phi(-sqrt 2) = 0.0786: tau is a variance."""
    draws = 200_000
    keys = hw.RandomKeys(np.array([[1.0, 0.0]]), along_mean={0: 0.5}).sample(draws)
    wanted = math.erfc(1.0) / 2
    assert wanted == pytest.approx(0.0786, abs=5e-5)
    assert (keys[:, 0, 0] < 0).mean() == pytest.approx(wanted, abs=5 * math.sqrt(wanted / draws))
    assert (keys[:, 0, 1] == 0).all()
