"""Hand-ins: TOML, JSON or Markdown, one answer per part."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from headwise.check.sheet import Sheet
from headwise.errors import FileError

KINDS = (".toml", ".json", ".md")
_LARGEST = 1 << 20
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


def read_handin(path: Path, sheet: Sheet) -> dict[str, str]:
    """Return the answers of a file by part; parts that the sheet does not have are left out."""
    if path.suffix not in KINDS:
        raise FileError("", f"{path}: a hand-in must end in {', '.join(KINDS)}, but it ends in {path.suffix or 'nothing'}")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FileError("", f"{path}: the hand-in must be readable, but {error.strerror}") from None
    if len(raw) > _LARGEST:
        raise FileError("", f"{path}: a hand-in must be at most {_LARGEST} bytes, but it has {len(raw)}")
    text = raw.decode("utf-8", errors="replace")
    return parsed(text, path.suffix, sheet, str(path))


def parsed(text: str, kind: str, sheet: Sheet, name: str = "hand-in") -> dict[str, str]:
    """Read the text of a hand-in."""
    if kind == ".md":
        return _markdown(text, sheet)
    try:
        data = tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        why = str(error) if not isinstance(error, RecursionError) else "it nests too deep"
        raise FileError("", f"{name}: the hand-in must be {kind[1:].upper()}, but {why}") from None
    if not isinstance(data, Mapping):
        raise FileError("", f"{name}: the hand-in must name parts, but it is a {type(data).__name__}")
    found = data.get("answers", data)
    return {
        part: str(text)
        for key, text in (found.items() if isinstance(found, Mapping) else ())
        if (part := _part(str(key), sheet)) and isinstance(text, (str, int, float))
    }


def _markdown(text: str, sheet: Sheet) -> dict[str, str]:
    """Take the mathematics under each heading, or all of its text where there is none."""
    heads = list(_HEADING.finditer(text))
    found = {}
    for place, head in enumerate(heads):
        part = _part(head[1], sheet)
        if part is None:
            continue
        body = text[head.end() : heads[place + 1].start() if place + 1 < len(heads) else len(text)].strip()
        formulas = [next(piece for piece in one.groups() if piece is not None) for one in _FORMULA.finditer(body)]
        wordy = sheet.problems[part].kind == "word"
        found[part] = ", ".join(piece.strip() for piece in formulas) if formulas and not wordy else " ".join(body.split())
    return found


def _part(heading: str, sheet: Sheet) -> str | None:
    """Return the part that a heading or key names: b.ii, (b) ii, Part b.ii."""
    said = re.sub(r"[^a-z0-9. ]", " ", heading.lower()).removeprefix("part ").strip(" .")
    tries = (said, said.replace(" ", "."), said.replace(" ", ""))
    return next((part for one in tries for part in sheet.problems if part.lower() == one), None)
