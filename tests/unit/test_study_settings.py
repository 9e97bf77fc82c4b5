"""Verdicts at many settings: no claim ever fails, and what does not apply says so."""

import numpy as np
import pytest
from click.testing import CliRunner

import headwise as hw
from headwise.cli import main
from headwise.study.length import best_scale, jumped, spread
from headwise.study.run import PARTS

# What does not depend on the setting is left out.
NAMES = [name for name in PARTS if name != "beyond.iii"]
# Where something once went wrong: cancellation, tails, brackets, short queries.
KNOWN = [
    {"keys": 100, "width": 100, "scale": 2.0},
    {"keys": 50, "width": 64, "scale": 1.0, "length_variance": 1.0},
    {"keys": 30, "width": 64, "scale": 1.0, "length_variance": 4.0},
    {"keys": 30, "width": 32, "scale": 30.0},
    {"keys": 12, "scale": 30.0},
    {"keys": 17, "width": 17, "scale": 30.0},
    {"keys": 60, "width": 60, "scale": 30.0},
    {"scale": 100.0, "length_variance": 0.01},
    {"scale": 80.0, "length_variance": 0.01},
    {"keys": 3, "width": 4, "scale": 100.0, "length_variance": 0.01},
    {"keys": 40, "width": 40, "scale": 100.0, "length_variance": 0.01},
    {"keys": 4, "width": 4, "scale": 0.5, "length_variance": 0.01},
    {"keys": 21, "width": 23, "scale": 29.333, "length_variance": 0.036},
    {"keys": 36, "width": 38, "scale": 39.668, "length_variance": 0.027},
    {"scale": 0.5, "length_variance": 4.0, "seed": 2},
    {"length_variance": 0.01, "seed": 11},
]


def drawn(seed):
    rng = np.random.default_rng(seed)
    keys = int(3 * 8 ** rng.random())
    return {
        "keys": keys,
        "width": max(keys, 4) + int(rng.integers(9)),
        "scale": float(np.round(0.5 * 100 ** rng.random(), 3)),
        "length_variance": float(np.round(0.01 * 400 ** rng.random(), 3)),
        "seed": int(rng.integers(1000)),
    }


@pytest.mark.parametrize("sizes", KNOWN + [drawn(seed) for seed in range(24)], ids=str)
def test_no_claim_fails(sizes):
    study = hw.study.run(**sizes, parts=NAMES)
    for part in study.parts:
        wrong = [one for one in part.findings if one.verdict == "FAILS"]
        assert part.verdict != "FAILS", (part.name, wrong)
        assert bool(part.why) == (part.verdict == "not here")
        # Only the scale and the length noise can make a claim not apply.
        assert part.holds or part.name in ("c.i", "c.ii", "d.i", "d.ii", "beyond.i", "beyond.ii"), part.name
        assert "-0.00" not in part.lesson
        assert "{{" not in part.lesson


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ({}, {"c.i": "", "c.ii": "", "d.i": "", "d.ii": "", "beyond.i": ""}),
        (
            {"scale": 0.5},
            {
                "c.i": "A scale of 0.5 is too short for this: 70.8% of the weight goes elsewhere, and the mean squared error "
                "is 0.31, noise or no noise.",
                "c.ii": "the query is too short",
                "d.i": "A scale of 0.5 is too short for this: 84.5%",
                "d.ii": "At a scale of 0.5 two heads do not err less than one: 0.351 against 0.312.",
                "beyond.i": "two heads do not err less than one",
            },
        ),
        (
            {"length_variance": 0.01},
            {
                "c.i": "",
                "c.ii": "Here 2.79% of outputs are near one of the two values: the scores of a and b differ by a",
                "d.ii": "",
            },
        ),
    ],
    ids=str,
)
def test_what_does_not_apply_says_why(sizes, wanted):
    for part in hw.study.run(**sizes, parts=list(wanted)).parts:
        assert part.verdict == ("not here" if wanted[part.name] else "holds")
        assert wanted[part.name] in part.why
        assert part.why in part.sentence


def test_the_table_says_what_does_not_apply():
    study = hw.study.run(scale=0.5, parts=["a.i", "d.i"])
    assert study.holds
    assert repr(study) == "<Study of 2 parts: 1 not here>"
    assert "d.i: A scale of 0.5 is too short" in str(study)


def test_lengths_that_are_never_negative_are_no_percent():
    lesson = hw.study.run(length_variance=0.01, parts=["d.ii"]).parts[0].lesson
    assert "their probability is 8e-24" in lesson


def test_one_head_has_a_best_scale_everywhere():
    for keys in (3, 10, 500):
        for tau in (0.01, 0.5, 4.0):
            scale, error = best_scale(keys, tau)
            for other in (0.9 * scale, 1.1 * scale):
                assert spread(keys, other, tau, heads=1).mean_squared_error > error


def test_jumps_are_those_of_a_sample():
    z = np.random.default_rng(0).normal(1, np.sqrt(0.8), 200_000)
    for keys, scale in ((10, 10.0), (10, 3.0), (3, 1.5), (200, 5.0)):
        powers = np.exp(scale * (z - 1)), 1.0, (keys - 2) * np.exp(-scale)
        share = np.maximum(powers[0], 1.0) / sum(powers)
        assert jumped(keys, scale, 0.8) == pytest.approx((share > 0.9).mean(), abs=5e-3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--keys", "2"), "error: --keys must be at least 3, for a and b need a third key to leak to, but got 2.\n"),
        (("--length-variance", "9"), "error: --length-variance must be between 0.01 and 4, but got 9.0.\n"),
        (("--parts", ","), "error: --parts must name at least one part, but it names none.\n"),
    ],
    ids=str,
)
def test_the_command_line_speaks_of_options_and_leaves_no_folder(tmp_path, words, sentence):
    result = CliRunner().invoke(main, ["study", "--out", str(tmp_path / "new" / "folder"), *words])
    assert (result.exit_code, result.stderr) == (2, sentence)
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_name():
    result = CliRunner().invoke(main, ["study", "--out", ""])
    assert (result.exit_code, result.stderr) == (2, "error: --out must name a folder, but it is empty.\n")
