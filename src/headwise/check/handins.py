"""Hand-ins: TOML, JSON or Markdown, one answer per part."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.check.phrases import HEDGES
from headwise.check.sheet import Sheet
from headwise.errors import FileError

KINDS = (".toml", ".json", ".md")
_LARGEST = 1 << 20
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_FORMULA = re.compile(r"```\w*\n(.+?)```|`(.+?)`|\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


_DISPLAYED = re.compile(r"```\w*\n(.+?)```|\$\$(.+?)\$\$|\\\[(.+?)\\\]", re.DOTALL)


@dataclass(frozen=True)
class Handin:
    """Answers by part, each in the ways in which it may be meant, and what was left out."""

    answers: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()


def read_handin(path: Path, sheet: Sheet) -> Handin:
    """Return the answers of a file by part; what the sheet does not have is noted."""
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


def parsed(text: str, kind: str, sheet: Sheet, name: str = "hand-in") -> Handin:
    """Read the text of a hand-in."""
    if kind == ".md":
        return _markdown(text, sheet)
    try:
        data = tomllib.loads(text) if kind == ".toml" else json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        why = str(error) if not isinstance(error, RecursionError) else "it nests too deep"
        raise FileError("", f"{name}: the hand-in must be {kind[1:].upper()}, but {why}") from None
    if not isinstance(data, Mapping):
        raise FileError("", f"{name}: the hand-in must name parts, but it is a {type(data).__name__}")
    return _gathered(((key, [answer]) for key, answer in _flat(data.get("answers", data), "", sheet)), sheet)


def _pairs(given: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; of an answer that comes twice the first is kept by another name, so that it is noted."""
    found: dict[str, object] = {}
    for key, value in given:
        if key in found:
            found[f"{key}: the first of two answers"] = found.pop(key)
        found[key] = value
    return found


def _gathered(given: Iterator[tuple[str, list[str]]], sheet: Sheet) -> Handin:
    """Bring answers to their parts, and note what has none or comes twice."""
    found: dict[str, list[str]] = {}
    notes = []
    for key, texts in given:
        part = _part(key, sheet)
        if part is None:
            notes.append(f"{key[:60]!r} is no part of the sheet and was left out")
            continue
        if part in found:
            notes.append(f"{part} is answered twice; the last answer was marked")
        found[part] = texts
    return Handin(found, notes)


def _flat(data: object, above: str, sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield answers by key; tables in tables, as TOML makes of b.i = "...", are joined, and so are the pieces of one answer."""
    whole = bool(above) and _joined(above) in {_joined(part) for part in sheet.problems}
    if isinstance(data, Mapping) and whole and not any(_part(f"{above}.{key}", sheet) != _part(above, sheet) for key in data):
        yield above, "; ".join(f"{key} = {value}" for key, value in data.items())
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _flat(value, f"{above}.{key}" if above else str(key), sheet)
    elif isinstance(data, list):
        yield above, "; ".join(str(one) for one in data)
    elif isinstance(data, (str, int, float)) and above.count(".") < 4:
        yield above, str(data)


def _markdown(text: str, sheet: Sheet) -> Handin:
    """Take what stands under each heading."""
    heads = list(_HEADING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)] * bool(heads)
    bodies = [(head[1], text[head.end() : end].strip().replace("**", "")) for head, end in zip(heads, ends, strict=True)]
    found = _gathered(((head, _under(body, _part(head, sheet), sheet)) for head, body in bodies if body), sheet)
    return found if heads else replace(found, notes=["there is no heading that names a part, such as # b.ii"])


def _under(body: str, part: str | None, sheet: Sheet) -> list[str]:
    """Return what an answer may be: all from the first formula on, its formulas, single ones, or all of its text."""
    if part is None:
        return []
    formulas = [next(piece for piece in one.groups() if piece is not None).strip() for one in _FORMULA.finditer(body)]
    whole = " ".join(body.split())
    if not formulas or sheet.problems[part].kind == "word":
        return [whole]
    # Words that take an answer back may stand before it, and formulas alone do not have them.
    hedged = bool(HEDGES & set(re.findall(r"[a-z]+", body.lower())))
    first = _FORMULA.search(body)
    rest = body[first.start() :] if first and not hedged else body
    apart = _DISPLAYED.sub(lambda one: f" ; {next(piece for piece in one.groups() if piece is not None).strip()} ; ", rest)
    after = re.sub(r"\$+|`+|\\\(|\\\)", " ", re.sub(r"\n\s*\n", " ; ", apart))
    said = " ".join(after.split())
    if hedged:
        return [said]
    singles = [formula for formula in formulas if "=" in formula]
    return [said, ", ".join(formulas), *(singles if len(singles) == 1 else [])]


def _part(heading: str, sheet: Sheet) -> str | None:
    """Return the part that a heading or key names: b.ii, (b)(ii), Part b.ii, b.ii: my query."""
    said = _joined(re.sub(r"\b(?:part|problem|question|exercise|answer)\b", " ", heading.lower()))
    fitting = [part for part in sheet.problems if said == _joined(part) or said.startswith(f"{_joined(part)}.")]
    return max(fitting, key=len, default=None)


def _joined(name: str) -> str:
    return ".".join(re.findall(r"[a-z0-9]+", name.lower()))
