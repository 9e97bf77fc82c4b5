"""Queries and layers that do what they promise, and refusals that are proved."""

import json
import math
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import headwise as hw
from headwise.design import average, context, copy, copyable, extractor, layer, weights
from headwise.design.queries import split
from headwise.design.scale import log_leak, smallest_scale
from headwise.errors import SubspaceError
from headwise.files import read_array


@pytest.mark.parametrize("leak", [0.5, 1e-3, 1e-9, 1e-200])
@pytest.mark.parametrize(("count", "size"), [(10, 1), (10, 2), (10, 5), (3, 2)])
def test_orthonormal_keys_need_the_textbook_scale(leak, count, size):
    """Margin log((n - |S|)(1 - eps) / (|S| eps)) between the set and the rest."""
    keys = hw.orthonormal(count, count + 2, seed=3)
    design = average(keys, range(size), leak=leak)
    scores = keys @ design.query
    wanted = math.log((count - size) * (1 - leak) / size) - math.log(leak)
    assert scores[:size].mean() - scores[size:].mean() == pytest.approx(max(wanted, 0), rel=1e-9, abs=1e-9)
    assert design.leak <= leak
    assert design.verify()


def test_the_margin_is_the_distance_to_the_hull(rng):
    """Against the same distance from non-negative least squares on all keys."""
    from scipy.optimize import nnls

    keys = rng.normal(size=(60, 5))
    for row in range(60):
        design = copy(keys, row)
        differences = keys[row] - np.delete(keys, row, axis=0)
        solved, _ = nnls(np.vstack([differences.T, np.ones(59)]), np.r_[np.zeros(5), 1.0])
        distance = np.linalg.norm(solved @ differences) / solved.sum()
        if design.verdict == "possible":
            assert design.margin <= distance * (1 + 1e-9)
            assert design.margin >= distance * (1 - 1e-6)
            assert design.best_margin >= design.margin
        else:
            assert distance < 1e-12


def test_error_bounds_hold(rng):
    for _ in range(20):
        keys, values = rng.normal(size=(12, 6)), rng.normal(size=(12, 3))
        single = copy(keys, 4, values=values, leak=0.05)
        if single.query is not None:
            assert np.linalg.norm(hw.attend(single.query, keys, values).contexts - values[4]) <= single.error_bound
        pair = average(keys, [1, 2], values=values, leak=0.05, heads=2)
        if pair.queries is not None:
            both = hw.average_heads(pair.queries, keys, values).contexts
            assert np.linalg.norm(both - values[1:3].mean(axis=0)) <= pair.error_bound


@pytest.mark.parametrize(("rows", "heads"), [([0, 1], 1), ([0, 1], 2), ([0, 1, 2], 2), ([2, 4], 4), ([0, 1, 2, 3, 4, 5], 4)])
def test_heads_share_a_set(rows, heads):
    keys = values = hw.orthonormal(8, 9)
    design = average(keys, rows, heads=heads, leak=1e-6, values=values)
    assert design.queries.shape == (heads, 9)
    assert design.verify()
    mean = hw.average_heads(design.queries, keys, values).contexts
    assert np.linalg.norm(mean - values[rows].mean(axis=0)) <= design.error_bound <= 3e-6
    served = [row for part in split(rows, heads) for row in part]
    assert {served.count(row) for row in rows} == {len(served) // len(rows)}


HARD = {
    "duplicate": ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 0, "impossible"),
    "all equal": (np.ones((5, 3)), 2, "impossible"),
    "one key": ([[1.0, 2.0]], 0, "possible"),
    "fewer keys than coordinates": (np.random.default_rng(0).normal(size=(3, 9)), 1, "possible"),
    "rank-deficient": (np.outer([0.0, 1.0, 3.0, 2.0], [1.0, 2.0, 3.0]), 3, "impossible"),
    "rank-deficient end": (np.outer([0.0, 1.0, 3.0, 2.0], [1.0, 2.0, 3.0]), 2, "possible"),
    "tiny": (1e-10 * np.vstack([np.eye(4), np.full(4, 0.25)]), 4, "impossible"),
    "huge": (1e10 * np.vstack([np.eye(4), np.full(4, 0.3)]), 4, "possible"),
    "many collinear": (np.outer(np.arange(100_000.0), [3.0, 1.0]), 50_000, "impossible"),
    "end of many collinear": (np.outer(np.arange(100_000.0), [3.0, 1.0]), 99_999, "possible"),
    "far from zero": (1e6 + np.random.default_rng(1).normal(size=(9, 12)), 3, "possible"),
    "zero": (np.zeros((1, 2)), 0, "possible"),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_cases(name):
    keys, row, verdict = HARD[name]
    keys = np.asarray(keys)
    design = copy(keys, row, leak=1e-3)
    assert design.verdict == verdict
    assert design.verify()
    if verdict == "possible":
        assert float(hw.attend(design.query, keys, keys).leak(row)) <= 1e-3


def test_averages_with_duplicates():
    keys = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    both = average(keys, [0, 1])
    assert (both.verdict, both.verify()) == ("possible", True)
    one = average(keys, [0, 2])
    assert one.verdict == "impossible"
    assert one.certificate.rows == [1]
    assert one.verify()
    assert average(keys, [0, 0, 1, 2, 3]).queries.tolist() == [[0.0, 0.0]]


def test_a_split_that_fails_is_not_called_impossible():
    # Two heads on {0, 1, 4, 5}: the halves {0, 1} and {4, 5} are not faces of the hexagon, other halves would be.
    angles = np.arange(6) * np.pi / 3
    keys = np.column_stack([np.cos(angles), np.sin(angles)])[[0, 2, 1, 3, 4, 5]]
    design = average(keys, [0, 1, 2, 4], heads=2)
    assert design.verdict == "undecided"
    assert "others were not tried" in design.reason
    assert average(keys, [0, 3], heads=2).verdict == "possible"


def test_a_large_common_offset_hides_the_margin():
    keys = 1e17 + np.array([[0.0, 64.0], [64.0, 0.0], [0.0, 0.0]])
    design = copy(keys, 0)
    assert design.verdict == "possible"
    assert design.verify()
    assert design.query is None or float(hw.attend(design.query, keys, keys).leak(0)) <= 1e-3


@pytest.mark.parametrize("leak", [0.9, 1e-3, 1e-300])
def test_smallest_scale_is_smallest(rng, leak):
    for _ in range(50):
        gaps = 10.0 ** rng.uniform(-8, 5) * (1e-3 + rng.random(rng.integers(1, 300)))
        scale = smallest_scale(gaps, 3, leak)
        assert log_leak(scale, gaps, 3) <= math.log(leak) + 1e-12 * (1 - math.log(leak))
        assert scale == 0 or log_leak(scale * (1 - 1e-9), gaps, 3) > math.log(leak)


def face_by_linear_programs(keys, inside):
    """The keys that can carry weight in some mixture with the barycentre of the set: those on its smallest face.

    Each program asks for as much weight as possible on all keys not yet found; an average of its mixtures carries all.
    """
    centre = keys[inside].mean(axis=0)
    found = set(inside)
    while True:
        rest = np.array([row not in found for row in range(len(keys))], dtype=float)
        solved = linprog(
            -rest,
            A_eq=np.vstack([keys.T, np.ones(len(keys))]),
            b_eq=np.r_[centre, 1.0],
            bounds=(0, None),
            method="highs",
        )
        assert solved.status == 0
        more = set(np.flatnonzero((solved.x > 1e-7) & (rest > 0)).tolist())
        if not more:
            return sorted(found)
        found |= more


def test_weights_converge_on_the_right_face():
    """500 targets, of which more than 200 have their optimum at infinity."""
    rng = np.random.default_rng(11)
    at_infinity, verdicts = 0, []
    for trial in range(500):
        count, width = rng.integers(2, 16), rng.integers(1, 6)
        keys = rng.normal(size=(count, width)) if trial % 2 else rng.integers(-2, 3, size=(count, width)).astype(float)
        target = rng.dirichlet(np.ones(count))
        if trial % 5:
            target[rng.permutation(count)[: rng.integers(max(1, count // 2), count)]] = 0
            target /= target.sum()
        design = weights(keys, target)
        face = face_by_linear_programs(keys, np.flatnonzero(target).tolist())
        assert design.numbers["face_keys"] == len(face)
        assert design.numbers["residual"] < 1e-10
        assert design.verdict != "undecided"
        assert design.verify()
        at_infinity += len(face) < count
        verdicts.append(design.verdict)
        if design.verdict == "possible":
            out = hw.attend(design.query, keys, keys)
            assert float(out.leak(face)) <= 1e-6
            assert np.abs(out.weights - target).sum() < 1e-4
    assert at_infinity >= 200
    assert verdicts.count("possible") > 50


def test_weights_of_a_query_are_reachable(rng):
    keys = rng.normal(size=(30, 4))
    target = hw.attend(2 * rng.normal(size=4), keys, keys).weights
    design = weights(keys, target)
    assert design.verdict == "possible"
    np.testing.assert_allclose(hw.attend(design.query, keys, keys).weights, target, rtol=1e-6)


def test_no_query_beats_the_proved_divergence(rng):
    keys, target = rng.normal(size=(8, 2)), rng.dirichlet(np.ones(8))
    design = weights(keys, target)
    assert design.verdict == "impossible"
    for query in 3 * rng.normal(size=(500, 2)):
        found = hw.attend(query, keys, keys)
        divergence = np.sum(target * (np.log(target) - found.scores + found.log_normalizer))
        assert divergence >= design.certificate.gain
    assert design.certificate.gain == pytest.approx(design.numbers["divergence"], rel=1e-6)


def test_context_of_keys_as_values_hits_any_interior_target(rng):
    keys = rng.normal(size=(12, 4))
    for _ in range(20):
        target = rng.dirichlet(np.ones(12)) @ keys
        design = context(keys, keys, target)
        assert design.verdict == "possible"
        assert design.verify()
        assert np.linalg.norm(hw.attend(design.query, keys, keys).contexts - target) <= design.error_bound
        assert design.numbers["error"] < 1e-9


def test_context_outside_the_hull_is_proved_impossible(rng):
    keys, values = rng.normal(size=(12, 4)), rng.normal(size=(12, 3))
    target = 3 * values[0]
    design = context(keys, values, target)
    assert design.verdict == "impossible"
    assert design.verify()
    for query in 5 * rng.normal(size=(200, 4)):
        assert np.linalg.norm(hw.attend(query, keys, values).contexts - target) >= design.numbers["distance"]


def test_context_of_free_values(rng):
    keys, values = rng.normal(size=(6, 6)), rng.normal(size=(6, 2))
    inside = context(keys, values, values.mean(axis=0))
    assert inside.verdict == "possible"
    narrow = context(keys[:, :1], values, 0.9 * values[0] + 0.1 * values[1])
    assert narrow.verdict in ("possible", "undecided")
    assert narrow.query is not None
    if narrow.verdict == "undecided":
        assert "not proved best" in narrow.reason


def test_the_classic_instance_without_matrices_is_impossible():
    """u_b is outside the hull of the tokens, whatever multiples of u_c or u_d are added to the second."""
    u_a, u_b, u_c, u_d = 5 * np.eye(4)
    for added in (0 * u_a, 3 * u_c, -2 * u_d, u_c + u_d):
        tokens = np.stack([u_d + u_b, u_a + added, u_c + u_b])
        design = context(tokens, tokens, u_b)
        assert design.verdict == "impossible"
        assert design.verify()


def test_the_classic_instance_with_matrices():
    u_a, u_b, u_c, u_d = np.eye(4)
    tokens = np.stack([u_d + u_b, u_a, u_c + u_b])
    targets = {0: u_b - u_c, 1: u_b}
    found = layer(tokens, reads={0: 2, 1: 0}, targets=targets, leak=1e-9)
    assert (found.verdict, found.rank) == ("possible", 2)
    assert found.verify()
    contexts = found(tokens).contexts
    for place, target in targets.items():
        assert np.linalg.norm(contexts[place] - target) <= found.error_bound < 1e-8
    chosen = layer(tokens, targets=targets)
    assert chosen.verdict == "possible"
    assert np.linalg.norm(chosen(tokens).contexts[1] - u_b) <= chosen.error_bound


def test_the_least_pattern_is_least():
    """By hand, the smallest B for the classic reads has squared norm 3/10 + 3/5."""
    from headwise.design.pattern import Pattern, solve

    u_a, u_b, u_c, u_d = np.eye(4)
    tokens = np.stack([u_d + u_b, u_a, u_c + u_b])
    matrix = solve(Pattern(tokens, np.array([0, 1]), np.array([[False, False, True], [True, False, False]])), seconds=5)
    assert np.sum(matrix**2) == pytest.approx(0.9, rel=1e-9)
    assert np.linalg.matrix_rank(matrix, tol=1e-9) == 2


@pytest.mark.parametrize(("count", "width"), [(5, 3), (12, 16), (20, 5), (16, 4)])
def test_layers_keep_their_promise(rng, count, width):
    tokens = rng.normal(size=(count, width))
    reads = {i: int(rng.integers(count)) for i in range(0, count, 2)}
    found = layer(tokens, reads=reads, leak=1e-4)
    assert found.verdict in ("possible", "impossible")
    assert found.verify()
    if found.verdict == "possible":
        table = found(tokens).weights
        assert all(1 - table[i, j] <= 1e-4 * (1 + 1e-9) for i, j in reads.items())


def test_a_pattern_that_contradicts_itself_is_impossible():
    tokens = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    found = layer(tokens, reads={0: 1})
    assert found.verdict == "impossible"
    assert found.verify()
    both = layer(tokens, reads={0: 0, 1: 2})
    assert both.verdict == "impossible"
    assert both.verify()


def test_a_token_of_zeros_looks_nowhere():
    """Its scores are zero whatever the matrices are."""
    tokens = np.array([[0.0, 0.0], [4.0, 0.0]])
    assert layer(tokens, reads={0: 1}).verdict == "impossible"
    assert layer(tokens, targets={0: [4.0, 1.0]}).verdict == "undecided"
    assert layer(tokens, reads={1: 0}).verdict == "possible"


def test_layers_that_average_and_mix():
    tokens = hw.orthonormal(5, 6)
    found = layer(tokens, reads={0: {1: 0.5, 2: 0.5}, 3: {0: 0.2, 1: 0.3, 4: 0.5}, 4: 2}, leak=1e-6)
    assert found.verdict == "possible"
    assert found.verify()
    table = found(tokens).weights
    np.testing.assert_allclose(table[0, [1, 2]], 0.5, atol=1e-6)
    np.testing.assert_allclose(table[3, [0, 1, 4]], [0.2, 0.3, 0.5], atol=1e-6)


def test_targets_that_break_a_dependency_are_impossible():
    tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    found = layer(tokens, reads={0: 0, 1: 1, 2: 2}, targets={0: [1.0], 1: [1.0], 2: [5.0]})
    assert found.verdict == "impossible"
    assert found.verify()
    assert "no V maps" in found.reason


def test_greedy_patterns(monkeypatch):
    import sys

    monkeypatch.setattr(sys.modules["headwise.design.layer"], "_MOST_PATTERNS", 1)
    tokens = hw.orthonormal(4, 5)
    found = layer(tokens, targets={0: [1.0, 0.0], 2: [0.0, 1.0]})
    assert found.verdict == "possible"
    np.testing.assert_allclose(found(tokens).contexts[[0, 2]], np.eye(2), atol=2e-3)


def test_a_layer_runs_in_torch_and_from_a_file(tmp_path):
    tokens = hw.orthonormal(4, 5)
    found = layer(tokens, reads={0: 1, 2: 3}, targets={0: [1.0, 0.0], 2: [0.0, 1.0]})
    maps = found.to_torch()
    inputs = torch.from_numpy(tokens)
    with torch.no_grad():
        scores = maps["query"](inputs) @ maps["key"](inputs).T
        contexts = torch.softmax(scores, dim=-1) @ maps["value"](inputs)
    np.testing.assert_allclose(contexts.numpy(), found(tokens).contexts, rtol=1e-12)
    found.save(tmp_path / "layer.safetensors")
    for name in ("key", "query", "value"):
        np.testing.assert_array_equal(read_array(f"{tmp_path / 'layer.safetensors'}:{name}"), getattr(found, name))


def test_extractors(rng):
    own, other = rng.normal(size=(3, 9)), rng.normal(size=(4, 9))
    tool = extractor(own, against=other)
    one, two = rng.normal(size=3) @ own, rng.normal(size=4) @ other
    np.testing.assert_allclose(tool.extract(one + two), one, atol=1e-12)
    np.testing.assert_allclose(tool.from_average((one + two) / 2), one, atol=1e-12)
    np.testing.assert_allclose(tool.extract(np.stack([one + two, two])), [one, 0 * one], atol=1e-12)
    from scipy.linalg import subspace_angles

    smallest = subspace_angles(own.T, other.T).min()
    assert tool.angle == pytest.approx(smallest, rel=1e-10)
    assert tool.norm == pytest.approx(1 / math.sin(smallest), rel=1e-10)
    noise = rng.normal(size=9)
    assert np.linalg.norm(tool.extract(noise)) <= tool.norm * np.linalg.norm(noise)
    assert tool.residual < 1e-12


def test_the_textbook_extractor():
    basis = hw.orthonormal(3, 7)
    tool = extractor(basis)
    np.testing.assert_allclose(tool.matrix, basis.T @ basis, atol=1e-14)
    assert tool.norm == pytest.approx(1)
    assert tool.angle == pytest.approx(np.pi / 2)


def test_extracting_from_an_attention_average():
    """Two values of orthogonal subspaces, averaged by attention, come apart again within the stated bound."""
    keys, space = hw.orthonormal(6, 8), hw.orthonormal(8, 8, seed=4)
    values = np.vstack([space[0] + 2 * space[1], space[4] - space[5], space[2:6]])
    design = average(keys, [0, 1], values=values, leak=1e-4)
    tool = extractor(space[:2], against=space[4:6])
    found = tool.from_average(hw.attend(design.query, keys, values).contexts)
    assert np.linalg.norm(found - values[0]) <= tool.error_bound(design.error_bound, size=10.0)


def test_subspaces_that_meet_are_refused_with_a_witness(rng):
    own = rng.normal(size=(2, 5))
    shared = rng.normal(size=2) @ own
    with pytest.raises(SubspaceError) as caught:
        extractor(own, against=[shared, rng.normal(size=5)])
    witness = caught.value.witness
    assert np.linalg.matrix_rank(np.vstack([own, witness]), tol=1e-9) == 2
    assert np.linalg.matrix_rank(np.vstack([shared, witness]), tol=1e-9) == 1


def test_designs_print_and_turn_into_data():
    keys = np.eye(4)
    for found in (copy(keys, 0), average(keys, [0, 1]), weights(keys, [0.4, 0.3, 0.2, 0.1]), context(keys, keys, keys[0] / 2)):
        assert found.to_dict()["verdict"] == found.verdict
        assert json.loads(found.to_json())["task"] == found.task
        assert found.verdict in str(found)
        assert repr(found) == f"<Design: {found.task} is {found.verdict}>"
    assert "<table>" in copy(keys, 0)._repr_html_()
    built = layer(keys, reads={0: 1})
    assert json.loads(built.to_json())["reads"] == {"0": {"1": 1.0}}
    assert "head width" in str(built)
    assert json.loads(extractor(keys[:2]).to_json())["norm"] == pytest.approx(1)


SIZES = [1e-200, 1e-165, 1.0, 1e160, 1e200]


@pytest.mark.parametrize("size", SIZES)
def test_verdicts_do_not_depend_on_the_size_of_keys_and_tokens(size):
    keys = np.array([[0.0, 0], [4, 0], [0, 4], [1, 1], [3, 3]])
    assert [copy(size * keys, row).verdict for row in range(5)] == ["possible"] * 3 + ["impossible", "possible"]
    assert average(size * keys, [1, 4]).verdict == "possible"
    assert average(size * keys, [0, 4]).verdict == "impossible"
    assert copyable(size * keys).possible.tolist() == [True, True, True, False, True]
    target = np.array([0.0, 0.25, 0.0, 0.0, 0.75])
    found = weights(size * keys, target)
    assert (found.verdict, found.numbers["face_keys"]) == ("possible", 2)
    plain = layer(keys, reads={1: 2, 2: 1}, targets={1: [1.0], 2: [2.0]})
    big = layer(size * keys, reads={1: 2, 2: 1}, targets={1: [1.0], 2: [2.0]})
    assert (plain.verdict, big.verdict, big.verify()) == ("possible", "possible", True)
    assert big.margin == pytest.approx(plain.margin)
    np.testing.assert_allclose(big(size * keys).contexts[1:3], [[1.0], [2.0]], atol=big.error_bound)


@pytest.mark.parametrize("size", SIZES)
def test_contexts_do_not_depend_on_the_size_of_values(size):
    keys, values = [[0.0], [1.0], [2.0]], size * np.array([[0.0, 0], [1, 0], [0, 1]])
    assert context(keys, values, size * np.array([0.45, 0.45])).verdict == "undecided"
    found = context(keys, values, size * np.array([0.0, 0.9]), within=0.9)
    assert found.verdict == "possible"
    assert found.verify()
    assert context(keys, values, size * np.array([1.0, 1.0])).verdict == "impossible"
    single = copy(np.eye(3), 0, leak=1e-2, values=values)
    true = np.abs(hw.attend(single.query, np.eye(3), values / size).contexts - values[0] / size).max() * size
    assert 0 < true <= single.error_bound < np.inf


def test_a_target_on_the_boundary_up_to_rounding_is_possible(rng):
    verdicts = Counter()
    for _ in range(60):
        keys = rng.normal(size=(6, 3))
        share = rng.random()
        found = context(keys, keys, share * keys[0] + (1 - share) * keys[1])
        verdicts[found.verdict] += 1
        if found.verdict == "possible":
            assert found.verify()
        else:  # two keys whose segment is no edge: then the target is inside, and hit
            assert found.verdict == "undecided"
    assert verdicts["possible"] > 50


def test_a_context_that_only_rounding_reaches_is_not_possible():
    """Scores near 2^50 are rounded so coarsely that the bound exceeds what is wanted."""
    keys = 2.0**50 + np.arange(4.0)[:, None]
    found = context(keys, np.array([[0.0, 1], [1, 0], [0, 0], [1, 1]]), [0.4, 0.4], within=1e-3)
    assert found.verdict != "possible" or found.error_bound <= 1e-3 * 1.2


def test_unequal_weights_may_be_possible_where_level_members_are_not():
    """log(9)/2 as K, 1 as Q: members differ by log 9 and the other token lies below both."""
    tokens = np.array([[1.0], [-1.0], [-2.0]])
    out = hw.SelfAttention(key=[[math.log(9) / 2]], query=[[1.0]])(tokens).weights[0]
    assert out[0] / out[1] == pytest.approx(9)
    assert out[2] < 0.05
    assert layer(tokens, reads={0: {0: 0.9, 1: 0.1}}, leak=0.05).verdict == "undecided"
    # With a smaller leak the room is too small, and that is proved.
    blocked = layer(tokens, reads={0: {0: 0.9, 1: 0.1}}, leak=1e-6)
    assert blocked.verdict == "impossible"
    assert blocked.verify()
    assert not replace(blocked.certificate, leak=0.05).check()


def test_mixtures_have_the_ratios_that_were_asked_for(rng):
    """Random tokens, many of them nearly dependent: what is called possible is right."""
    seen = Counter()
    for trial in range(150):
        count, width = rng.integers(3, 7), rng.integers(2, 6)
        tokens = rng.normal(size=(count, width)) * np.geomspace(1, 10.0 ** -rng.integers(0, 8), width)
        first, second = rng.permutation(count)[:2].tolist()
        share = float(rng.uniform(0.05, 0.95))
        found = layer(tokens, reads={0: {first: share, second: 1 - share}, 1: first}, leak=1e-3)
        seen[found.verdict] += 1
        if found.verdict == "possible":
            assert found.verify(), trial
            out = found(tokens).weights[0]
            assert out[first] == pytest.approx(share, abs=2e-3 + found.uneven)
            assert found.uneven <= 1e-3
    assert seen["possible"] > 30


def test_targets_that_v_cannot_reach_in_floats_are_undecided():
    third = 1 / 3
    found = layer(np.eye(4), reads={0: {1: third, 2: 2 / 3}, 1: {1: third, 2: 1 - third}}, targets={0: [1.0], 1: [2.0]})
    assert found.verdict == "undecided"
    assert "so nearly dependent" in found.reason


def test_targets_that_are_dependent_up_to_rounding_are_possible():
    found = layer([[1.0, 0], [0, 1], [1, 1]], targets={0: [0.1], 1: [0.2], 2: [0.3]}, reads={0: 0, 1: 1, 2: 2})
    assert found.verdict == "possible"
    assert found.error_bound < 1e-3


def test_error_bounds_of_layers_do_not_depend_on_the_order(rng):
    for _ in range(20):
        tokens, goals = rng.normal(size=(5, 6)), {i: 10.0**i * rng.normal(size=2) for i in range(3)}
        one = layer(tokens, reads={0: 3, 1: 4, 2: 0}, targets=goals)
        two = layer(tokens, reads={2: 0, 0: 3, 1: 4}, targets=goals)
        assert one.verdict == two.verdict == "possible"
        assert two.error_bound == pytest.approx(one.error_bound, rel=1e-3)
        for place, goal in goals.items():
            assert np.linalg.norm(one(tokens).contexts[place] - goal) <= one.error_bound


def test_best_margins_are_upper_bounds(rng):
    """Nearly collinear sets, whose projections are mostly rounding."""
    for _ in range(200):
        keys = rng.normal(size=(8, 3))
        keys[1] = keys[0] + 10.0 ** -rng.uniform(0, 14) * rng.normal(size=3)
        for found in (average(keys, [0, 1]), copy(keys, 0)):
            if found.verdict == "possible" and found.margin is not None:
                assert found.margin <= found.best_margin


def test_hash_collisions_hide_no_duplicates(monkeypatch):
    module = sys.modules["headwise.design.distinct"]
    monkeypatch.setattr(module, "over_blocks", lambda *given: iter([np.zeros(given[1], dtype=np.uint64)]))
    rows, repeated = module.distinct(np.array([[1.0, 2], [3, 4], [1, 2], [5, 6], [3, 4]]), 1)
    assert repeated.tolist() == [True, True, True, False, True]
    assert sorted(map(tuple, np.array([[1.0, 2], [3, 4], [1, 2], [5, 6], [3, 4]])[rows].tolist())) == [(1, 2), (3, 4), (5, 6)]


def test_flatness_is_not_decided_modulo_a_prime():
    """Differences that all vanish modulo 2^61 - 1."""
    prime = 2.0**61
    base = np.array([[1.0, prime, prime**2][i] for i in (0, 1, 2)])
    grid = np.array([[a, b, c, a] for a in base for b in base for c in base])
    assert copyable(grid).possible.sum() == 8


def test_extractors_of_rows_of_very_different_lengths():
    np.testing.assert_allclose(extractor([[1e13, 0.0], [0.0, 1.0]]).matrix, np.eye(2), atol=1e-12)
    small = 1e-6
    tool = extractor([[1.0, 0.0, 0.0]], against=[[1.0, small, 0.0]])
    total = np.array([3.0, 0.0, 0.0]) + 2 * np.array([1.0, small, 0.0])
    assert np.linalg.norm(tool.from_average(total / 2) - [3.0, 0, 0]) <= tool.error_bound(2e-16, size=2.6)


def test_sentences_round_bounds_outwards(rng):
    for _ in range(50):
        keys = rng.normal(size=(5, 2))
        found = context(keys, keys, 4 * rng.normal(size=2) + 9)
        assert float(found.reason.split("at least ")[1].split()[0]) <= found.numbers["distance"]


def test_what_one_head_can_do_several_can():
    """Duplicates and points between others inside the set: no single head reads one of them, all read the set."""
    for keys, rows, heads in (
        ([[1.0, 0], [1, 0], [0, 1], [0, 0]], [0, 1], 2),
        ([[0.0], [1], [2]], [0, 1, 2], 3),
        ([[0.0, 0], [1, 0], [2, 0], [1, -1]], [0, 1, 2], 3),
    ):
        found = average(keys, rows, heads=heads, values=np.eye(len(keys)))
        assert found.verdict == "possible"
        out = hw.average_heads(found.queries, np.array(keys), np.eye(len(keys))).contexts
        assert np.linalg.norm(out - np.eye(len(keys))[rows].mean(axis=0)) <= found.error_bound


def test_interior_targets_of_many_keys_are_quick(rng):
    """What is asked lies inside, so the face is the whole hull; nothing has to be settled exactly key by key."""
    keys = rng.normal(size=(500, 16))
    assert context(keys, keys, keys.mean(axis=0)).verdict == "possible"
    target = np.zeros(500)
    target[:3] = 0.5, 0.3, 0.2
    found = weights(keys, target)
    assert found.numbers["face_keys"] == 500
    assert found.numbers["residual"] < 1e-10


def test_time_is_kept(rng):
    tokens = rng.normal(size=(60, 12))
    assert layer(tokens, reads={i: i - 1 for i in range(1, 60)}, seconds=0.0).reason == "no margin was found within 0 s"


def test_weights_of_float32_are_accepted(rng):
    keys = rng.normal(size=(50, 4)).astype(np.float32)
    target = hw.attend(rng.normal(size=4).astype(np.float32), keys, keys).weights
    assert weights(keys, target, within=1e-6).verdict == "possible"
    assert copy(np.eye(3, dtype=int), 0).verdict == "possible"


def test_winners_by_rounding_are_counted(rng):
    flat = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6))
    found = copyable(flat)
    assert 0 < found.rounding_only.sum() < found.possible.sum()
    assert f"{found.rounding_only.sum()} of the winners win by rounding only" in str(found)
