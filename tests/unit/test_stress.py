"""The law of the output: what it carries, what it refuses, and that nothing depends on chance that should not."""

import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from noisy_settings import setting
from scipy.special import ndtri
from threadpoolctl import threadpool_limits

import headwise as hw
from headwise.cli import main
from headwise.files import read_array
from headwise.stress import Estimate, curve, law, remedies
from headwise.stress.random_bits import normals
from headwise.stress.sampling import Sampler
from headwise.stress.scores import Scores
from headwise.study.clouds import cloud_picture

E = np.eye(6)
KEYS = hw.RandomKeys(E, isotropic=1e-3, along_mean={0: 0.5})


def test_values_wider_than_there_are_keys(rng):
    """The law is the same in any coordinates, and the covariance need not be formed."""
    queries, keys, values = setting(8)
    turn = np.linalg.qr(rng.normal(size=(300, 300)))[0][: values.shape[1]]
    small, wide = law(queries, keys, values, tolerance=1e-6), law(queries, keys, values @ turn, tolerance=1e-6)
    assert wide.turn is not None
    size = np.linalg.norm(small.covariance)
    np.testing.assert_allclose(wide.covariance, turn.T @ small.covariance @ turn, atol=1e-5 * size)
    np.testing.assert_allclose(wide.mean, small.mean @ turn, atol=1e-6)
    np.testing.assert_allclose(wide.covariance_in(turn), small.covariance, atol=1e-5 * size)
    vector = rng.normal(size=300)
    np.testing.assert_allclose(wide.apply(vector), wide.covariance @ vector, atol=1e-12)
    assert float(wide.mean_squared_error(turn[0])) == pytest.approx(
        float(small.mean_squared_error(np.eye(len(turn))[0])), rel=1e-4
    )
    assert wide.sample(5).shape == (5, 300)
    far = turn[0] * 0 + np.linalg.qr(np.vstack([turn, rng.normal(size=(1, 300))]).T)[0][:, -1]
    assert float(wide.probability_within(5 * far, 1.0)) == 0.0


@pytest.mark.parametrize("method", ["hybrid", "montecarlo"])
def test_the_same_seed_gives_the_same_law(method):
    one, same, other = (law(3 * E[:2], KEYS, E, method=method, tolerance=0.05, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.covariance, same.covariance)
    assert (one.covariance != other.covariance).any()


@pytest.mark.parametrize("method", ["pairs", "hybrid", "montecarlo", "delta"])
def test_threads_change_nothing(rng, method):
    means = rng.normal(size=(3000, 16)) / 4
    keys = hw.RandomKeys(means, isotropic=1e-2, along_mean={0: 0.5, 1: 0.5})
    values, found = rng.normal(size=(3000, 40)), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(law(4 * means[:3], keys, values, method=method, tolerance=0.1, seed=3))
    np.testing.assert_array_equal(found[0].covariance, found[1].covariance)
    np.testing.assert_array_equal(found[0].mean, found[1].mean)


def test_interrupted_sampling_keeps_what_it_has():
    def stop(done, total, stage):
        assert 0 < done <= total
        assert stage
        if done < total:
            raise KeyboardInterrupt

    found = law(3 * E[:2], KEYS, E, method="montecarlo", tolerance=1e-3, progress=stop)
    assert found.reason.startswith("interrupted; asked for; the error is ")
    assert not found.met
    truth = law(3 * E[:2], KEYS, E, tolerance=1e-6)
    assert np.linalg.norm(found.covariance - truth.covariance) <= 2 * found.covariance_error


def test_auto_names_its_method(monkeypatch):
    assert law(E[0], hw.RandomKeys(E, isotropic=1e-9), E).method == "delta"
    assert (law(5 * E[0], KEYS, E).method, law(5 * E[:2], KEYS, E).reason) == ("laplace", "the heads are independent")
    assert law(5 * (E[:2] + E[2]), KEYS, E).reason == "the heads share noise"
    monkeypatch.setattr(sys.modules["headwise.stress.choose"], "_PATIENCE", -1.0)
    found = law(5 * E[:2], KEYS, E, tolerance=0.1)
    assert found.method == "montecarlo"
    assert "integrals would take" in found.reason


def test_certain_keys_give_a_certain_output():
    found = law(3 * E[0], hw.RandomKeys(E), E)
    assert found.variance == 0
    assert found.met
    np.testing.assert_allclose(found.mean, hw.attend(3 * E[0], E, E).contexts)
    alone = law([2.0], hw.RandomKeys([[1.0]], isotropic=1.0), [[3.0, 4.0]])
    np.testing.assert_allclose(alone.mean, [3.0, 4.0])
    assert alone.variance < 1e-12


@pytest.mark.parametrize("scale", [100.0, 1000.0])
def test_huge_scores_with_shared_noise(scale):
    """Two heads that are not at right angles, score deviations of hundreds: sampled keys agree."""
    queries = scale * np.array([E[0] + 0.3 * E[1], E[1] + 0.2 * E[2]])
    found = law(queries, KEYS, E, tolerance=0.05)
    assert found.met
    keys = KEYS.sample(20_000, seed=1)
    scores = keys @ queries.T
    top = scores == scores.max(axis=1, keepdims=True)
    drawn = top.mean(axis=2) @ E
    assert found.variance == pytest.approx(drawn.var(axis=0).sum(), rel=0.05 + 5 / scale)


def test_keys_from_a_mapped_file(tmp_path):
    queries, keys, values = setting(5)
    np.save(tmp_path / "means.npy", keys.means)
    mapped = hw.RandomKeys(np.load(tmp_path / "means.npy", mmap_mode="r"), isotropic=0.01)
    same = hw.RandomKeys(keys.means, isotropic=0.01)
    np.testing.assert_array_equal(law(queries, mapped, values).covariance, law(queries, same, values).covariance)


def test_many_keys_are_streamed(monkeypatch):
    """The same law when nothing is kept between passes."""
    queries, keys, values = setting(30, most_keys=200)
    kept = law(queries, keys, values, tolerance=1e-4)
    monkeypatch.setattr(sys.modules["headwise.stress.scores"], "_KEPT", 0)
    np.testing.assert_allclose(law(queries, keys, values, tolerance=1e-4).covariance, kept.covariance, rtol=1e-9, atol=1e-15)


def test_they_print_and_turn_into_data():
    found = law(5 * E[:2], KEYS, E, per_head=True)
    assert str(found).splitlines()[0] == "Law of the output: 2 averaged heads, 6 keys"
    assert repr(found).startswith("<Law: variance 0.0")
    data = json.loads(found.to_json())
    assert data["variance"] == pytest.approx(np.trace(data["covariance"]))
    assert str(Estimate(0.0, 0.0, -500.0)) == "exp(-500)"
    helped = remedies(5 * (E[0] + E[1]), KEYS, E, (E[0] + E[1]) / 2)
    assert json.loads(helped.to_json())["keys"] == [0, 1]
    assert len(helped.ranked) == 8
    values = [remedy.mean_squared_error.value for remedy in helped.ranked]
    assert values == sorted(values) or np.allclose(values, sorted(values), rtol=1e-2)
    drawn = curve(E[0] + E[1], KEYS, E, (E[0] + E[1]) / 2, scales=[1.0, 2.0, 4.0])
    assert len(json.loads(drawn.to_json())["series"]["queries"]["variance"]) == 3
    assert "best scale" in str(drawn)


def test_robust_queries_do_better_than_plain_ones():
    """One head can hold after all: a query at right angles to the key whose length varies pushes the others down."""
    target = (E[0] + E[1]) / 2
    found = hw.design.robust(KEYS, E, target)
    assert found.verify()
    assert found.reason.startswith("a local optimum")
    assert found.numbers["mean_squared_error"] < 0.2 * found.numbers["plain_error"]
    exact = law(found.queries, KEYS, E, tolerance=1e-6).mean_squared_error(target)
    assert abs(exact.value - found.numbers["mean_squared_error"]) <= found.numbers["error_of_that"] + exact.error
    assert abs(found.query[0]) < 0.2 * np.abs(found.query).max()
    assert hw.design.robust(KEYS, E, target, heads=2).queries.shape == (2, 6)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("q.npy", 5 * (E[0] + E[1]))
    np.save("k.npy", E)
    np.savetxt("t.csv", [(E[0] + E[1]) / 2], delimiter=",")
    return lambda *words: CliRunner().invoke(
        main, ["stress", "--queries", "q.npy", "--means", "k.npy", "--values", "k.npy", *words]
    )


def test_on_the_command_line(run):
    noise = "--isotropic", "1e-3", "--along-mean", "0=0.5"
    result = run(*noise, "--target", "t.csv", "--out", "c.npy", "--json")
    data = json.loads(result.stdout)
    truth = law(5 * (E[0] + E[1]), KEYS, E)
    assert data["variance"] == pytest.approx(truth.variance)
    assert data["mean_squared_error"]["value"] == pytest.approx(float(truth.mean_squared_error((E[0] + E[1]) / 2)))
    np.testing.assert_allclose(read_array("c.npy"), truth.covariance)
    result = run(*noise, "--target", "t.csv", "--remedies", "--curve", "curve.svg")
    assert "What would help" in result.stdout
    assert "Error against scale" in result.stdout
    assert "mean squared error from the target: " in result.stdout
    assert "<svg" in Path("curve.svg").read_text()


def test_clouds_show_the_laws(run):
    """The ellipse of one head is as long as its deviation along v_a - v_b; everything drawn lies in the window."""
    one, two = (law(query, KEYS, E) for query in (5 * (E[0] + E[1]), 5 * E[:2]))
    picture = cloud_picture({"one head": one, "two heads": two}, E, [0, 1], (E[0] + E[1]) / 2)
    assert f"variance {one.variance:.3g}" in picture.panels[0].title
    for panel, found in zip(picture.panels, (one, two), strict=True):
        np.testing.assert_allclose(np.trace(panel.covariance), found.variance, rtol=0.05)
        apart = np.array([panel.landmarks[0].x - panel.landmarks[1].x, panel.landmarks[0].y - panel.landmarks[1].y])
        assert np.linalg.norm(apart) == pytest.approx(np.sqrt(2), abs=0.02)  # v_a and v_b lie in the plane
        low, high = np.array(panel.window).T
        assert ((panel.points >= low) & (panel.points <= high)).all()
    along = (E[0] - E[1]) / np.sqrt(2)
    longest = float(np.linalg.eigvalsh(picture.panels[0].covariance)[-1])
    assert longest == pytest.approx(float(one.covariance_in(along)[0, 0]), rel=0.02)
    result = run("--isotropic", "1e-3", "--along-mean", "0=0.5", "--cloud", "cloud.svg")
    assert result.exit_code == 0
    assert "as is, one head" in Path("cloud.svg").read_text()
    np.save("k.npy", E[:, :1])
    np.save("q.npy", [1.0])
    flat = run("--isotropic", "1e-3", "--cloud", "cloud.svg")
    assert flat.stderr == "error: --cloud needs values of at least two coordinates, but v=1.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--cloud", "c.png"], "error: --cloud must end in .svg, but got 'c.png'."),
        (["--remedies"], "error: --remedies and --curve need --target, but it is missing."),
        (["--along-mean", "0:0.5"], "error: --along-mean must be ROW=TAU, but got '0:0.5'."),
        (["--along-mean", "9=0.5"], "error: RandomKeys(): along_mean row must be a key's row, 0 to 5, but got 9."),
        (["--isotropic", "-1"], "error: RandomKeys(): isotropic holds variances, at least 0, but the smallest is -1.0."),
        (
            ["--method", "exact"],
            'error: law(): method must be "auto", "laplace", "pairs", "hybrid", "montecarlo" or "delta", but got "exact".',
        ),
    ],
)
def test_mistakes_on_the_command_line(run, words, sentence):
    result = run(*words)
    assert result.stderr.splitlines()[0] == sentence
    assert result.exit_code == 2


@pytest.mark.parametrize("kind", ["one head", "shared", "own"])
def test_compiled_and_plain_samplers_draw_the_same_numbers(rng, kind):
    """More keys than a block; one covariance for all but a few, or one for each."""
    means = rng.normal(size=(4100, 5))
    noise = (
        {"isotropic": rng.uniform(0.1, 0.3, 4100)} if kind == "own" else {"isotropic": 0.2, "along_mean": {7: 0.5, 4000: 1.0}}
    )
    queries = 2 * rng.normal(size=(1 if kind == "one head" else 3, 5))
    sampler = Sampler(Scores(queries, hw.RandomKeys(means, **noise), rng.normal(size=(4100, 2))))
    assert bool(len(sampler.own)) == (kind == "own")
    plain, compiled = (sampler.weights((5, 6), 3, 4, compiled=compiled) for compiled in (False, True))
    np.testing.assert_allclose(compiled, plain, rtol=2e-4, atol=1e-9)
    np.testing.assert_allclose(compiled.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(sampler.weights((5, 6), 5, 2, compiled=True), compiled[2:])


def test_normals_are_normal():
    """Moments and tail of a million; neighbours in draws, heads and keys are uncorrelated."""
    found = normals((1, 2), np.arange(125), 2000, 4).astype(float)
    count = found.size
    assert abs(found.mean()) < 4 / np.sqrt(count)
    assert abs(found.var() - 1) < 4 * np.sqrt(2 / count)
    assert abs((found**4).mean() - 3) < 4 * np.sqrt(96 / count)
    assert (np.abs(found) > 3).mean() == pytest.approx(0.0026998, rel=0.08)
    for axis in range(3):
        pairs = np.moveaxis(found, axis, 0)
        assert abs((pairs[1:] * pairs[:-1]).mean()) < 4 / np.sqrt(pairs[1:].size)
    assert (normals((1, 3), np.arange(2), 50, 4) != found[:2, :, :50].astype(np.float32)).all()


def test_one_head_of_a_sampler_has_the_right_law():
    """Scores far apart from float32's comfort: standard deviations of hundreds."""
    keys = hw.RandomKeys(E, isotropic=0.01, along_mean={0: 0.5})
    truth = law(300 * (E[0] + E[1]), keys, E, tolerance=1e-5)
    found = law(300 * (E[0] + E[1]), keys, E, method="montecarlo", tolerance=0.02)
    assert np.linalg.norm(found.covariance - truth.covariance) < 2 * found.covariance_error


@pytest.mark.parametrize("scale", [3.0, 10.0])
def test_heads_that_cancel_leave_an_honest_error(scale):
    """Two opposite heads on two keys: the weights of one are those of the other, turned round, so the mean is certain."""
    found = law(np.array([[scale, 0], [-scale, 0]]), hw.RandomKeys(np.eye(2), isotropic=1.0), [[0.0], [1.0]], method="pairs")
    assert abs(found.variance) <= found.variance_error
    assert abs(found.mean[0] - 0.5) <= found.mean_error


def test_linear_terms_that_cancel_are_not_called_tiny_noise():
    """At zero means opposite heads cancel to first order; what is left is of second order, alpha^2 / 27."""
    keys = hw.RandomKeys(np.zeros((3, 3)), isotropic=1e-4)
    found = law([[1.0, 0, 0], [-1.0, 0, 0]], keys, np.eye(3))
    assert found.method == "pairs"
    assert found.variance == pytest.approx(1e-8 / 27, rel=2e-3)
    forced = law([1.0], hw.RandomKeys([[40.0], [0.0]], isotropic=100.0), np.eye(2), method="delta")
    assert forced.variance_error > 3.9e-3
    assert not forced.met


def firm_copies(scale, count, method):
    """Return the law of two heads, each at its value up to a leak of e^-scale, and its variance to first order, exact here."""
    keys, others = np.eye(count), count - 1
    alpha, leak = 1e-8 / scale**2, others / (math.exp(scale) + others)
    # sum_i a_i^2 |v_i - c|^2 for one head, its leak spread evenly over the others; two independent heads.
    context = np.array([-leak, *[leak / others] * others])
    square = (1 - leak) ** 2 * (context**2).sum() + others * (leak / others) ** 2 * (
        (1 - leak) ** 2 + (1 - leak / others) ** 2 + (others - 1) * (leak / others) ** 2
    )
    return law(scale * keys[:2], hw.RandomKeys(keys, isotropic=alpha), keys, method=method), square * alpha * scale**2 / 2


@pytest.mark.parametrize("scale", [10.0, 20.0, 35.0])
@pytest.mark.parametrize("count", [6, 40])
@pytest.mark.parametrize("method", ["laplace", "pairs", "delta"])
def test_firm_copies_keep_their_digits(scale, count, method):
    found, truth = firm_copies(scale, count, method)
    assert abs(found.variance - truth) <= found.variance_error + 1e-7 * truth
    assert found.variance_error <= 1e-3 * truth


@pytest.mark.parametrize("scale", [10.0, 20.0, 30.0])
def test_sampled_firm_copies_say_when_rounding_has_eaten_them(scale):
    found, truth = firm_copies(scale, 6, "hybrid")
    assert abs(found.variance - truth) <= found.variance_error
    assert found.met == (scale == 10.0)


def test_rounding_is_part_of_the_error():
    """At a scale of 60 the other keys are below the last digit of a weight."""
    found = law(60 * E[:2], hw.RandomKeys(E, isotropic=1e-8), E)
    squared = found.mean_squared_error((E[0] + E[1]) / 2)
    assert squared.value <= squared.error
    assert 1e-40 < squared.error < 1e-20


def test_outputs_that_are_certain_take_no_time():
    for queries, keys, values in (
        ([[70.0, 0], [70.0, 0]], hw.RandomKeys([[1.0, 1.0]], isotropic=1.0), [[1.0, 2.0, 3.0]]),
        (50 * E[:2], KEYS, np.full((6, 2), 0.1)),
    ):
        found = law(queries, keys, values)
        assert found.reason == "the output is certain"
        assert found.met
        np.testing.assert_allclose(found.mean, np.asarray(values)[0], rtol=1e-14)


def test_extreme_quantiles_and_atoms_of_several_heads():
    """p.c is the logistic function of a normal with variance 2: equal heads, two keys, values 1 and 0."""
    found = law([[1.0, 0], [1.0, 0]], hw.RandomKeys(np.zeros((2, 2)), isotropic=1.0), [[1.0], [0.0]])
    for p in (1e-5, 1e-4, 0.1, 0.5):
        truth = 1 / (1 + np.exp(-np.sqrt(2) * ndtri(p)))
        estimate = found.quantile([1.0], p)
        assert abs(estimate.value - truth) <= estimate.error
    atom = law([[1.0, 0], [0.3, 1.0]], hw.RandomKeys(np.zeros((2, 2)), isotropic=1.0), [[0.1], [0.1]])
    assert float(atom.cdf([1.0], 0.1)) == 1.0


def test_single_precision_is_part_of_the_error():
    keys = hw.RandomKeys(np.eye(3), isotropic=1e-14)
    truth = law([1.0, 2, 0], keys, np.eye(3), tolerance=1e-6)
    found = law([1.0, 2, 0], keys, np.eye(3), method="montecarlo", tolerance=3e-2)
    assert abs(found.variance - truth.variance) <= found.variance_error


@given(value=st.floats(-1e6, 1e6), error=st.floats(1e-300, 1e3))
def test_printed_numbers_are_within_their_printed_errors(value, error):
    shown, within = str(Estimate(value, error)).split(" ± ")
    assert abs(Fraction(float(shown)) - Fraction(value)) + Fraction(error) <= Fraction(within) * (1 + Fraction(1, 10**12))


def test_outputs_are_not_written_over_inputs(run):
    before = Path("t.csv").read_bytes()
    result = run("--target", "t.csv", "--out", "t.csv")
    assert result.stderr.splitlines()[0] == "error: --out must be a new file, but t.csv is one of the inputs."
    result = run("--target", "t.csv", "--curve", "picture.txt")
    assert result.stderr.splitlines()[0] == "error: --curve must end in .svg, but got 'picture.txt'."
    assert Path("t.csv").read_bytes() == before


def test_more_scores_than_sobol_points_have_coordinates(monkeypatch):
    """What is chosen automatically is never refused."""
    monkeypatch.setattr("headwise.stress.hybrid._MOST_DIMENSIONS", 300)
    monkeypatch.setattr("headwise.stress.choose._PATIENCE", 1e-9)
    monkeypatch.setattr("headwise.stress.sampling._DRAWS", 1 << 12)
    rng = np.random.default_rng(0)
    keys = hw.RandomKeys(rng.standard_normal((200, 8)), isotropic=0.1)
    found = law(3 * rng.standard_normal((2, 8)), keys, rng.standard_normal((200, 3)), tolerance=0.1)
    assert found.method == "montecarlo"


def test_forced_linearisation_of_loud_noise_covers_the_truth():
    """The linear term alone is 25, the truth 0.444."""
    keys = hw.RandomKeys(np.eye(2), along_mean={0: 0.5})
    query = 20 * np.ones(2)
    found, truth = law(query, keys, np.eye(2), method="delta"), law(query, keys, np.eye(2))
    assert abs(found.variance - truth.variance) <= found.variance_error


def test_variances_are_not_negative_and_huge_radii_are_no_mistake():
    cancelling = law(10 * np.array([[1.0, 0.0], [-1.0, 0.0]]), hw.RandomKeys(np.eye(2), isotropic=1e-2), np.eye(2))
    assert 0 <= cancelling.variance <= cancelling.variance_error
    assert law(E[0], KEYS, E).probability_within(E[0], 1e160).value == 1


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_robust_queries_do_not_depend_on_the_size_of_values(size):
    keys, target = hw.RandomKeys(np.eye(10), isotropic=1e-6, along_mean={0: 0.5}), (np.eye(10)[0] + np.eye(10)[1]) / 2
    plain, scaled = (hw.design.robust(keys, by * np.eye(10), by * target, heads=2) for by in (1.0, size))
    assert plain.numbers["mean_squared_error"] < 1e-12
    assert scaled.numbers["mean_squared_error"] < 1e-12 * size**2
