"""What the documents say is run; every command and public name has its page; the manual builds without a warning."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headwise as hw
from headwise.cli import main
from headwise.study import figures
from headwise.study.run import PARTS
from headwise.study.worked import page as worked_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = "\n".join(page.read_text() for page in PAGES[1:])
FLAGS = doctest.ELLIPSIS
VERBS = [name for name in hw.__all__ if isinstance(getattr(hw, name), ModuleType)]
WIDTH = {"COLUMNS": "100"}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_documents(page):
    """All blocks of a page run one after the other, as a reader would type them."""
    names = {}
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for number, block in enumerate(blocks(page, "python")):
        test = doctest.DocTestParser().get_doctest(block, names, f"{page.name} block {number}", str(page), 0)
        assert test.examples, f"{page.name}: a python block without >>> is not run"
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.summarize(verbose=False).failed == 0


NUMBER = re.compile(r"(?<![\w#.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)")


def assert_alike(made, kept):
    """Compare words to the letter and numbers as printed; tiny ones, mostly errors, depend on how the processor rounds."""
    parts = [(re.sub(r"\s+|─+", " ", NUMBER.sub("#", text)).strip(), NUMBER.findall(text)) for text in (made, kept)]
    assert parts[0][0] == parts[1][0]
    one, other = (np.array(numbers, dtype=float) for _, numbers in parts)
    tiny = np.abs(other) < 1e-3
    np.testing.assert_allclose(one[tiny], other[tiny], rtol=0.05, atol=1e-12)
    np.testing.assert_allclose(one[~tiny], other[~tiny], rtol=1e-3)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_documents(page, tmp_path):
    """Every `$ headwise ...` prints what the page shows; `make study` is `headwise study` after its set-up."""
    shown = [part for block in blocks(page, "console") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    for part in shown:
        line, _, wanted = part.partition("\n")
        if line == "make test":
            continue
        words = ["study"] if line == "make study" else line.split()[1:]
        command = [str(Path(sys.executable).with_name("headwise")), *words]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=os.environ | WIDTH)
        assert_alike(result.stdout, wanted)


@pytest.mark.parametrize("name", [name for name in hw.__all__ if name not in ("__version__", *VERBS)])
def test_every_public_name_has_a_page(name):
    assert re.search(rf"auto(function|class|exception):: headwise\.{name}$", TEXT, flags=re.MULTILINE)


def test_every_public_name_is_there():
    assert sorted(hw.__all__) == sorted(dir(hw))
    for name in hw.__all__:
        assert getattr(hw, name) is not None


@pytest.mark.parametrize("name", [*main.commands, *(f"design {name}" for name in main.commands["design"].commands)])
def test_every_command_has_its_help_on_a_page(name):
    assert f"$ headwise {name} --help\n" in TEXT


@pytest.mark.parametrize("name", [f"{verb}.{name}" for verb in VERBS for name in getattr(hw, verb).__all__])
def test_every_name_of_a_verb_has_a_page(name):
    assert re.search(rf"auto(function|class):: headwise\.{re.escape(name)}$", TEXT, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def study():
    return hw.study.run()


def apart(svg):
    """Return a drawing without its numbers, and the numbers; what matplotlib names by a hash of numbers is counted."""
    names = {}
    text = re.sub(r"\b[pmh][0-9a-f]{10}\b", lambda found: names.setdefault(found[0], f"name{len(names)}"), svg.decode())
    return NUMBER.sub("#", text), np.array(NUMBER.findall(text), dtype=float)


@pytest.mark.parametrize("name", PARTS)
def test_pictures_are_those_the_code_draws(study, name):
    """Up to a fiftieth of a point: other processors round otherwise."""
    picture = next(part.picture for part in study.parts if part.name == name)
    drawn, places = apart(figures.svg(picture))
    kept, kept_places = apart((ROOT / "docs" / "pictures" / f"{picture.name}.svg").read_bytes())
    assert (drawn == kept, len(places)) == (True, len(kept_places))
    np.testing.assert_allclose(places, kept_places, rtol=1e-5, atol=0.02)


def test_the_worked_exercise_is_that_of_the_study(study):
    assert_alike((ROOT / "docs" / "exercise.md").read_text(), worked_page(study, "pictures"))


def test_the_manual_builds(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    # Nothing on a page is fetched from elsewhere.
    for page in tmp_path.glob("*.html"):
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?:https?:)?//", page.read_text()), page.name
