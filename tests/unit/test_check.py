"""Marking: a table of answers, random right and wrong ones, hostile text, hand-ins, folders and sheets."""

import json
import random

import numpy as np
import pytest
from more_answers import MORE
from written_answers import ANSWERS

from headwise.check import answer, load

EVERY = [*ANSWERS, *MORE]
PROBLEMS = load("attention").problems


@pytest.mark.parametrize(("part", "text", "status", "misconception"), EVERY)
def test_written_answers(part, text, status, misconception):
    verdict = answer(part, text)
    assert (verdict.status, verdict.misconception) == (status, misconception), verdict.problem
    assert (status == "unreadable") <= bool(verdict.problem)
    assert bool(misconception) == bool(verdict.help)
    json.loads(verdict.to_json())


def test_the_table_is_long_enough():
    assert len({(part, text) for part, text, *_ in EVERY}) >= 150
    assert {part for part, *_ in ANSWERS} == set(load("attention").problems)


@pytest.mark.parametrize(
    ("part", "text"), [(part, text) for part, text, status, _ in EVERY if status == "wrong" and PROBLEMS[part].kind != "word"]
)
def test_a_counterexample_is_one(part, text, capsys):
    """Every wrong answer has one: its lines are short and run, and show an output that is not the target."""
    verdict = answer(part, text)
    example = verdict.counterexample
    assert len(example.code) < 1500
    names = {}
    exec(example.code, names)  # noqa: S102  what a student would paste
    assert capsys.readouterr().out
    if "n" in names and "seed" in example.data:
        assert example.data["n"] == len(example.data.get("keys", example.data.get("tokens")))
    if "found" in names and part in ("b.ii", "c.i", "d.i"):
        contexts = np.asarray(names["found"].contexts)
        np.testing.assert_allclose(contexts, example.data["output"], atol=1e-6)
        assert np.linalg.norm(contexts - names["target"]) > 1e-9
    if part == "e.ii" and "found" in names:
        np.testing.assert_allclose(np.asarray(names["found"].contexts), example.data["output"], atol=1e-6)
    assert "error" not in example.data or example.data["error"] > 1e-9
    assert all(line in str(verdict) for line in example.code.splitlines() if len(line) < 100)


def right_answers(rng):
    """Yield parts and right answers: other scales, added components that change nothing, other notation."""
    c, e = rng.uniform(0.3, 9), rng.uniform(-3, 3)
    scale = rng.choice(["t", "t^2", f"{c:.3f} t", "(t + 1)", "sqrt(t)", "log(1 + t)", "t / 7", "t n"])
    yield "b.ii", f"{scale} (k_a + k_b) - {abs(e):.3f} t sum_{{i != a, b}} k_i, t large"
    yield "b.ii", rf"q = {scale} \left(k_b + k_a\right) + {e:.3f} (k_a + k_b), t \gg 0"
    yield "c.i", rf"{scale} (\mu_a + \mu_b), t \to \infty"
    yield "d.i", f"q_1 = {scale} mu_a + {e:.3f} mu_a, q_2 = {c:.3f} t mu_b, t large"
    yield "b.i", f"A A^T + {e:.3f} (I - A A^T - B B^T)"
    yield "b.i", rf"\sum_{{i=1}}^m a_i a_i^\top + {e:.3f} A (A^T A - I_m) A^T"
    q, v = "(u_d u_a^T + u_c u_d^T)", "(u_b u_b^T - u_c u_c^T)"
    yield "e.ii", f"K = {c:.3f} I, Q = {q} / ({c:.3f} beta), V = {v} / beta^2 + {e:.3f} u_c u_a^T / beta^2"
    yield "e.ii", rf"Q = {c:.3f} {q} + {e:.3f} u_a u_c^\top, K = I, V = \frac{{1}}{{\lVert u_a \rVert^2}} {v}"


def rewritten(terms, rng):
    """Write a sum of terms another way: in another order, factors pulled out or multiplied in, with terms that cancel."""
    given = list(terms)
    rng.shuffle(given)
    extra = rng.choice(given)
    if rng.random() < 0.5:
        given += [f"{rng.choice([0, 2, 3])} {extra}"]
        count = given[-1].split()[0]
        given += [f"(-{count}) {extra}"]
    factor = rng.choice([2, 4, 8])
    inside = " + ".join(given)
    return rng.choice(
        [
            inside,
            f"{factor} ({inside}) / {factor}",
            rf"\frac{{{inside}}}{{{factor}}} \cdot {factor}",
            f"(({inside})^T)^T",
            " + ".join(f"{factor} {one} / {factor}" for one in given),
            f"({inside}) - ({inside}) + ({inside})",
        ]
    )


def rewritten_answers(rng):
    """Yield parts, answers and whether they are right: invertible rewrites of right answers, and of others."""
    more = rng.choice([0.5, 1.5, 2, 3])
    yield "b.ii", f"t ({rewritten(['k_a', 'k_b'], rng)}), t large", True
    yield "b.ii", f"t ({rewritten(['k_a', f'{more} k_b'], rng)}), t large", False
    yield "c.i", f"{rewritten(['t mu_a', 't mu_b'], rng)}, t >> 0", True
    yield "b.i", rewritten(["A A^T", "B B^T", "(-1) B B^T"], rng), True
    yield "b.i", rewritten(["A A^T", f"{more} B B^T"], rng), False
    q, v = (rewritten(terms, rng) for terms in (["u_d u_a^T", "u_c u_d^T"], ["u_b u_b^T", "(-1) u_c u_c^T"]))
    yield "e.ii", f"K = I, Q = {q}, V = ({v}) / beta^2", True
    yield "e.ii", f"K = I, Q = {q}, V = ({v} + {more} u_b u_c^T) / beta^2", False
    yield "d.i", f"q_2 = {rewritten(['t mu_b'], rng)}, q_1 = {rewritten(['t mu_a'], rng)}, t large", True


@pytest.mark.parametrize("seed", range(4))
def test_rewrites_change_nothing(seed):
    rng = random.Random(200 + seed)
    for _ in range(10):
        for part, text, right in rewritten_answers(rng):
            verdict = answer(part, text)
            assert verdict.correct == right, (part, text, verdict.problem)


def wrong_answers(rng):
    """Yield parts and answers that break the property by more than a percent."""
    e = rng.choice([-1, 1]) * rng.uniform(0.02, 3)
    yield "b.ii", f"t ({1 + e:.4f} k_a + k_b), t large"
    yield "b.ii", f"t (k_a + k_b) + {e:.4f} k_a, t large"
    yield "b.ii", f"{rng.uniform(0.1, 4):.3f} (k_a + k_b)"
    yield "c.i", f"t (mu_a + {1 + e:.4f} mu_b), t large"
    yield "d.i", f"q_1 = t mu_a, q_2 = t (mu_b + {1 + abs(e):.3f} mu_a), t large"
    yield "b.i", f"A A^T + {e:.4f} B B^T"
    yield "b.i", f"{1 + e:.4f} A A^T"
    q, v = "(u_d u_a^T + u_c u_d^T) / beta^2", "(u_b u_b^T - u_c u_c^T) / beta^2"
    yield "e.ii", f"K = I, Q = {q}, V = {1 + e:.4f} {v}"
    yield "e.ii", f"K = I, Q = {q} + {1.2 + abs(e):.4f} u_a u_a^T / beta^2, V = {v}"


@pytest.mark.parametrize("seed", range(16))
def test_right_answers_are_never_called_wrong(seed):
    rng = random.Random(seed)
    for _ in range(8):
        for part, text in right_answers(rng):
            verdict = answer(part, text)
            assert verdict.correct, (part, text, verdict.problem)


@pytest.mark.parametrize("seed", range(16))
def test_wrong_answers_are_never_called_right(seed):
    rng = random.Random(100 + seed)
    for _ in range(7):
        for part, text in wrong_answers(rng):
            assert not answer(part, text).correct, (part, text)


def test_places_are_pointed_at():
    assert (
        answer("b.ii", "beta (k_a + A)").problem == "a vector and a number cannot be added\n  beta (k_a + A)\n        ^^^^^^^"
    )
    assert answer("b.i", "A + A A^T").problem.splitlines()[0] == "a d-by-m matrix and a d-by-d matrix cannot be added"
    assert answer("b.ii", "t (k_a + k_c)").problem.splitlines()[0] == "k_c is no name of this problem (k_a, k_b)"


def test_the_scale_for_one_percent():
    """With ten keys, |c - target| = leak sqrt(1/2 + 1/8), and leak = 8 / (2 e^beta + 8)."""
    found = answer("b.ii", "t (k_a + k_b), t large").scale_for_one_percent
    leak = 8 / (2 * np.exp(found) + 8)
    assert leak * np.sqrt(0.5 + 1 / 8) == pytest.approx(0.01, rel=1e-2)
