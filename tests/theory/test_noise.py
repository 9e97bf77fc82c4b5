"""Length noise on one of two keys to be averaged: the table, the limits and what follows from them."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import headwise as hw
from headwise.stress import curve, law, remedies

E = np.eye(10)
TARGET = (E[0] + E[1]) / 2
KEYS = hw.RandomKeys(E, along_mean={0: 0.5})
# beta: variance and mean squared error of one head, then of two.
TABLE = {
    1: (0.0154, 0.2255, 0.0044, 0.2878),
    2: (0.0783, 0.1477, 0.0189, 0.1642),
    5: (0.2832, 0.2838, 0.0288, 0.0448),
    10: (0.3905, 0.3905, 0.0254, 0.0310),
    20: (0.4440, 0.4440, 0.0227, 0.0259),
    50: (0.4775, 0.4775, 0.0211, 0.0233),
}


def by_quadrature(beta, heads):
    """Integrate over the one random length with SciPy, panels split where scores cross."""
    queries = beta * (E[0] + E[1])[None] if heads == 1 else beta * E[:2]

    def moments(z):
        keys = E.copy()
        keys[0] *= 1 + math.sqrt(0.5) * z
        return hw.average_heads(queries, keys, E).contexts if heads == 2 else hw.attend(queries[0], keys, E).contexts

    def integral(function):
        weight = lambda z: function(moments(z)) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        return sum(quad(weight, a, b, epsabs=1e-11, limit=200)[0] for a, b in ((-9, -1.5), (-1.5, -1), (-1, 0), (0, 1), (1, 9)))

    mean = [integral(lambda c, i=i: c[i]) for i in (0, 1, 2)]
    square = integral(lambda c: float(c @ c))
    error = integral(lambda c: float((c - TARGET) @ (c - TARGET)))
    return square - mean[0] ** 2 - mean[1] ** 2 - 8 * mean[2] ** 2, error


@pytest.mark.parametrize("beta", TABLE)
def test_the_table(beta):
    one, two = law(beta * (E[0] + E[1]), KEYS, E, tolerance=1e-7), law(beta * E[:2], KEYS, E, tolerance=1e-7)
    found = (one.variance, float(one.mean_squared_error(TARGET)), two.variance, float(two.mean_squared_error(TARGET)))
    assert tuple(round(number, 4) for number in found) == TABLE[beta]


@pytest.mark.parametrize(("beta", "heads"), [(2, 1), (10, 1), (5, 2)])
def test_against_quadrature_over_the_length(beta, heads):
    found = law(beta * (E[0] + E[1]) if heads == 1 else beta * E[:2], KEYS, E, tolerance=1e-9)
    variance, error = by_quadrature(beta, heads)
    assert found.variance == pytest.approx(variance, abs=1e-8)
    assert float(found.mean_squared_error(TARGET)) == pytest.approx(error, abs=1e-8)


def test_limits_for_long_queries():
    """One head goes to 1/2, two heads to p (1 - p) / 4 * n / (n - 1); both like 1 / beta."""
    p = ndtr(-math.sqrt(2))
    limits = 0.5, p * (1 - p) / 4 * 10 / 9
    assert round(limits[1], 4) == 0.0201
    for queries, limit in (((E[0] + E[1])[None], limits[0]), (E[:2], limits[1])):
        gaps = [abs(law(beta * queries, KEYS, E, tolerance=1e-8).variance - limit) for beta in (250, 500, 1000)]
        assert gaps[2] < 2e-3
        np.testing.assert_allclose([gaps[0] / gaps[1], gaps[1] / gaps[2]], 2, rtol=0.02)


def test_one_head_has_a_best_scale_and_two_heads_are_not_always_better():
    scales = np.geomspace(0.5, 50, 21)
    found = curve({"one": E[0] + E[1], "two": E[:2]}, KEYS, E, TARGET, scales=scales)
    one, two = found.series["one"], found.series["two"]
    # 2.136 by minimising the integral over the length with SciPy.
    assert one.best_scale == pytest.approx(2.1364, abs=1e-3)
    assert abs(one.best_scale - 2.1364) < one.best.scale_error + 5e-5
    assert one.best.scale_error < 5e-3
    assert one.best.valley
    assert not two.best.valley
    assert "50, an end" in str(found)
    assert one.best_error == pytest.approx(0.14679, abs=1e-5)
    assert one.best.error_error < 1e-7
    at = lambda series, scale: float(np.interp(np.log(scale), np.log(scales), series.errors))  # noqa: E731
    assert at(two, 1.0) > at(one, 1.0)
    assert at(two, 10.0) < at(one, 10.0)


def test_given_a_positive_length_two_heads_are_stable():
    drawn = law(50 * E[:2], KEYS, E).sample(4000, seed=3)
    scores = drawn[:, 0]
    positive = scores > 0.25
    assert positive.mean() == pytest.approx(1 - ndtr(-math.sqrt(2)), abs=0.02)
    assert drawn[positive].var(axis=0).sum() < 2e-3


def test_remedies_rank_two_heads_first_and_normalised_keys_before_a_lower_scale():
    found = remedies(10 * (E[0] + E[1]), KEYS, E, TARGET)
    names = [remedy.name for remedy in found.ranked]
    assert names[0] == "2 heads"
    assert names.index("normalised keys") < names.index("best scale") < names.index("as is")
    assert float(found["2 heads"].mean_squared_error) == pytest.approx(0.0310, abs=1e-4)
    # Normalised, only the sign of the length is left: with p it is negative, and the head then reads v_b.
    p = ndtr(-math.sqrt(2))
    left = found["normalised keys"].mean_squared_error
    assert abs(left.value - 0.5 * p) < left.error + 1e-3


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("variance", [0.04, 0.05, 0.06, 0.08])
def test_normalised_keys_whose_length_is_seldom_negative(variance, seed):
    """Of the noise its sign is left, which few samples show or none: an error of 1/2 with that probability."""
    keys = hw.RandomKeys(E, along_mean={0: variance})
    left = remedies(10 * (E[0] + E[1]), keys, E, TARGET, seed=seed)["normalised keys"].mean_squared_error
    assert abs(left.value - 0.5 * ndtr(-1 / math.sqrt(variance))) < left.error + 1e-7


def test_tiny_noise_is_linear():
    """Cov = alpha beta^2 sum_i a_i^2 |q|^2 ... with a the weights at the means, to first order."""
    beta, alpha = 3.0, 1e-12
    query = beta * (E[0] + E[1])
    weights = hw.attend(query, E, E).weights
    away = E - weights
    truth = alpha * (query @ query) * np.einsum("k,kv,kx->vx", weights**2, away, away)
    for method in ("delta", "laplace", "pairs"):
        found = law(query, hw.RandomKeys(E, isotropic=alpha), E, method=method, tolerance=1e-6)
        np.testing.assert_allclose(found.covariance, truth, atol=2e-10 * np.abs(truth).max() + 1e-25, rtol=1e-6)
        assert found.error <= 1e-6
