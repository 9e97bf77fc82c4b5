"""Every method against every other, and against whole keys sampled by hand; flip probabilities against mpmath."""

import mpmath
import numpy as np
import pytest
from noisy_settings import brute_force, setting

import headwise as hw
from headwise.stress import law


def norm(matrix):
    return float(np.linalg.norm(matrix))


@pytest.mark.parametrize("block", range(10))
def test_integrals_against_whole_keys(block):
    """200 settings: the integrals agree with themselves at far higher accuracy, and with sampled keys."""
    for seed in range(20 * block, 20 * block + 20):
        queries, keys, values = setting(seed, most_keys=200 if seed % 20 == 0 else 40, most_heads=6 if seed % 20 == 1 else 3)
        truth = law(queries, keys, values, method="pairs", tolerance=1e-6)
        assert truth.met
        assert abs(truth.weights_sum - 1) < 1e-5
        rough = law(queries, keys, values, tolerance=1e-2)
        assert norm(rough.covariance - truth.covariance) <= rough.covariance_error + truth.covariance_error
        assert norm(rough.mean - truth.mean) <= rough.mean_error + truth.mean_error
        assert abs(rough.variance - truth.variance) <= rough.variance_error + truth.variance_error
        drawn = brute_force(queries, keys, values, 4000, seed)
        away = drawn - drawn.mean(axis=0)
        squares = (away**2).sum(axis=1)
        spread = np.sqrt(max((squares**2).mean() - norm(truth.covariance) ** 2, 0) / len(drawn))
        assert norm(away.T @ away / len(drawn) - truth.covariance) < 6 * spread + 1e-3 * norm(truth.covariance)
        assert norm(drawn.mean(axis=0) - truth.mean) < 5 * np.sqrt(truth.variance / len(drawn)) + 1e-12


@pytest.mark.parametrize("method", ["hybrid", "montecarlo"])
def test_stated_errors_of_samples_cover(method):
    """95% is stated; of 60 settings no more than 8 may miss (that happens in 1 of 100 runs if 95% are covered)."""
    missed = 0
    for seed in range(300, 360):
        queries, keys, values = setting(seed, most_keys=30)
        truth = law(queries, keys, values, method="pairs", tolerance=1e-5)
        found = law(queries, keys, values, method=method, tolerance=3e-2, seed=seed)
        missed += norm(found.covariance - truth.covariance) > found.covariance_error + truth.covariance_error
    assert missed <= 8


@pytest.mark.parametrize("method", ["hybrid", "montecarlo"])
@pytest.mark.parametrize(("scale", "seed"), [(100.0, 0), (100.0, 1), (1e4, 0), (1e4, 1), (1e4, 2)])
def test_flips_that_no_draw_has_seen(method, scale, seed, monkeypatch):
    """The output moves in one draw of a million: samples that show nothing of it say that they may have missed it."""
    monkeypatch.setattr("headwise.stress.sampling._DRAWS", 1 << 17)
    keys = hw.RandomKeys(np.eye(4), isotropic=0.02)
    truth = law(scale * np.eye(4)[0], keys, np.eye(4), tolerance=1e-4)
    found = law(scale * np.eye(4)[0], keys, np.eye(4), method=method, seed=seed)
    assert 1e-6 < truth.variance < 2e-6
    assert abs(found.variance - truth.variance) <= found.variance_error
    assert norm(found.mean - truth.mean) <= found.mean_error
    assert not found.met


def test_hybrid_with_a_bulk(rng):
    """Enough keys that most are summed by formulas; the certificate covers what they miss."""
    means = rng.normal(size=(400, 16))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    keys = hw.RandomKeys(means, isotropic=0.01, along_mean={0: 0.5, 1: 0.5})
    queries, values = 6 * means[:2], rng.normal(size=(400, 5))
    truth = law(queries, keys, values, method="pairs", tolerance=1e-5)
    found = law(queries, keys, values, method="hybrid", tolerance=1e-2)
    assert norm(found.covariance - truth.covariance) <= found.covariance_error + truth.covariance_error
    assert found.error < 0.1


def test_equal_queries_are_one_head():
    """Perfectly correlated heads: the average of equal contexts is the context."""
    queries, keys, values = setting(12)
    one = law(queries[0], keys, values, tolerance=1e-7)
    same = law(np.repeat(queries[:1], 3, axis=0), keys, values, tolerance=1e-7)
    np.testing.assert_allclose(same.covariance, one.covariance, atol=1e-6 * norm(one.covariance))


@pytest.mark.parametrize("method", ["pairs", "montecarlo"])
@pytest.mark.parametrize("seed", range(40, 52))
def test_the_error_of_what_heads_share_covers_it(seed, method):
    queries, keys, values = setting(seed, most_keys=20)
    truth = law(queries, keys, values, method="pairs", tolerance=1e-8, per_head=True)
    found = law(queries, keys, values, method=method, tolerance=1e-2, per_head=True)
    away = np.linalg.norm(found.cross - truth.cross, axis=(2, 3))
    assert (away <= found.cross_error + truth.cross_error).all()
    assert (found.cross_error[~np.eye(len(queries), dtype=bool)] <= 0.1 * np.linalg.norm(truth.cross, axis=(2, 3)).max()).all()


def test_per_head_laws_add_up():
    queries, keys, values = setting(1)
    assert len(queries) > 1
    whole = law(queries, keys, values, tolerance=1e-6, per_head=True)
    np.testing.assert_allclose(
        whole.cross.sum(axis=(0, 1)) / len(queries) ** 2, whole.covariance, atol=1e-5 * norm(whole.covariance)
    )
    np.testing.assert_allclose(np.mean([head.mean for head in whole.heads], axis=0), whole.mean, atol=1e-6)
    for h, head in enumerate(whole.heads):
        alone = law(queries[h], keys, values, tolerance=1e-6)
        np.testing.assert_allclose(head.covariance, alone.covariance, atol=1e-5 * norm(alone.covariance))


@pytest.mark.parametrize("seed", range(6))
def test_projections_against_sampling(seed):
    queries, keys, values = setting(seed + 40, most_keys=12)
    found = law(queries, keys, values)
    direction = np.random.default_rng(seed).normal(size=values.shape[1])
    drawn = brute_force(queries, keys, values, 20_000, seed)
    along = drawn @ direction
    for p in (0.1, 0.5, 0.9):
        quantile = found.quantile(direction, p)
        assert (along <= quantile.value).mean() == pytest.approx(p, abs=0.02)
        assert float(found.cdf(direction, quantile.value)) == pytest.approx(p, abs=0.02)
    target, radius = values.mean(axis=0), float(np.median(np.linalg.norm(drawn - values.mean(axis=0), axis=1)))
    near = found.probability_within(target, radius)
    assert near.value == pytest.approx(0.5, abs=0.02 + near.error)
    error = found.mean_squared_error(target)
    assert error.value == pytest.approx(((drawn - target) ** 2).sum(axis=1).mean(), rel=0.1)
    sampled = found.sample(20_000, seed=seed)
    np.testing.assert_allclose(sampled.mean(axis=0), found.mean, atol=5 * np.sqrt(found.variance / 20_000) + 1e-12)


@pytest.mark.parametrize(("gap", "digits"), [(3.4, 3), (7.6, 12), (22.35, 100)])
def test_flips_against_mpmath(gap, digits):
    """Probabilities near 1e-3, 1e-12 and 1e-100: four random keys, one of them behind by a gap."""
    means, spreads = [-gap, 0.0, -0.3, -1.0], [1.0, 0.7, 0.9, 0.2]
    # One query of width 4 on keys along the axes, each with a noise of its own.
    keys = hw.RandomKeys(np.diag(means), diagonal=np.diag(np.square(spreads)))
    found = law(np.ones(4), keys, np.eye(4)).flip_probability(0)
    with mpmath.workdps(40):

        def density(z):
            others = [mpmath.ncdf((means[0] + spreads[0] * z - m) / s) for m, s in zip(means[1:], spreads[1:], strict=True)]
            return mpmath.npdf(z) * mpmath.fprod(others)

        centre = mpmath.findroot(lambda z: mpmath.diff(lambda y: mpmath.log(density(y)), z), gap * 0.6)
        points = [centre + mpmath.mpf(step) / 4 for step in range(-32, 33)]
        truth = mpmath.quad(density, points)
        assert abs(found.log - mpmath.log(truth)) < 1e-9
        assert round(-float(mpmath.log10(truth))) == digits
    pair = law(np.ones(4), keys, np.eye(4)).flip_probability(0, against=1)
    assert abs(pair.log - mpmath.log(mpmath.ncdf(-gap / mpmath.sqrt(1 + mpmath.mpf("0.49"))))) < 1e-9


def test_flips_of_all_keys_sum_to_one(rng):
    keys = hw.RandomKeys(rng.normal(size=(7, 4)), isotropic=0.1, along_mean={2: 0.5})
    found = law(5 * rng.normal(size=4), keys, np.eye(7))
    assert sum(float(found.flip_probability(key)) for key in range(7)) == pytest.approx(1, abs=1e-10)


def test_flips_with_certain_keys():
    """A certain rival is a wall, and a certain key meets the others' distribution functions."""
    keys = hw.RandomKeys([[1.0], [0.0], [0.5]], along_mean={0: 0.25})
    found = law([2.0], keys, np.eye(3))
    truth = float(mpmath.ncdf((2 - 1) / 1.0))
    assert float(found.flip_probability(0)) == pytest.approx(truth, abs=1e-12)
    assert float(found.flip_probability(2)) == pytest.approx(1 - truth, abs=1e-12)
    assert float(found.flip_probability(1)) == 0.0


def one_length(scales, count, variance):
    """Integrate over the length of the first of orthonormal keys, heads reading it at some scales: mean and variance."""
    noise, step = np.linspace(-16, 16, 400_001, retstep=True)
    density = np.exp(-0.5 * noise**2) * step / np.sqrt(2 * np.pi)
    moved = np.zeros(len(noise))
    for scale in scales:
        # 1 - a(z) less 1 - a(0), without cancellation: each of the other keys gets an equal part of it.
        rest = (count - 1) * np.exp(-scale)
        with np.errstate(over="ignore"):
            leaks = 1 / (1 + np.exp(scale * np.sqrt(variance) * noise) / rest)
        moved += (leaks - rest / (1 + rest)) / len(scales)
    mean = density @ moved
    return mean, (density @ moved**2 - mean**2) * (1 + 1 / (count - 1))


RARE = [
    (36, 39.668, 0.027),
    (2, 32.2, 0.0082),
    (15, 13.139, 0.017),
    (10, 20.0, 0.01),
    (10, 60.0, 0.02),
    (3, 30.0, 0.02),
    (60, 25.0, 0.04),
    # Firm copies, whose outputs move by less than contexts at the mean scores are rounded to.
    (5, 30.0, 0.004),
    (38, 34.368, 0.00315),
    (4, 37.548, 0.00212),
]


@pytest.mark.parametrize(("method", "heads"), [("laplace", 1), ("pairs", 2), ("pairs", 3)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize(("count", "scale", "variance"), RARE)
def test_rare_lengths(count, scale, variance, tolerance, method, heads):
    """The output moves only when one key is far shorter than it ever is in a million draws."""
    keys = hw.RandomKeys(np.eye(count), along_mean={0: variance})
    found = law(np.tile(scale * np.eye(count)[0], (heads, 1)), keys, np.eye(count), method=method, tolerance=tolerance)
    mean, truth = one_length([scale] * heads, count, variance)
    leak = (count - 1) / (np.exp(scale) + count - 1)
    assert abs(found.variance - truth) <= found.variance_error
    assert abs(found.mean[0] - (1 - leak - mean)) <= found.mean_error
    assert found.met
    assert abs(found.weights_sum - 1) <= 0.1 * tolerance


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-6])
@pytest.mark.parametrize(("gap", "deviation"), [(28.0, 2.03), (20.0, 2.5), (40.0, 3.0), (12.0, 2.1), (60.0, 4.0), (9.0, 1.9)])
@pytest.mark.parametrize("heads", [1, 2])
def test_rare_turns_of_two_noisy_keys(gap, deviation, tolerance, heads):
    """Both scores vary, and the weight of the lower key is made of scores far below where weights are felt."""
    keys = hw.RandomKeys(np.diag([gap, 0.0]), isotropic=deviation**2 / 2)
    found = law(np.ones((heads, 2)), keys, np.array([[0.0], [1.0]]), method="pairs", tolerance=tolerance)
    spread = np.sqrt(2) * deviation
    z, step = np.linspace(-24, 24, 200_001, retstep=True)
    density = np.exp(-0.5 * z**2) * step / np.sqrt(2 * np.pi)
    weight = 1 / (1 + np.exp(gap + spread * z))
    mean = density @ weight
    assert abs(found.mean[0] - mean) <= found.mean_error
    assert abs(found.variance - density @ (weight - mean) ** 2) <= found.variance_error
    assert found.met


@pytest.mark.parametrize("scales", [(1.0, 30.0), (30.0, 1.0), (0.1, 30.0), (100.0, 0.01), (20.0, 35.0)])
@pytest.mark.parametrize("variance", [0.5, 0.02])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_heads_that_share_a_length_at_other_scales(scales, variance, tolerance):
    """A small score of one head goes with a large one of the other: neither may be looked at too coarsely."""
    keys = hw.RandomKeys(np.eye(4), along_mean={0: variance})
    found = law(np.outer(scales, np.eye(4)[0]), keys, np.eye(4), method="pairs", tolerance=tolerance)
    assert found.met
    assert abs(found.variance - one_length(scales, 4, variance)[1]) <= found.variance_error


@pytest.mark.parametrize("heads", [1, 2])
def test_rare_lengths_of_two_keys(heads):
    """Two keys with an equal share of the weight and equal values, both seldom short: a grid over both lengths."""
    scale, variance = 24.0, 0.03
    means = np.eye(5)
    keys = hw.RandomKeys(means, along_mean={0: variance, 1: variance})
    values = np.array([[1.0, 0], [1.0, 0], [0, 1], [0, 1], [0, 1]])
    query = scale * (means[0] + means[1])
    found = law(np.tile(query, (heads, 1)), keys, values, method="pairs", tolerance=1e-4)
    z, step = np.linspace(-13, 13, 4001, retstep=True)
    density = np.exp(-0.5 * z**2) * step / np.sqrt(2 * np.pi)
    grown = np.exp(scale * (1 + np.sqrt(variance) * z))
    moved = 3 / (3 + grown[:, None] + grown) - 3 / (3 + 2 * np.exp(scale))
    mean, square = (density @ moved**power @ density for power in (1, 2))
    assert found.met
    assert abs(found.variance - 2 * (square - mean**2)) <= found.variance_error


@pytest.mark.parametrize("deviation", [100.0, 700.0])
@pytest.mark.parametrize("gap", [8.0, 10.0, 12.0])
def test_rare_flips_of_very_noisy_keys(deviation, gap):
    """The output is one value but in one draw of 10^8 to 10^17, and scores have deviations of hundreds."""
    keys = hw.RandomKeys(np.diag([gap * deviation, 0.0]), isotropic=deviation**2)
    found = law([1.0, 0.0], keys, np.eye(2), tolerance=1e-4)
    with mpmath.workdps(30):
        spread = mpmath.sqrt(2) * deviation
        weight = lambda s: 1 / (1 + mpmath.exp(gap * deviation + s))  # noqa: E731
        density = lambda s: mpmath.npdf(s / spread) / spread  # noqa: E731
        turn = -gap * deviation
        points = [turn - 30 * spread, *(turn + step * deviation / 8 for step in range(-40, 41)), turn + 12 * deviation]
        first, second = (
            mpmath.quad(lambda s, p=p: weight(s) ** p * density(s), sorted([*points, turn - 40, turn, turn + 40]))
            for p in (1, 2)
        )
        truth = float(2 * (second - first**2))
    assert found.met
    assert abs(found.variance - truth) <= found.variance_error


@pytest.mark.parametrize(("mean", "deviation"), [(-71.0, 3.27674537), (-65.0, 3.27674537), (-70.0, 3.5)])
def test_covariances_far_below_rounding(mean, deviation):
    """One key far behind: its weight is nearly e^s, so the variance is nearly that of a lognormal, e^(2 m + 2 s^2)."""
    keys = hw.RandomKeys([[mean, 0.0], [0.0, 0.0]], diagonal=[[deviation**2, 0.0], [0.0, 0.0]])
    found = law([1.0, 0.0], keys, np.eye(2), tolerance=1e-2)
    with mpmath.workdps(60):
        weight = lambda z: 1 / (1 + mpmath.exp(-mean - deviation * z))  # noqa: E731
        first, second = (mpmath.quad(lambda z, p=p: weight(z) ** p * mpmath.npdf(z), range(-16, 41, 2)) for p in (1, 2))
        truth = float(2 * (second - first**2))
    assert abs(found.variance - truth) <= found.variance_error
    assert found.met


@pytest.mark.parametrize("p", [0.001, 0.01, 0.5, 0.99, 0.999])
def test_quantiles_of_a_key_that_is_not_the_widest(p):
    """The second weight is that of one noisy key against a certain one: its quantiles are known."""
    keys = hw.RandomKeys([[-20.0, 0], [0, 0], [5, 0]], diagonal=[[2.0, 0], [1.0, 0], [0, 0]])
    found = law([1.0, 0.0], keys, np.eye(3)).quantile([0, 1, 0], p)
    score = float(mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1))
    assert abs(found.value - 1 / (1 + np.exp(5 - score))) <= found.error
    assert found.error < 0.02


def test_a_probability_that_no_point_contradicts_is_not_certain():
    keys = hw.RandomKeys([[-20.0, 0], [0, 0], [5, 0]], diagonal=[[2.0, 0], [1.0, 0], [0, 0]])
    found = law([1.0, 0.0], keys, np.eye(3)).cdf([0, 1, 0], 0.3)
    truth = float(mpmath.ncdf(5 + mpmath.log(mpmath.mpf(3) / 7)))
    assert abs(found.value - truth) <= found.error < 1e-3
