"""The lab as one file that works without Python and without a network."""

import html
import json
import re
from pathlib import Path

from headwise import check
from headwise.errors import FileError
from headwise.files import replacing
from headwise.lab.bundle import STATIC, bundled, styles

_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:\">"
)


def offline() -> str:
    """Return the page with everything in it; what needs Python says so on the page."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    page = re.sub(r'<link rel="stylesheet"[^>]*>\n?', "", page).replace(" data-server", "")
    script = f'<script type="module">\n{bundled("page.js")}\n</script>'
    page = re.sub(r'<script type="module"[^>]*></script>', lambda _: script, page)
    titles = json.dumps({part: problem.title for part, problem in check.load("attention").problems.items()})
    page = page.replace('<div id="lab">', f'<div id="lab" data-parts="{html.escape(titles)}">')
    return page.replace("<title>", f"{_POLICY}\n<style>\n{styles()}\n</style>\n<title>")


def export(path: str | Path) -> Path:
    """Write the lab as one file that opens from a disk, and return its path.

    Examples
    --------
    >>> import tempfile
    >>> export(Path(tempfile.mkdtemp()) / "lab.html").name
    'lab.html'
    """
    goal = Path(path)
    if goal.suffix not in (".html", ".htm"):
        raise FileError("", f"{goal}: the file must end in .html, but it ends in {goal.suffix or 'nothing'}")
    with replacing(goal) as stream:
        stream.write(offline().encode())
    return goal
