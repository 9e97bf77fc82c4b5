"""The study: numbers against formulas evaluated anew, snippets that give the same, verdicts that outlive a change of sizes."""

import ast
import json
import math
import re
import sys

import numpy as np
import pytest
from mpmath import mp, mpf

import headwise as hw
from headwise.errors import FileError, HeadwiseError
from headwise.study import Finding, figures
from headwise.study.run import PARTS
from headwise.study.setting import Setting


@pytest.fixture(scope="module")
def usual():
    return hw.study.run()


def finding(study, part, name):
    data = json.loads(study.to_json())
    (found,) = [one for one in next(p for p in data["parts"] if p["part"] == part)["findings"] if one["name"].startswith(name)]
    return found


def test_every_part_holds_and_says_everything(usual):
    assert [part.name for part in usual.parts] == list(PARTS)
    for part in usual.parts:
        assert part.verdict == "holds", part.name
        assert part.claim
        assert part.computed
        assert part.lesson
        assert part.code
        assert part.picture.alt
        assert part.command == f"headwise study --parts {part.name}"
        assert part.sentence.startswith("holds: ")
        assert any(one.holds for one in part.findings) or part.proofs, f"{part.name} claims nothing"


@pytest.mark.parametrize("name", PARTS)
def test_the_lines_under_a_part_give_its_number(usual, name, capsys):
    part = next(part for part in usual.parts if part.name == name)
    *body, last = ast.parse(part.code).body
    names = {}
    exec(compile(ast.Module(body, []), name, "exec"), names)  # noqa: S102  what a reader would type
    found = float(eval(compile(ast.Expression(last.value), name, "eval"), names))  # noqa: S307
    assert found == pytest.approx(part.headline.value, abs=part.headline.error + 1e-3 * abs(part.headline.value))
    del capsys


def spread_by_mpmath(keys, scale, tau, heads, low=None):
    """Integrate variance and mean squared error over the length of key a with mpmath, 30 digits."""
    mp.dps = 30
    deviation = mp.sqrt(mpf(tau))

    def weights(z):
        fade = mp.e ** (-mpf(scale))
        if heads == 1:
            parts = mp.e ** (scale * (z - 1)), mpf(1), fade
            total = parts[0] + parts[1] + (keys - 2) * parts[2]
            return [part / total for part in parts]
        first = mp.e ** (scale * z) / (mp.e ** (scale * z) + keys - 1)
        other = 1 / (1 + (keys - 1) * fade)
        return [
            (first + fade * other) / 2,
            ((1 - first) / (keys - 1) + other) / 2,
            ((1 - first) / (keys - 1) + fade * other) / 2,
        ]

    def moments(z):
        a, b, rest = weights(z)
        density = mp.npdf(z, 1, deviation)
        squares = a**2 + b**2 + (keys - 2) * rest**2
        away = (a - 0.5) ** 2 + (b - 0.5) ** 2 + (keys - 2) * rest**2
        return mp.matrix([density, density * a, density * b, density * rest, density * squares, density * away])

    ends = [mpf(low) if low is not None else 1 - 12 * deviation, 0, 0.5, 1, 1.5, 1 + 12 * deviation]
    panels = sorted({mpf(end) for end in ends} - ({mpf(end) for end in ends if low is not None and end < low}))
    total = mp.matrix(6, 1)
    for place in range(6):
        total[place] = mp.quad(lambda z, p=place: moments(z)[p], panels)
    mass, a, b, rest, squares, away = (total[i] / total[0] for i in range(6))
    del mass
    return float(squares - a**2 - b**2 - (keys - 2) * rest**2), float(away)


def test_numbers_on_noise_are_those_of_other_integrals(usual):
    """Nothing of headwise is used here but the file it wrote."""
    for part, heads in (("c.ii", 1), ("d.ii", 2)):
        variance, error = spread_by_mpmath(10, 10, 0.5, heads)
        found = finding(usual, part, "the variance of the output")
        assert found["value"] == pytest.approx(variance, abs=found["error"])
        if heads == 1:
            squared = finding(usual, part, "the mean squared error")
            assert squared["value"] == pytest.approx(error, abs=squared["error"])
    assert finding(usual, "d.ii", "the probability of a negative")["value"] == pytest.approx(
        0.5 * math.erfc(1), rel=1e-9
    )  # Phi(-sqrt 2)
    positive = finding(usual, "d.ii", "the variance given a positive")
    assert positive["value"] == pytest.approx(spread_by_mpmath(10, 10, 0.5, 2, low=0)[0], abs=1e-9)
    assert finding(usual, "c.ii", "the best scale")["value"] == pytest.approx(2.1364, abs=2e-3)


def test_numbers_without_noise_are_those_of_the_formulas(usual):
    e = math.e
    assert finding(usual, "b.ii", "the weight of a")["value"] == pytest.approx(e / (2 * e + 8), abs=1e-12)
    assert finding(usual, "a.ii", "the margin needed")["value"] == pytest.approx(math.log(9 * 0.999 / 0.001), abs=1e-12)
    assert finding(usual, "a.iii", "the distance")["value"] == pytest.approx(1e-3 * math.sqrt(10 / 9), abs=1e-12)
    assert finding(usual, "e.i", "the weight elsewhere")["value"] == pytest.approx(2 / (e**25 + 2), abs=1e-12)
    leak = 9 / (e**10 + 9)
    mean = 2 * (leak / 2 * 8 / 9) ** 2 + 8 * (leak / 9) ** 2
    assert finding(usual, "d.i", "the mean squared error")["value"] == pytest.approx(mean, rel=1e-2)


@pytest.mark.parametrize(
    "sizes",
    [
        {"keys": 3, "width": 4},
        {"keys": 40, "width": 64, "seed": 5},
        {"scale": 1.0, "seed": 3},
        {"scale": 60.0, "length_variance": 0.02},
        {"scale": 0.5, "length_variance": 4.0, "seed": 2},
        {"scale": 3.0, "length_variance": 3.0, "seed": 8},
        {"length_variance": 0.01, "seed": 11},
    ],
    ids=str,
)
def test_other_sizes_change_numbers_not_verdicts(usual, sizes):
    study = hw.study.run(**sizes)
    assert study.holds
    changed = [part.headline.value != old.headline.value for part, old in zip(study.parts, usual.parts, strict=True)]
    assert sum(changed) >= 5
    words = "".join(f" --{name.replace('_', '-')} {value!r}" for name, value in sizes.items())
    assert sorted(study.parts[0].command.split()) == sorted(f"headwise study --parts a.i{words}".split())


@pytest.mark.parametrize("part", ["b.ii", "c.i", "c.ii", "d.i", "d.ii", "beyond.i"])
def test_checks_notice_a_small_mistake(part):
    """A percent more on every number that must equal another is found out."""
    found = hw.study.run(parts=[part]).parts[0]
    held = [one for one in found.findings if one.sign == "=" and one.against and one.name != "that of normalised keys"]
    assert held
    for one in held:
        assert Finding(one.name, 1.01 * one.value, one.error, "=", one.against, one.against_error).holds is False, one.name


def test_a_wrong_number_fails():
    assert Finding("x", 1.0, 0.1, "=", 1.05).holds is True
    assert Finding("x", 1.0, 0.1, "=", 1.15).holds is False
    assert Finding("x", 1.0, 0.1, "=", 1.15, 0.06).holds is True
    assert Finding("x", 1.0, 0.1, "<", 1.05).holds is False
    assert Finding("x", 1.0, 0.1, ">=", 1.05).holds is True
    assert Finding("x", 1.0, 0.1, "<=", 0.85).holds is False
    assert Finding("x", 1.0, 0.1).holds is None
    assert Finding("x", 1e-17, 1e-15).shown == "0"


def test_the_report_needs_nothing_else(usual, tmp_path):
    paths = usual.write(tmp_path / "new" / "folder", notebook=True)
    assert [path.name for path in paths] == ["study.json", "study.ipynb", "study.html"]
    page = paths[2].read_text()
    assert len(re.findall(r'<img src="data:image/svg\+xml;base64,', page)) == len(PARTS)
    assert not re.findall(r"<script|@import|url\(", page)
    for part in usual.parts:
        assert f'id="{part.name}"' in page
        # No formula is left in dollars.
    assert "$" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)
    assert page.count("<math") > 40
    assert json.loads(paths[0].read_text())["holds"] is True


def test_the_notebook_runs_from_top_to_bottom(usual):
    import nbformat
    from nbclient import NotebookClient

    from headwise.study.notebook import written

    book = nbformat.reads(written(usual), as_version=4)
    ran = NotebookClient(book, timeout=120).execute()
    cells = [cell for cell in ran.cells if cell.cell_type == "code"]
    assert len(cells) == 2 * len(PARTS)
    assert all(cell.outputs for cell in cells)
    drawn = [out for cell in cells[::2] for out in cell.outputs if "image/svg+xml" in out.get("data", {})]
    assert len(drawn) == len(PARTS)


def test_an_interrupted_run_leaves_the_old_report(usual, tmp_path, monkeypatch):
    usual.write(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def stop(_picture):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["headwise.study.report"], "svg", stop)
    with pytest.raises(KeyboardInterrupt):
        hw.study.run(seed=1, parts=["a.i"]).write(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", PARTS)
def test_pictures_can_be_read_in_grey(usual, name):
    """No two lines of a picture differ by colour alone."""
    part = next(part for part in usual.parts if part.name == name)
    for panel in part.picture.panels:
        styles = [figures._style(line.style) for line in getattr(panel, "lines", ())]
        looks = [(str(style.get("linestyle", "-")), style.get("marker"), style.get("linewidth")) for style in styles]
        faint = [line.style for line in getattr(panel, "lines", ()) if line.style.endswith("faint")]
        assert len(set(looks)) >= len(looks) - max(0, len(faint) - 1), name


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"keys": 2}, "run(): keys must be 3 to 500, for a and b need a third key to leak to, but got 2."),
        (
            {"keys": 20},
            "run(): width must be at least 20, for 20 vectors stand at right angles, but got 16. Raise width or lower keys.",
        ),
        ({"keys": 2.5}, "run(): keys must be a whole number, but got 2.5."),
        ({"scale": 0}, "run(): scale must be between 0.5 and 100, but got 0."),
        ({"scale": math.nan}, "run(): scale must be between 0.5 and 100, but got nan."),
        ({"length_variance": -1}, "run(): length_variance must be between 0.01 and 4, but got -1."),
        ({"seed": -1}, "run(): seed must be a whole number of at least 0, but got -1."),
        (
            {"parts": ["c.iii"]},
            f"run(): parts must be among {', '.join(PARTS)}, but got 'c.iii'. Did you mean c.ii?",
        ),
        ({"parts": []}, "run(): parts must name at least one part, but it names none."),
    ],
    ids=str,
)
def test_sentences(options, sentence):
    with pytest.raises(HeadwiseError) as caught:
        hw.study.run(**options)
    assert str(caught.value) == sentence


def test_a_folder_that_cannot_be_made(usual, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError) as caught:
        usual.write(tmp_path / "file")
    assert str(caught.value) == f"{tmp_path}/file: the report needs a folder, but this is a file."
    (tmp_path / "study.html").mkdir()
    with pytest.raises(FileError, match=r"study\.html: only a file can be written, but this is a folder"):
        usual.write(tmp_path)
    assert not (tmp_path / "study.json").exists()


def test_plane_keys_hold_one_that_cannot_be_copied():
    from headwise.study.part_a import plane_keys

    for seed in range(30):
        keys = plane_keys(Setting(keys=3 + seed % 10, seed=seed))
        assert hw.design.copy(keys, len(keys) - 1).verdict == "impossible"
        assert (keys * 256 == np.round(keys * 256)).all()
