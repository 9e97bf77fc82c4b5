"""Many keys: flips, projections, remedies and laws that would take too long or too much memory if done as for a few."""

import numpy as np
import pytest
from noisy_settings import setting
from scipy.special import log_ndtr, ndtr

import headwise as hw
from headwise.stress import flips, law, remedies
from headwise.stress.curve import best_scale
from headwise.stress.normalised import Normalised, normalised_errors


def many(count, heads, isotropic, scale, seed=0):
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(count, 32)) / np.sqrt(32)
    keys = hw.RandomKeys(means, isotropic=isotropic, along_mean=dict.fromkeys(range(heads), 0.5))
    return scale * means[:heads], keys, rng.normal(size=(count, 3))


def plain_flip(mean, deviation, key):
    """Return the logarithm of the integral by a fine sum."""
    rest, spread = np.delete(mean, key), np.delete(deviation, key)
    z = np.linspace(-12, 40, 4001)
    heights = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    heights += np.array([log_ndtr((mean[key] + deviation[key] * one - rest) / spread).sum() for one in z])
    return heights.max() + np.log(np.exp(heights - heights.max()).sum() * (z[1] - z[0]))


@pytest.mark.parametrize(
    "deviations",
    [
        lambda _, n: np.full(n, 0.4),
        lambda rng, n: np.exp(rng.normal(size=n) - 1),
        lambda rng, n: np.where(rng.random(n) < 0.01, 0.01, 0.5),
        lambda _, n: np.where(np.arange(n) == 3, 6.0, 0.2),
    ],
)
@pytest.mark.parametrize("key", [0, 5])
def test_flips_among_many_keys(deviations, key, rng):
    """Sums over more keys than are summed at every node are interpolated, and the error says by how much that is off."""
    mean, deviation = rng.normal(size=5000), deviations(rng, 5000)
    mean[0], deviation[0] = 4, 1.5
    found = flips.flip(mean, deviation, key)
    assert abs(found.log - plain_flip(mean, deviation, key)) <= max(found.error / max(found.value, 1e-300), 1e-9)
    assert found.error <= 1e-7 * found.value


def test_flips_among_keys_of_which_most_are_nearly_certain(rng):
    """A polynomial cannot follow thousands of steps; they are summed."""
    mean, deviation = rng.normal(size=12_000), np.full(12_000, 1e-4)
    mean[0], deviation[0] = 3, 2.0
    found = flips.flip(mean, deviation, 0)
    assert abs(found.value - ndtr((3 - mean[1:].max()) / 2)) < 1e-4


@pytest.mark.parametrize("heads", [1, 3])
def test_projections_of_many_keys(heads, monkeypatch):
    """Beyond the reach of Sobol points outputs are sampled in bounded memory; the answers agree."""
    queries, keys, values = many(300, heads, 0.05, 6)
    found, way = law(queries, keys, values), values[0]
    middle = float(found.mean @ way)
    usual = found.cdf(way, middle), found.quantile(way, 0.8), found.probability_within(found.mean, 0.3)
    monkeypatch.setattr("headwise.stress.projections._MOST_DIMENSIONS", 100)
    monkeypatch.setattr("headwise.stress.projections._RANDOM_SPACE", 1 << 18)
    told = []
    tick = lambda *step: told.append(step[:2])  # noqa: E731
    sampled = (
        found.cdf(way, middle, progress=tick),
        found.quantile(way, 0.8, progress=tick),
        found.probability_within(found.mean, 0.3, progress=tick),
    )
    for one, other in zip(usual, sampled, strict=True):
        assert abs(one.value - other.value) <= one.error + other.error
    assert [step for step in told if step[0] == step[1]] == [(16, 16)] * 3


def test_many_keys_of_middling_noise():
    """A bulk that is too large at first is made smaller bit by bit; what comes out is within what samples allow."""
    queries, keys, values = many(3000, 4, 0.02, 8)
    found, sampled = law(queries, keys, values, tolerance=5e-3), law(queries, keys, values, method="montecarlo", tolerance=2e-2)
    assert found.met
    away = np.linalg.norm(found.covariance - sampled.covariance)
    assert away <= found.covariance_error + sampled.covariance_error


def test_samples_where_integrals_stop(monkeypatch):
    """If no time is left for finer integrals, samples are tried too, and the better of the two is returned."""
    monkeypatch.setattr("headwise.stress.choose._seconds", lambda *_: 40.0)
    monkeypatch.setattr("headwise.stress.sampling._WORK", 1 << 24)
    queries, keys, values = many(3000, 8, 0.02, 8)
    found = law(queries, keys, values)
    forced = law(queries, keys, values, method="pairs")
    assert forced.error > found.error > 1e-3
    assert "integrals that are more accurate would take more than a minute" in forced.reason
    assert found.method in {"hybrid", "montecarlo"}
    assert found.reason.startswith("integrals that are more accurate would take more than a minute, and stop at ")


@pytest.mark.parametrize("seed", range(12))
def test_normalised_keys_against_whole_keys(seed):
    """Few coordinates are enough; keys with other noise are drawn whole."""
    queries, keys, values = setting(seed, most_keys=20)
    goal = values.mean(axis=0)
    found, spread = normalised_errors(queries, keys, values, goal, 0)
    drawn = keys.sample(20_000, seed=99)
    drawn *= (np.linalg.norm(keys.means, axis=1) / np.linalg.norm(drawn, axis=2))[:, :, None]
    scores = np.einsum("nkd,hd->nkh", drawn, queries)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    read = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=2) @ values
    away = ((read - goal) ** 2).sum(axis=1)
    assert abs(away.mean() - found.value) < 4 * away.std() / np.sqrt(len(away)) + 2 * found.error
    assert abs(read.var(axis=0).sum() - spread.value) < 0.1 * spread.value + 2 * spread.error + 1e-12


def test_normalised_keys_of_width_one_have_two_lengths():
    """Nothing is left beside the query, and a length that turns negative turns the key."""
    keys = hw.RandomKeys([[2.0], [1.0]], along_mean={0: 0.5})
    found = Normalised(keys, np.array([[3.0]])).scores(1000, np.random.default_rng(0))
    assert set(np.unique(found[:, 0].round(9))) == {-6.0, 6.0}
    assert set(np.unique(found[:, 1].round(9))) == {3.0}


def test_the_best_scale_may_be_far_above_the_queries_given():
    """From a hundredth of it the same bottom is found as from itself."""
    e = np.eye(10)
    keys, goal = hw.RandomKeys(e, along_mean={0: 0.5}), (e[0] + e[1]) / 2
    near, far = (remedies(scale * (e[0] + e[1]), keys, e, goal)["best scale"] for scale in (2.0, 0.02))
    np.testing.assert_allclose(far.queries, near.queries, rtol=1e-3)
    assert abs(far.mean_squared_error.value - near.mean_squared_error.value) < 1e-4
    assert abs(near.queries[0, 0] - 2.1364) < 1e-3


def test_a_scale_without_a_best_ends_where_errors_no_longer_fall():
    """Two heads that copy one key each get better for ever, by less and less."""
    e = np.eye(4)
    found = remedies(0.1 * e[:2], hw.RandomKeys(e, isotropic=1e-4), e, (e[0] + e[1]) / 2)["best scale"]
    assert found.mean_squared_error.value < 1e-3
    assert np.isfinite(found.queries).all()


def test_what_helps_is_ranked_by_what_the_error_is_at_most():
    """An error that is hardly known does not win."""
    e = np.eye(300)
    found = remedies(8 * (e[0] + e[1]), hw.RandomKeys(e, along_mean={0: 0.5}), e, (e[0] + e[1]) / 2)
    most = [one.mean_squared_error.value + one.mean_squared_error.error for one in found.ranked]
    np.testing.assert_allclose(most, sorted(most), rtol=0.02)


def test_ctrl_c_while_samples_are_tried(monkeypatch):
    """What the integrals found is kept."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("headwise.stress.choose._seconds", lambda *_: 40.0)
    monkeypatch.setattr("headwise.stress.choose._sampled", interrupted)
    queries, keys, values = many(3000, 8, 0.02, 8)
    found = law(queries, keys, values)
    assert (found.interrupted, found.method) == (True, "pairs")
    assert found.error > 1e-3


def test_outputs_that_hardly_vary_are_drawn_in_double_precision(rng):
    """Between two values, half of the time: single precision would blur which side of its mean an output is on."""
    means = np.zeros((4097, 4))
    means[:, 0] = 1
    values = np.c_[rng.choice([-1.0, 1.0], 4097), rng.standard_normal(4097)]
    found = law(np.eye(4)[0], hw.RandomKeys(means, isotropic=1e-8), values)
    way = np.array([1.0, 0.0])
    half, inside = found.cdf(way, found.mean @ way), found.probability_within(found.mean, np.sqrt(found.variance))
    assert abs(half.value - 0.5) <= half.error < 0.02
    seen = np.linalg.norm(found.sample(4000) - found.mean, axis=1) <= np.sqrt(found.variance)
    assert abs(inside.value - seen.mean()) <= inside.error + 0.04


def test_what_single_precision_blurs_is_part_of_the_error(monkeypatch):
    """If it is used all the same, the error says that it decides."""
    monkeypatch.setattr("headwise.stress.projections._CLEAR", 0.0)
    means = np.zeros((4097, 2))
    means[:, 0] = 1
    values = np.where(np.arange(4097) % 2, 1.0, -1.0)[:, None]
    found = law([1.0, 0.0], hw.RandomKeys(means, isotropic=1e-8), values)
    half = found.cdf([1.0], float(found.mean[0]))
    assert abs(half.value - 0.5) <= half.error
    assert half.error > 0.05


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [
        (np.r_[1e6, np.full(4999, 1e6 - 3)], np.r_[1e-13, np.ones(4999)]),
        (np.array([0.0, 1.0]), np.array([1e-160, 1e-160])),
    ],
)
def test_flips_that_hardly_any_noise_decides_come_to_an_end(mean, deviation):
    found = flips.flip(mean, deviation, 0)
    rest = float(log_ndtr((mean[0] - mean[1:]) / deviation[1:]).sum()) if deviation[1] == 1 else -np.inf
    assert abs(found.value - np.exp(rest)) <= found.error + 1e-9


def test_a_flat_floor_is_no_valley():
    """Without noise a longer query is never worse."""
    e = np.eye(3)
    found = best_scale(e[:1], hw.RandomKeys(e), e, e[0], moves=3)
    assert (found.error, found.valley) == (0.0, False)
