"""The integrals of one head and of two on two keys, from calm to extremely noisy, against plain sums."""

import numpy as np
import pytest
from two_keys import lone_setting, one_head_law, pair_of_keys, paired_setting, two_heads_law

import headwise as hw
from headwise.stress import law

VALUES = np.array([[1.0], [0.0]])


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_one_head(tolerance):
    """600 settings, with variances between 1e-260 and 1/4; nobody may be off by more than is stated."""
    rng = np.random.default_rng(20)
    for _ in range(600):
        means, deviations = lone_setting(rng)
        spread = float(np.hypot(*deviations))
        mean, variance = one_head_law(means[0] - means[1], spread)
        found = law([1.0], hw.RandomKeys(means[:, None], diagonal=(deviations**2)[:, None]), VALUES, tolerance=tolerance)
        assert found.met
        assert abs(found.variance - variance) <= found.covariance_error + 3e-13 * variance, (means, deviations)
        assert abs(found.mean[0] - mean) <= found.mean_error, (means, deviations)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_two_heads(tolerance):
    """80 settings: noise of one key or two, shared, opposed or nearly equal."""
    rng = np.random.default_rng(21)
    for _ in range(80):
        means, factors = paired_setting(rng)
        mean, variance = two_heads_law(means[0] - means[1], sum(factor.T @ factor for factor in factors))
        found = law(np.eye(2), pair_of_keys(means, factors), VALUES, tolerance=tolerance, method="pairs")
        assert abs(found.variance - variance) <= found.covariance_error + 1e-14, (means, factors)
        assert abs(found.mean[0] - mean) <= found.mean_error + 1e-13, (means, factors)
