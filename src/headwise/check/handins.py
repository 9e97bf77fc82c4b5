"""Hand-ins: TOML, JSON or Markdown, one answer per part."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwise.check.sheet import Sheet
from headwise.errors import FileError

KINDS = (".toml", ".json", ".md")
_LARGEST = 1 << 20
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_FORMULA = re.compile(r"```\w*\n(.+?)```|`(.+?)`|\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


def read_handin(path: Path, sheet: Sheet) -> dict[str, list[str]]:
    """Return the answers of a file by part, as they may be meant; parts that the sheet does not have are left out."""
    if path.suffix.lower() not in KINDS:
        raise FileError("", f"{path}: a hand-in must end in {', '.join(KINDS)}, but it ends in {path.suffix or 'nothing'}")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FileError("", f"{path}: the hand-in must be readable, but {error.strerror}") from None
    if len(raw) > _LARGEST:
        raise FileError("", f"{path}: a hand-in must be at most {_LARGEST} bytes, but it has {len(raw)}")
    text = raw.decode("utf-8-sig", errors="replace")
    return parsed(text, path.suffix.lower(), sheet, str(path))


def parsed(text: str, kind: str, sheet: Sheet, name: str = "hand-in") -> dict[str, list[str]]:
    """Read the text of a hand-in."""
    if kind == ".md":
        return _markdown(text, sheet)
    try:
        data = tomllib.loads(text) if kind == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if not isinstance(error, RecursionError) else "it nests too deep"
        raise FileError("", f"{name}: the hand-in must be {kind[1:].upper()}, but {why}") from None
    if not isinstance(data, Mapping):
        raise FileError("", f"{name}: the hand-in must name parts, but it is a {type(data).__name__}")
    flat = dict(_flat(data.get("answers", data), ""))
    return {part: [text] for key, text in flat.items() if (part := _part(key, sheet))}


def _flat(data: object, above: str) -> Iterator[tuple[str, str]]:
    """Yield answers by key; tables in tables, as TOML makes of b.i = "...", are joined."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key))
    elif isinstance(data, (str, int, float)) and above.count(".") < 4:
        yield above, str(data)


def _markdown(text: str, sheet: Sheet) -> dict[str, list[str]]:
    """Take what stands under each heading: all from the first formula on, its formulas, single ones, or all of its text."""
    heads = list(_HEADING.finditer(text))
    found = {}
    for place, head in enumerate(heads):
        part = _part(head[1], sheet)
        if part is None:
            continue
        body = text[head.end() : heads[place + 1].start() if place + 1 < len(heads) else len(text)].strip().replace("**", "")
        formulas = [next(piece for piece in one.groups() if piece is not None).strip() for one in _FORMULA.finditer(body)]
        whole = " ".join(body.split())
        if not formulas or sheet.problems[part].kind == "word":
            found[part] = [whole]
            continue
        first = _FORMULA.search(body)
        after = re.sub(r"\$+|`+", " ", body[first.start() :]) if first else whole
        singles = [formula for formula in formulas if "=" in formula]
        found[part] = [" ".join(after.split()), ", ".join(formulas), *reversed(singles)]
    return found


def _part(heading: str, sheet: Sheet) -> str | None:
    """Return the part that a heading or key names: b.ii, (b)(ii), Part b.ii, b.ii: my query."""
    said = _joined(re.sub(r"\b(?:part|problem|question|exercise|answer)\b", " ", heading.lower()))
    fitting = [part for part in sheet.problems if said == _joined(part) or said.startswith(f"{_joined(part)}.")]
    return max(fitting, key=len, default=None)


def _joined(name: str) -> str:
    return ".".join(re.findall(r"[a-z0-9]+", name.lower()))
