"""Write again what the code makes of the documents: the help texts, the output of `make study`, the picture.

Run ``python docs/refresh.py`` after a change to the command line; a test says when it is needed.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from headwise.study.figures import averaging, hull
from headwise.study.noise_figures import cloud

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
    for draw in (averaging, cloud, hull):
        draw(ROOT / "docs" / "pictures")
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        page.write_text(re.sub(r"^```console\n(.*?)^```$", refreshed, page.read_text(), flags=re.MULTILINE | re.DOTALL))
