"""Write again what the code makes of the documents: help texts, tables, pictures, and the exercise as worked by the study.

Run ``python docs/refresh.py`` after a change to the command line, the study or the pictures; a test says when it is needed.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from headwise.study import run
from headwise.study.figures import save
from headwise.study.worked import page

ROOT = Path(__file__).parents[1]


def shown(line: str) -> str:
    """Return what a command prints, in a terminal of 100 columns."""
    words = "headwise study" if line == "make study" else line
    command = [str(Path(sys.executable).with_name("headwise")), *words.split()[1:]]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "100"}
        )
    return done.stdout.rstrip("\n") + "\n"


def refreshed(block: re.Match[str]) -> str:
    """Write one console block again."""
    lines = [line for line in block[1].splitlines() if line.startswith("$ ")]
    body = "".join(f"{line}\n{'' if line == '$ make test' else shown(line[2:])}" for line in lines)
    return f"```console\n{body}```"


if __name__ == "__main__":
    study = run()
    for part in study.parts:
        save(part.picture, ROOT / "docs" / "pictures" / f"{part.picture.name}.svg")
    (ROOT / "docs" / "exercise.md").write_text(page(study, "pictures"))
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        path.write_text(re.sub(r"^```console\n(.*?)^```$", refreshed, path.read_text(), flags=re.MULTILINE | re.DOTALL))
