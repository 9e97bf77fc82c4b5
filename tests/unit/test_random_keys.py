"""Random keys: the law of the scores against the definition and against draws."""

import numpy as np
import pytest

import headwise as hw
from headwise.core import random_keys as module


@pytest.fixture
def parts(rng):
    return {
        "means": rng.normal(size=(5, 7)),
        "isotropic": rng.random(5),
        "diagonal": rng.random((5, 7)),
        "factors": {1: rng.normal(size=(7, 2)), 3: rng.normal(size=(7, 1))},
        "along_mean": {0: 0.5, 3: 2.0, 4: -0.01},
    }


def dense(parts, row):
    """Sigma as it is defined."""
    matrix = np.diag(np.broadcast_to(parts["isotropic"], 5)[row] + np.broadcast_to(parts["diagonal"], (5, 7))[row])
    factor = parts["factors"].get(row, np.zeros((7, 1)))
    mean = parts["means"][row]
    return matrix + factor @ factor.T + parts["along_mean"].get(row, 0) * np.outer(mean, mean)


def test_score_law_is_the_definition(parts, rng):
    queries = rng.normal(size=(3, 7))
    keys = hw.RandomKeys(**parts)
    law = keys.score_law(queries)
    for row in range(5):
        np.testing.assert_allclose(law.mean[row], queries @ parts["means"][row], rtol=1e-13)
        np.testing.assert_allclose(law.covariance[row], queries @ dense(parts, row) @ queries.T, rtol=1e-12)
        np.testing.assert_allclose(keys.covariance(row), dense(parts, row), rtol=1e-13)


@pytest.mark.parametrize(("isotropic", "diagonal"), [(0.3, None), (0.0, np.arange(7.0))])
def test_shared_parts(parts, rng, isotropic, diagonal):
    parts = {**parts, "isotropic": isotropic, "diagonal": diagonal, "along_mean": {}}
    queries = rng.normal(size=(3, 7))
    law = hw.RandomKeys(**parts).score_law(queries)
    parts["diagonal"] = np.zeros(7) if diagonal is None else diagonal
    for row in range(5):
        np.testing.assert_allclose(law.covariance[row], queries @ dense(parts, row) @ queries.T, rtol=1e-12)


def test_draws_have_the_stated_law(parts):
    draws = 40_000
    keys = hw.RandomKeys(**parts).sample(draws, seed=3)
    assert keys.shape == (draws, 5, 7)
    for row in range(5):
        sigma = dense(parts, row)
        # Six standard errors of a mean and of a covariance entry.
        mean_error = 6 * np.sqrt(np.diag(sigma) / draws)
        assert (np.abs(keys[:, row].mean(axis=0) - parts["means"][row]) < mean_error).all()
        error = 6 * np.sqrt((np.outer(np.diag(sigma), np.diag(sigma)) + sigma**2) / draws)
        assert (np.abs(np.cov(keys[:, row].T) - sigma) < error).all()


def test_same_seed_same_keys(parts):
    keys = hw.RandomKeys(**parts)
    np.testing.assert_array_equal(keys.sample(3, seed=7), keys.sample(3, seed=7))
    assert (keys.sample(3, seed=7) != keys.sample(3, seed=8)).any()


def test_negative_tau_down_to_the_last_of_the_variance():
    means = np.array([[3.0, 4.0]])
    keys = hw.RandomKeys(means, isotropic=0.5, along_mean={0: -0.5 / 25})
    # Nothing is left along the mean, all of it across.
    lengths = keys.sample(1000) @ np.array([0.6, 0.8])
    np.testing.assert_allclose(lengths, 5.0, rtol=1e-7)
    assert keys.score_law(means).covariance[0, 0, 0] == pytest.approx(0, abs=1e-13)


def test_blocks_and_files_give_the_same_law(tmp_path, monkeypatch, parts, rng):
    queries = rng.normal(size=(2, 7))
    whole = hw.RandomKeys(**parts).score_law(queries)
    monkeypatch.setattr(module, "_BLOCK", 14)
    np.save(tmp_path / "means.npy", parts["means"])
    mapped = hw.RandomKeys(**{**parts, "means": np.load(tmp_path / "means.npy", mmap_mode="r")})
    blocks = list(mapped.score_blocks(queries))
    assert [rows.stop - rows.start for rows, _, _ in blocks] == [2, 2, 1]
    law = mapped.score_law(queries)
    np.testing.assert_allclose(law.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(law.covariance, whole.covariance, rtol=1e-13)


def test_other_libraries_are_welcome(library, parts):
    means = library.asarray(parts["means"])
    law = hw.RandomKeys(means, isotropic=0.1).score_law(library.asarray(parts["means"][0]))
    np.testing.assert_allclose(law.mean[:, 0], parts["means"] @ parts["means"][0], rtol=1e-13)


def test_no_square_matrix_for_wide_keys():
    """A width-by-width matrix per key would be 20 000^2 * 8 bytes = 3.2 GB."""
    import tracemalloc

    means = np.zeros((3, 20_000))
    tracemalloc.start()
    law = hw.RandomKeys(means, isotropic=1.0, factors={0: np.ones((20_000, 2))}).score_law(np.ones((2, 20_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    np.testing.assert_allclose(law.covariance[0], 20_000 + 2 * 20_000.0**2)


def test_printing(parts):
    keys = hw.RandomKeys(**parts)
    assert repr(keys) == "<RandomKeys: 5 keys of width 7>"
    assert "variance along mean" in str(keys)
    assert keys.to_dict()["along_mean"] == {"0": 0.5, "3": 2.0, "4": -0.01}
    law = keys.score_law(np.ones(7))
    assert "±" in str(law)
    assert len(law.to_dict()["covariance"]) == 5
