"""`copyable` against an oracle in fractions that shares no code with it, and at sizes where only proofs can be trusted."""

import json
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import nnls

from headwise import errors
from headwise.design import flat, vertices, witnesses
from headwise.design.certificates import Blocked, Winner
from headwise.design.copyable import copyable
from headwise.design.face import face_design


def is_mixture(row, others):
    """Whether a row is a mixture of others: phase 1 of the simplex method in fractions, by Bland's rule."""
    if not others:
        return False
    wanted = [*map(Fraction, row), Fraction(1)]
    columns = [[*map(Fraction, other), Fraction(1)] for other in others]
    size, count = len(wanted), len(columns)
    table = []
    for r in range(size):
        sign = -1 if wanted[r] < 0 else 1
        slack = [Fraction(int(r == s)) for s in range(size)]
        table.append([*(sign * column[r] for column in columns), *slack, sign * wanted[r]])
    basis = list(range(count, count + size))
    cost = [sum(line[c] for line in table) for c in range(count)] + [Fraction(0)] * size + [sum(line[-1] for line in table)]
    while True:
        enter = next((c for c in range(count) if cost[c] > 0), None)
        if enter is None:
            return cost[-1] == 0
        ratios = [(table[r][-1] / table[r][enter], basis[r], r) for r in range(size) if table[r][enter] > 0]
        leave = min(ratios)[2]
        pivot = table[leave][enter]
        table[leave] = [entry / pivot for entry in table[leave]]
        for line in [*(table[r] for r in range(size) if r != leave), cost]:
            factor = line[enter]
            if factor:
                line[:] = [a - factor * b for a, b in zip(line, table[leave], strict=True)]
        basis[leave] = enter


def oracle(keys):
    rows = keys.tolist()
    return np.array([not is_mixture(row, rows[:j] + rows[j + 1 :]) for j, row in enumerate(rows)])


def assert_agrees(keys, **options):
    found = copyable(keys, distance="bound", workers=1, **options)
    assert not found.undecided.any()
    np.testing.assert_array_equal(found.possible, oracle(keys))
    return found


def integer_set(rng):
    """Ties, duplicates and flat sets are common here."""
    count, width = int(rng.integers(1, 11)), int(rng.integers(1, 5))
    keys = rng.integers(-2, 3, (count, width)).astype(float)
    if rng.random() < 0.3:
        keys = keys @ rng.integers(-2, 3, (width, 1)) @ rng.integers(-2, 3, (1, width)).astype(float)
    if rng.random() < 0.3:
        keys[-1] = keys.mean(axis=0) if rng.random() < 0.5 else keys[0]
    return keys


def test_the_oracle_knows_a_square():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 1.0], [0.3, 0.3], [1.0, 1.5]])
    assert oracle(square).tolist() == [True, True, True, False, False, False, True]
    assert not is_mixture([1.0], [])


@pytest.mark.parametrize("scale", [1.0, 1e-10, 1e10])
def test_small_integer_sets(rng, scale):
    for _ in range(100):
        assert_agrees(scale * integer_set(rng))


def test_one_unit_in_the_last_place(rng):
    for _ in range(60):
        keys = rng.integers(-4, 5, (9, 3)).astype(float) / 3
        keys[-2] = (keys[0] + keys[1]) / 2
        keys[-1] = (keys[0] + keys[1] + keys[2]) / 3
        column = int(rng.integers(3))
        keys[-1, column] = np.nextafter(keys[-1, column], rng.choice([-np.inf, np.inf]))
        assert_agrees(keys)


def test_wide_exponents(rng):
    for _ in range(20):
        assert_agrees(np.ldexp(rng.normal(size=(6, 3)), rng.integers(-1000, 1000, (6, 3))))


def test_medium_sets_with_lattice_ties(rng):
    for width in (3, 4):
        assert_agrees(rng.integers(0, 4, (40, width)).astype(float))
    assert_agrees(rng.integers(-3, 4, (40, 2)) @ rng.integers(-3, 4, (2, 5)).astype(float))
    assert_agrees(np.column_stack([rng.integers(-9, 10, (40, 3)), np.full(40, 0.1)]))


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extreme_sizes_change_nothing(rng, scale):
    keys = np.rint(1024 * rng.normal(size=(300, 5))) / 1024
    power = 2.0 ** np.round(np.log2(scale))
    plain, extreme = copyable(keys), copyable(keys * power)
    np.testing.assert_array_equal(plain.codes, extreme.codes)
    np.testing.assert_allclose(extreme.distances / power, plain.distances, rtol=1e-9, atol=1e-12)
    assert plain.impossible.any()
    assert plain.possible.any()


def test_largest_and_smallest_floats():
    largest = np.finfo(float).max
    found = copyable(largest * np.array([[1.0, 1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, -1], [0.5, 0.5, 0.5]]))
    assert found.verdicts.tolist() == ["possible"] * 4 + ["impossible"]
    tiny = 5e-324 * np.array([[0.0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4], [1, 1, 1]])
    assert copyable(tiny).verdicts.tolist() == ["possible"] * 4 + ["impossible"]


def test_planted_mixtures_are_never_possible(rng):
    for width, count in ((40, 300), (160, 600)):
        keys = np.rint(rng.normal(size=(count, width)) * 2**20) * 4
        first, second, third, fourth = rng.integers(0, count // 2, (4, count // 2))
        middle = (keys[first] + keys[second] + keys[third] + keys[fourth]) / 4
        keys[count // 2 :] = middle
        found = copyable(keys, distance="bound")
        assert found.impossible[count // 2 :].all()
        assert found.possible[: count // 2].any()


@pytest.mark.parametrize("outlier", [1.0, 1e4])
def test_bounds_of_float32_queries_are_below_the_truth(rng, monkeypatch, outlier):
    """The witness of a key is its row in float32, so its true margin can be computed and compared."""
    monkeypatch.setattr(witnesses, "_BLOCK", 300)
    points = rng.normal(size=(4001, 144)) * np.geomspace(1, 0.05, 144)
    points[7] *= outlier
    taken = []
    for metric in (witnesses.Metric.plain(points), witnesses.Metric.white(points)):
        seen = witnesses.Seen.through(metric, points, witnesses.lengths(points), 2)
        taken.append(witnesses._coordinates(seen))
        lower = witnesses.own_queries(seen, 2, lambda *_: None)
        chosen = np.append(rng.choice(4001, 400, replace=False), 7)
        queries = metric.queries(seen.rows[chosen].astype(float))
        scores = queries @ points.T
        own = scores[np.arange(401), chosen].copy()
        scores[np.arange(401), chosen] = -np.inf
        truth = (own - scores.max(axis=1)) / np.linalg.norm(queries, axis=1)
        assert (lower[chosen] <= truth).all()
        assert (lower[chosen] > 0).sum() > 0.9 * (truth > 0).sum() > 0
    # Without an outlier the first coordinates suffice, in the metric that keeps them large.
    assert (taken[0] < 144) == (outlier == 1.0)


def test_float32_bounds_refuse_what_they_cannot_see(rng):
    """A rival closer than float32 can tell is no rival that may be overlooked."""
    keys = rng.normal(size=(200, 24))
    longer = keys[:100] * (1 + 1e-9)
    found = copyable(np.concatenate([keys, longer]), distance="bound")
    assert not found.undecided.any()
    assert not (found.how[:100] == "float32 bound").any()


def test_gauss_of_width_8_against_single_designs(rng):
    keys = rng.normal(size=(2000, 8))
    found = copyable(keys, distance="bound")
    assert not found.undecided.any()
    assert {"float32 bound", "float64 bound", "interval arithmetic"} <= set(found.how.tolist())
    for row in rng.choice(2000, 60, replace=False):
        design = face_design("copy", keys, [int(row)], 1e-3, values=None, seconds=20.0)
        assert design.verdict == found.verdicts[row]
        if design.verdict == "possible":
            assert 0 < found.distances[row] <= design.best_margin


def test_many_wide_keys(rng):
    keys = rng.normal(size=(3000, 64)) + 5.0
    found = copyable(keys, distance="bound")
    assert found.possible.all()
    assert found.verify(rng.choice(3000, 2, replace=False))


@pytest.mark.parametrize("slopes", [[1.0, 2.0], [1.0, 3.0, -2.0], [1.0, 0.0, 0.0, 5.0]])
def test_one_hundred_thousand_keys_on_a_line(rng, slopes):
    steps = rng.permutation(100_000).astype(float)
    keys = np.outer(steps, slopes) + 7.0
    keys[:10] = keys[10:20]
    found = copyable(keys)
    ends = np.isin(keys[:, 0], [keys[:, 0].min(), keys[:, 0].max()])
    alone = np.bincount(np.unique(keys[:, 0], return_inverse=True)[1])[np.unique(keys[:, 0], return_inverse=True)[1]] == 1
    np.testing.assert_array_equal(found.possible, ends & alone)
    np.testing.assert_array_equal(found.impossible, ~(ends & alone))


def test_a_line_that_rounding_bends(rng):
    """Two of the columns are exact multiples, the third is rounded: which keys win is up to the rounding, and decided."""
    keys = np.outer(rng.normal(size=25), [1.0, 2.0, 3.0])
    assert assert_agrees(keys).possible.sum() >= 2
    assert not copyable(np.outer(rng.normal(size=50_000), [1.0, 2.0, 3.0])).undecided.any()


def test_flat_sets_lose_columns_only_if_exactly_flat(rng):
    base = rng.integers(-50, 50, (500, 3)).astype(float)
    keys = np.column_stack([base, base @ [1.0, 2.0, -1.0] + 3.0, np.full(500, 0.1)])
    assert len(flat.enough_columns(keys, keys - keys.mean(axis=0))) == 3
    keys[377, 4] = np.nextafter(0.1, 1.0)
    assert len(flat.enough_columns(keys, keys - keys.mean(axis=0))) == 4
    full = rng.normal(size=(100, 4))
    assert flat.enough_columns(full, full) is None


def test_zero_has_no_sign_and_equals_are_impossible():
    found = copyable([[0.0, 1.0, 0.0], [-0.0, 1.0, -0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    assert found.verdicts.tolist() == ["impossible", "impossible", "possible", "possible"]
    assert found.how.tolist()[:2] == ["duplicate", "duplicate"]
    assert copyable(np.ones((1000, 3))).impossible.all()


def test_a_duplicate_still_blocks_others():
    keys = np.array([[0.0, 0, 0], [0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2], [0.1, 0.1, 0.1]])
    assert copyable(keys).verdicts.tolist() == ["impossible"] * 2 + ["possible"] * 3 + ["impossible"]


def test_an_only_key_is_infinitely_far_from_nothing():
    found = copyable([[3.0, 4.0, 5.0]])
    assert found.possible.all()
    assert found.distances[0] == np.inf
    assert found.distance_errors[0] == 0
    assert json.loads(found.to_json())["distances"] == [None]


def test_fewer_keys_than_columns(rng):
    assert copyable(rng.normal(size=(30, 80))).possible.all()
    keys = rng.integers(-9, 10, (30, 80)).astype(float)
    keys[0] = (keys[1] + keys[2]) / 2
    assert copyable(keys).verdicts.tolist() == ["impossible"] + ["possible"] * 29


def distance_by_nnls(keys, row):
    """Return the distance of a key from the hull of all others, by one problem over all of them."""
    differences = keys[row] - np.delete(keys, row, axis=0)
    shares, _ = nnls(np.vstack([differences.T, np.ones(len(keys) - 1)]), np.append(np.zeros(keys.shape[1]), 1.0))
    return np.linalg.norm(shares @ differences / shares.sum())


@pytest.mark.parametrize("width", [1, 2, 5])
def test_exact_distances_against_nnls(rng, width):
    keys = rng.normal(size=(150, width))
    found = copyable(keys, distance="exact")
    assert found.possible.any()
    for row in range(150):
        distance = distance_by_nnls(keys, row)
        assert abs(found.distances[row] - distance) <= found.distance_errors[row] + 1e-9
        assert found.distance_errors[row] < 1e-7
    np.testing.assert_array_equal(found.distances > 0, found.possible)


def test_bounds_are_below_exact_distances(rng):
    for keys in (
        rng.normal(size=(600, 6)),
        rng.normal(size=(300, 2)),
        np.tanh(rng.normal(size=(500, 4)) @ rng.normal(size=(4, 30))),
    ):
        bound, exact = copyable(keys, distance="bound"), copyable(keys)
        assert (bound.distance, exact.distance) == ("bound", "exact")
        assert (bound.distances <= exact.distances + exact.distance_errors).all()
        assert (bound.distances[bound.possible] > 0).all()
        assert np.isinf(bound.distance_errors[bound.possible]).all()


def test_planar_bounds_look_behind_the_outline():
    """The runner-up of a vertex is no vertex here."""
    found = copyable([[0.0, 0.0], [4.0, 0.0], [2.0, 8.0], [2.0, 7.5], [2.0, 1.0]], distance="bound")
    assert found.verdicts.tolist() == ["possible"] * 3 + ["impossible"] * 2
    assert 0.4 < found.distances[2] <= 0.5


def test_planar_distances_against_nnls(rng):
    """Few keys, so that one, two or no keys lie inside the outline."""
    for count in (2, 3, 4, 5, 6, 8):
        for _ in range(20):
            keys = rng.integers(-4, 5, (count, 2)).astype(float)
            bound, exact = copyable(keys, distance="bound"), copyable(keys)
            for row in np.flatnonzero(exact.possible):
                distance = distance_by_nnls(keys, row)
                assert bound.distances[row] <= distance * (1 + 1e-12)
                assert abs(exact.distances[row] - distance) <= exact.distance_errors[row] + 1e-12


def test_the_number_of_workers_changes_nothing(rng, monkeypatch):
    monkeypatch.setattr(vertices, "_MANY", 300)
    keys = np.concatenate([rng.normal(size=(2500, 5)), rng.integers(-1, 2, (500, 5)).astype(float)])
    one, two, three = (copyable(keys, workers=workers, distance="bound") for workers in (1, 2, 3))
    for other in (two, three):
        np.testing.assert_array_equal(one.codes, other.codes)
        np.testing.assert_array_equal(one.methods, other.methods)
        np.testing.assert_array_equal(one.distances, other.distances)
    assert one.impossible.sum() > 1000


@pytest.mark.parametrize("stage", ["choosing a metric", "float32 witnesses", "search", "exact arithmetic", "distances"])
def test_interruption_keeps_what_is_known(rng, stage):
    keys = np.concatenate([rng.integers(0, 6, (600, 3)).astype(float), 12 * rng.normal(size=(60, 3))])
    keys = keys[:600] if stage == "exact arithmetic" else keys
    if stage == "float32 witnesses":
        keys = rng.normal(size=(1500, 12))

    def stop(done, total, name):
        assert 0 <= done <= total
        if name == stage:
            raise KeyboardInterrupt

    whole, part = copyable(keys), copyable(keys, progress=stop)
    assert part.reason == "interrupted"
    known = ~part.undecided
    np.testing.assert_array_equal(part.codes[known], whole.codes[known])
    assert np.isnan(part.distances[part.undecided]).all()
    assert part.undecided.any() == (stage != "distances")


def test_no_time_for_exact_arithmetic(rng):
    keys = rng.integers(0, 5, (400, 3)).astype(float)
    rushed, full = copyable(keys, seconds=0.0), copyable(keys)
    assert rushed.undecided.any()
    assert rushed.reason == f"exact arithmetic was not done with {rushed.undecided.sum()} keys after 0 s"
    known = ~rushed.undecided
    np.testing.assert_array_equal(rushed.codes[known], full.codes[known])
    assert not rushed.verify([int(np.flatnonzero(rushed.undecided)[0])])


def test_certificates(rng):
    keys = rng.integers(-2, 3, (30, 3)).astype(float)
    found = copyable(keys)
    assert found.verify()
    assert isinstance(found.certificate(int(np.flatnonzero(found.possible)[0])), Winner)
    assert isinstance(found.certificate(int(np.flatnonzero(found.impossible)[0])), Blocked)
    with pytest.raises(errors.RowError, match="certificate\\(\\): row must be a key's row, 0 to 29, but got 30"):
        found.certificate(30)


def test_what_it_says(rng):
    found = copyable(np.vstack([np.eye(3), np.full((1, 3), 1 / 4), np.eye(3)[:1], -np.ones((1, 3))]))
    assert repr(found) == "<Copyable: 3 possible, 3 impossible, 0 undecided>"
    said = found.summary()
    assert said.title == "copyable: 3 of 6 keys"
    assert [line[:2] for line in said.rows] == [["impossible", "3"], ["possible", "3"]]
    assert "duplicate 2" in said.rows[0][2]
    assert any(note.startswith("smallest distances: key ") for note in said.notes)
    data = found.to_dict()
    assert data["verdicts"] == found.verdicts.tolist()
    assert (data["possible"], data["impossible"], data["undecided"]) == (3, 3, 0)
    assert "at least" in str(copyable(rng.normal(size=(50, 3)), distance="bound"))


def test_mistakes():
    with pytest.raises(errors.OptionError, match='distance must be "auto", "exact" or "bound", but got "bounds"'):
        copyable(np.eye(2), distance="bounds")
    with pytest.raises(errors.ShapeError, match="keys must have shape \\(k, d\\)"):
        copyable(np.ones(3))
    with pytest.raises(errors.OptionError, match="workers must be a whole number of at least 1"):
        copyable(np.eye(2), workers=0)
    with pytest.raises(errors.NotFiniteError):
        copyable([[np.nan, 1.0]])
