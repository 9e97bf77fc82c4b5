"""Verdicts of `design` against an exact oracle, certificates against an independent check.

The promises are checked for every design of the whole run, by a fixture in conftest.
"""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from simplex import mixture_exists

import headwise as hw
from headwise.design.certificates import Blocked, Winner


def small_instances(seed, count):
    """Whole numbers in small boxes, so that ties, duplicates and flat sets are common."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        width, keys, box = rng.integers(1, 5), rng.integers(1, 11), rng.integers(1, 4)
        found = rng.integers(-box, box + 1, size=(keys, width)).astype(float)
        if rng.random() < 0.15 and width > 1:
            found[:, -1] = found[:, 0]  # rank-deficient
        yield found, rng


@pytest.mark.parametrize("seed", range(10))
def test_copy_agrees_on_small_instances(seed):
    """5 000 in all."""
    seen = Counter()
    for keys, rng in small_instances(seed, 500):
        row = int(rng.integers(len(keys)))
        design = hw.design.copy(keys, row, leak=1e-3)
        assert design.verdict == ("impossible" if mixture_exists(keys, [row]) else "possible"), (keys, row)
        assert design.verify()
        if design.verdict == "possible":
            assert not design.rounding_only
            assert float(hw.attend(design.query, keys, keys).leak(row)) <= 1e-3
        seen[design.verdict] += 1
    assert min(seen.values()) > 50


@pytest.mark.parametrize("seed", range(10, 14))
def test_average_agrees_on_small_instances(seed):
    seen = Counter()
    for keys, rng in small_instances(seed, 250):
        inside = sorted(set(rng.integers(len(keys), size=rng.integers(1, 4)).tolist()))
        design = hw.design.average(keys, inside, leak=1e-3)
        assert design.verdict == ("impossible" if mixture_exists(keys, inside) else "possible"), (keys, inside)
        assert design.verify()
        if design.verdict == "possible":
            out = hw.attend(design.query, keys, keys)
            assert float(out.leak(inside)) <= 1e-3
            np.testing.assert_allclose(out.weights[inside], out.weights[inside].mean(), rtol=1e-12)
        seen[design.verdict] += 1
    assert min(seen.values()) > 30


def test_copy_agrees_on_mixed_exponents():
    """Numbers from 1e-300 to 1e300 in one set: floats alone see nothing, exact arithmetic sees everything."""
    rng = np.random.default_rng(77)
    seen = Counter()
    for _ in range(300):
        shape = rng.integers(2, 8), rng.integers(1, 4)
        keys = rng.integers(-2, 3, size=shape) * 10.0 ** rng.integers(-300, 301, size=shape)
        row = int(rng.integers(len(keys)))
        design = hw.design.copy(keys, row)
        assert design.verdict == ("impossible" if mixture_exists(keys, [row]) else "possible"), (keys, row)
        assert design.verify()
        if design.query is not None:
            assert float(hw.attend(design.query, keys, keys).leak(row)) <= 1e-3
        elif design.verdict == "possible":
            assert design.rounding_only or "no query is given" in design.reason
        seen[design.verdict, design.query is None] += 1
    assert len(seen) == 3


@pytest.mark.parametrize("scale", [1.0, 1e-10, 1e10])
@pytest.mark.parametrize("width", [3, 8, 32])
def test_a_vertex_that_barely_protrudes(scale, width):
    """Exact is exact about the floats given: whatever rounding made of the point decides, and the oracle knows it."""
    rng = np.random.default_rng(5)
    for delta in (1e-9, 1e-12, 1e-14, 1e-15, 1e-16, 0.0, -1e-16, -1e-15, -1e-12):
        corners = rng.normal(size=(width, width))
        normal = np.linalg.solve(corners, np.ones(width))
        point = rng.dirichlet(np.ones(width)) @ corners + delta * normal / np.linalg.norm(normal)
        keys = scale * np.vstack([corners, np.zeros(width), point])
        design = hw.design.copy(keys, width + 1)
        assert design.verify()
        if width <= 8:
            assert design.verdict == ("impossible" if mixture_exists(keys, [width + 1]) else "possible"), delta
        elif abs(delta) >= 1e-12:
            assert design.verdict == ("possible" if delta > 0 else "impossible")
        if design.query is not None:
            assert float(hw.attend(design.query, keys, keys).leak(width + 1)) <= 1e-3
        if design.verdict == "possible" and delta <= 1e-14:
            assert design.rounding_only


def test_certificates_that_are_wrong_are_refused():
    keys = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    half = Fraction(1, 2)
    assert Blocked(keys, [2], [0, 1], [half, half], [Fraction(1)]).check()
    assert not Blocked(keys, [2], [2], [Fraction(1)], [Fraction(1)]).check()  # the key itself
    assert not Blocked(keys, [2], [0, 1], [Fraction(1, 3), Fraction(2, 3)], [Fraction(1)]).check()  # another point
    assert not Blocked(keys, [2], [0, 1, 3], [Fraction(3, 2), half, Fraction(-1)], [Fraction(1)]).check()  # a negative weight
    assert not Blocked(keys, [2], [0, 1], [half, Fraction(1, 3)], [Fraction(1)]).check()  # a wrong sum
    assert Winner(keys, [1], [Fraction(1), Fraction(-1)]).check()
    assert not Winner(keys, [2], [Fraction(1), Fraction(0)]).check()
    assert not Winner(keys, [0, 1], [Fraction(0), Fraction(0)]).check()  # a tie with the rest
    assert not Winner(keys, [0, 1], [Fraction(1), Fraction(-1)]).check()  # not alike
