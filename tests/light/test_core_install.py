"""What works without any extra, and what is not loaded when it is not needed. Runs also where only the core is installed."""

import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "scipy", "flint", "threadpoolctl", "matplotlib", "jax", "transformers", "rich")


def python(program):
    """Run a program in a new process and return what it printed."""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    ("program", "also"),
    [
        ("import headwise", ("numpy", "click")),
        ("from headwise.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", ("numpy",)),
        ("import headwise as hw, numpy as np; hw.attend(np.ones(2), np.eye(2), np.eye(2)).contexts", ()),
    ],
    ids=["import", "help", "attend"],
)
def test_nothing_heavy_is_loaded(program, also):
    shown = python(f"{program}\nimport sys; print(sorted({{*{HEAVY + also}}} & set(sys.modules)))")
    assert shown.splitlines()[-1] == "[]"


def test_attend_design_and_study_need_no_extra():
    program = """
import sys
sys.modules["matplotlib"] = None
import headwise as hw, numpy as np
print(hw.attend(np.ones(2), np.eye(2), np.eye(2)))
assert hw.design.copy(np.eye(3), 0).verify()
assert hw.design.copyable(np.eye(3)).possible.all()
import tempfile
with tempfile.TemporaryDirectory() as folder:
    study = hw.study.run()
    print(study.holds, [path.name for path in study.write(folder)])
"""
    assert python(program).splitlines()[-1] == "True ['study.json']"


def test_what_needs_torch_says_so():
    program = """
import sys
sys.modules["torch"] = None
import headwise as hw
try:
    hw.MultiHeadAttention.from_torch(object())
except ImportError as error:
    print(error)
"""
    sentence = 'from_torch(): needs torch, but it is not installed. Run: pip install "headwise[inspect]"\n'
    assert python(program) == sentence


def test_command_line(tmp_path):
    (tmp_path / "keys.json").write_text(json.dumps([[1, 0], [0, 1]]))
    words = [word for name in ("queries", "keys", "values") for word in (f"--{name}", str(tmp_path / "keys.json"))]
    command = [sys.executable, "-c", "from headwise.cli import main; main()", "attend", *words, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout)["top"] == [0, 1]
