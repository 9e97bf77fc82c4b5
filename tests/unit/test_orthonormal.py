import numpy as np
import pytest

import headwise as hw


@pytest.mark.parametrize(("count", "width"), [(1, 1), (3, 7), (11, 11), (2, 500)])
def test_at_right_angles(count, width):
    vectors = hw.orthonormal(count, width, seed=5)
    assert vectors.shape == (count, width)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(count), atol=1e-14)


def test_uniform_over_the_sphere():
    """The first coordinate of a uniform unit vector in R^3 is uniform on [-1, 1]: mean 0, variance 1/3."""
    first = np.array([hw.orthonormal(2, 3, seed=seed)[0, 0] for seed in range(4000)])
    assert abs(first.mean()) < 6 * np.sqrt(1 / 3 / 4000)
    assert abs((first**2).mean() - 1 / 3) < 6 * np.sqrt((1 / 5 - 1 / 9) / 4000)


def test_seed():
    np.testing.assert_array_equal(hw.orthonormal(3, 5, seed=1), hw.orthonormal(3, 5, seed=1))
    assert not np.allclose(hw.orthonormal(3, 5, seed=1), hw.orthonormal(3, 5, seed=2))
