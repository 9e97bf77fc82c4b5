"""Hand-ins: TOML, JSON or Markdown, one answer per part."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwise.check.markdown import plain, sections
from headwise.check.sheet import Sheet, plain_name
from headwise.errors import FileError

KINDS = (".toml", ".json", ".md")
_LARGEST = 1 << 20
# A hand-in may be anything; what is said of it is read by a person.
_MOST_NOTES = 8


@dataclass(frozen=True)
class Handin:
    """Answers by part, and what was left out."""

    answers: Mapping[str, str]
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
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileError("", f"{path}: a hand-in must be UTF-8, but it is UTF-16", "Save it as UTF-8.")
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
    return _gathered(_flat(data.get("answers", data), "", sheet), sheet)


def _pairs(given: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON; of an answer that comes twice the first is kept by another name, so that it is noted."""
    found: dict[str, object] = {}
    for key, value in given:
        if key in found:
            found[f"{key}: the first of two answers"] = found.pop(key)
        found[key] = value
    return found


def _gathered(given: Iterable[tuple[str, str]], sheet: Sheet) -> Handin:
    """Bring answers to their parts, and note what has none or comes twice."""
    found: dict[str, str] = {}
    notes: dict[str, None] = {}
    for key, text in given:
        part = _part(key, sheet)
        if part is None:
            notes[f"{key[:60]!r} is no part of the sheet and was left out"] = None
            continue
        if part in found:
            notes[f"{part} is answered twice; the last answer was marked"] = None
        found[part] = text
    more = [f"and {len(notes) - _MOST_NOTES} more notes like these"] if len(notes) > _MOST_NOTES else []
    return Handin(found, [*list(notes)[:_MOST_NOTES], *more])


def _flat(data: object, above: str, sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield answers by key; tables in tables, as TOML makes of b.i = "...", are joined, and so are the pieces of one answer."""
    whole = bool(above) and plain_name(above) in {plain_name(part) for part in sheet.problems}
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
    """Take what stands under each heading; what stands under a heading inside a part belongs to it."""
    given: list[tuple[str, str]] = []
    inside = ""
    headings = 0
    for headings, (names, body) in enumerate(sections(text), 1):  # noqa: B007  counted
        part = _headed(names, sheet)
        if part is not None and part == inside and _headed(names[:-1], sheet) == part:
            given[-1] = (given[-1][0], f"{given[-1][1]}\n\n{body}")
        elif body.strip():
            given.append((part or names[-1], body))
            inside = part or ""
    if not headings:
        return Handin({}, ["there is no heading that names a part, such as # b.ii"])
    found = _gathered(given, sheet)
    return replace(found, answers={part: plain(body) for part, body in found.answers.items()})


def _headed(names: Sequence[str], sheet: Sheet) -> str | None:
    """Return the part that a heading names, alone or with those above it: b.ii, or (b) and below it (ii)."""
    several = [_said(" ".join(names[place:])) for place in range(len(names) - 1)]
    known = {plain_name(part): part for part in sheet.problems}
    exact = next((known[said] for said in several if said in known), None)
    return exact or next((part for name in (*names[-1:], *several) if (part := _part(name, sheet)) is not None), None)


def _part(heading: str, sheet: Sheet) -> str | None:
    """Return the part that a heading or key names: b.ii, (b)(ii), Part b.ii, b.ii: my query."""
    said = _said(heading)
    fitting = [part for part in sheet.problems if said == plain_name(part) or said.startswith(f"{plain_name(part)}.")]
    return max(fitting, key=len, default=None)


def _said(heading: str) -> str:
    return plain_name(re.sub(r"\b(?:part|problem|question|exercise|answer)\b", " ", heading.lower()))
