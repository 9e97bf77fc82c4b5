"""The modules of the page as one, for notebooks and for the offline file.

No build tool: modules import only each other, by name, and no two share a top-level name; so they can stand in one text, each
after those that it imports.
"""

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import .* from "\./(?P<name>[a-z]+\.js)";\n', flags=re.MULTILINE)


@cache
def bundled(entry: str) -> str:
    """Return a module and all that it imports as one text; only the entry still exports, and only its default.

    >>> bundled("lab.js").count("export default")
    1
    """
    seen: dict[str, str] = {}

    def visit(name: str) -> None:
        text = (STATIC / name).read_text(encoding="utf-8")
        for found in _IMPORT.finditer(text):
            if found["name"] not in seen:
                visit(found["name"])
        text = re.sub(r"^export (?!default)", "", _IMPORT.sub("", text), flags=re.MULTILINE)
        seen[name] = text if name == entry else re.sub(r"^export default ", "const lab = ", text, flags=re.MULTILINE)

    visit(entry)
    return "\n".join(seen.values())


@cache
def styles() -> str:
    """Return all style sheets as one, the common one first."""
    sheets = sorted(STATIC.glob("*.css"), key=lambda path: path.name != "style.css")
    return "\n".join(path.read_text(encoding="utf-8") for path in sheets)
