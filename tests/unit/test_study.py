"""The study: numbers against formulas evaluated anew, snippets that give the same, verdicts that outlive a change of sizes."""

import json
import math
import re
import sys

import numpy as np
import pytest

import headwise as hw
from headwise.errors import FileError, HeadwiseError
from headwise.study import Finding, figures
from headwise.study.run import PARTS
from headwise.study.setting import Setting


@pytest.fixture(scope="module")
def usual():
    return hw.study.run()


def test_every_part_holds_and_says_everything(usual):
    assert [part.name for part in usual.parts] == list(PARTS)
    for part in usual.parts:
        assert part.verdict == "holds", part.name
        assert part.claim
        assert part.computed
        assert part.lesson
        assert part.code
        assert part.picture.alt
        assert part.command == f"headwise study --parts {part.name} --out study-{part.name}"
        assert part.sentence.startswith("holds: ")
        assert any(one.holds for one in part.findings) or part.proofs, f"{part.name} claims nothing"


@pytest.mark.parametrize("name", PARTS)
def test_the_lines_under_a_part_print_its_number(usual, name, capsys):
    part = next(part for part in usual.parts if part.name == name)
    exec(compile(part.code, name, "exec"), {})  # noqa: S102  what a reader would type
    found = float(capsys.readouterr().out.splitlines()[-1].split()[0])
    assert found == pytest.approx(part.headline.value, abs=part.headline.error + 1e-3 * abs(part.headline.value))
    assert max(map(len, part.code.splitlines())) <= 110


def test_other_sizes_change_numbers(usual):
    sizes = {"keys": 7, "width": 9, "scale": 20.0, "length_variance": 1.0, "seed": 5}
    study = hw.study.run(**sizes)
    assert all(part.holds for part in study.parts)
    changed = [part.headline.value != old.headline.value for part, old in zip(study.parts, usual.parts, strict=True)]
    assert sum(changed) >= 8
    words = "".join(f" --{name.replace('_', '-')} {value!r}" for name, value in sizes.items())
    assert study.parts[0].command == f"headwise study --parts a.i{words} --out study-a.i"


@pytest.mark.parametrize("part", ["b.ii", "c.i", "c.ii", "d.i", "d.ii", "beyond.i"])
def test_checks_notice_a_small_mistake(part):
    """A percent more on every number that must equal another is found out."""
    found = hw.study.run(parts=[part]).parts[0]
    held = [one for one in found.findings if one.sign == "=" and one.against]
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
    assert [Finding("x", value, 0.1, "<", 1.0, otherwise="No.").verdict for value in (0.5, 1.5)] == ["holds", "not here"]
    assert [Finding("x", 1.5, 0.1, "<", 1.0).verdict, Finding("x", 1.5, 0.1).verdict] == ["FAILS", ""]


def test_the_report_needs_nothing_else(usual, tmp_path):
    paths = usual.write(tmp_path / "new" / "folder", notebook=True)
    assert [path.name for path in paths] == ["study.json", "study.ipynb", "study.html"]
    page = paths[2].read_text()
    count = sum(len(part.picture.panels) for part in usual.parts)
    assert len(re.findall(r'<img[^>]* src="data:image/svg\+xml;base64,', page)) == count
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


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stop(*_):
    raise KeyboardInterrupt


def test_an_interrupted_run_leaves_the_old_files(usual, tmp_path, monkeypatch):
    usual.write(tmp_path)
    before = contents(tmp_path)
    new = hw.study.run(seed=1, parts=["a.i"])
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["headwise.study.report"], "panels", stop)
        with pytest.raises(KeyboardInterrupt):
            new.write(tmp_path)
    assert contents(tmp_path) == before
    # The page is whole and waits for its place when the data cannot be written.
    (tmp_path / "study.json").unlink()
    (tmp_path / "study.json").mkdir()
    with pytest.raises(FileError):
        new.write(tmp_path)
    assert (tmp_path / "study.html").read_bytes() == before["study.html"]
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_one_folder_are_of_one_run(usual, tmp_path):
    usual.write(tmp_path, notebook=True)
    hw.study.run(seed=1, parts=["a.i"]).write(tmp_path)
    assert sorted(contents(tmp_path)) == ["study.html", "study.json"]
    (tmp_path / "study.ipynb").write_text("my own")
    usual.write(tmp_path)
    assert (tmp_path / "study.ipynb").read_text() == "my own"


@pytest.mark.parametrize("name", PARTS)
def test_pictures_can_be_read_in_grey(usual, name):
    """No two lines of a picture differ by colour alone."""
    part = next(part for part in usual.parts if part.name == name)
    for panel in part.picture.panels:
        styles = [figures._style(line.style) for line in getattr(panel, "lines", ())]
        looks = [(str(style.get("linestyle", "-")), style.get("marker"), style.get("linewidth")) for style in styles]
        assert len(set(looks)) == len(looks), name


def test_labels_stay_clear_of_lines_and_inside(usual):
    """A label that lies on a line hides it."""
    for name in ("c.ii", "d.ii"):
        panel = next(part for part in usual.parts if part.name == name).picture.panels[-1]
        assert panel.marks
        with figures._figure(4, 4) as drawn:
            axes = drawn.subplots()
            figures._draw(panel, axes)
            drawn.draw_without_rendering()
            figures._label_marks(axes, panel)
            box = axes.texts[0].get_window_extent()
            lines = [figures._dense(axes.transData.transform(np.stack([line.x, line.y], axis=1))) for line in panel.lines]
            assert not any(box.contains(*point) for line in lines for point in line), name
            assert axes.get_window_extent().containsx(box.x0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"keys": 2}, "run(): keys must be at least 3, for a and b need a third key to leak to, but got 2."),
        ({"keys": 600, "width": 700}, "run(): keys must be at most 500, for the study to stay short, but got 600."),
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
