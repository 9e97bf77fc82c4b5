"""Sheets of problems: TOML with a table per part. The built-in one is the attention exercise."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headwise.check.properties import Approximates, Average, Equals, Extract, Layer, Number, Property
from headwise.check.unreadable import Unreadable
from headwise.errors import FileError

BUILT_IN = ("attention",)


@dataclass(frozen=True, eq=False)
class Problem:
    """One part of a sheet: what is asked, what must hold of the answer, known mistakes, and what it is worth."""

    part: str
    title: str
    kind: str
    wanted: Property | None
    points: float
    accept: tuple[str, ...] = ()
    mistakes: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Sheet:
    """Problems by part."""

    name: str
    title: str
    problems: Mapping[str, Problem]


def _average(given: Mapping[str, Any]) -> Property:
    letter = "mu" if given.get("noise") else "k"
    return Average(
        given["give"], given.get("keys", ["a", "b"]), letter, noise=bool(given.get("noise")), kind=given.get("drawn", "")
    )


_KINDS: Mapping[str, tuple[Callable[[Mapping[str, Any]], Property | None], set[str], set[str]]] = {
    "average": (_average, {"give"}, {"keys", "noise", "drawn"}),
    "extract": (lambda given: Extract(given["give"][0]), {"give"}, set()),
    "layer": (lambda given: Layer(given["targets"]), {"targets"}, {"give"}),
    "approximates": (lambda given: Approximates(given["give"][0], given["row"]), {"give", "row"}, set()),
    "equals": (lambda given: Equals(given["give"][0], given["value"], given.get("letter", "")), {"give", "value"}, {"letter"}),
    "number": (
        lambda given: Number(given["give"][0], str(given["value"]), float(given["tolerance"]), given.get("names", {})),
        {"give", "value", "tolerance"},
        {"names"},
    ),
    "condition": (lambda _: None, set(), set()),
    "word": (lambda _: None, {"accept"}, set()),
}
_TYPES: Mapping[str, tuple[type, ...]] = {
    "title": (str,),
    "kind": (str,),
    "points": (int, float),
    "give": (list,),
    "keys": (list,),
    "noise": (bool,),
    "drawn": (str,),
    "targets": (dict,),
    "row": (int,),
    "value": (str, int, float),
    "tolerance": (int, float),
    "names": (dict,),
    "letter": (str,),
    "accept": (list,),
    "mistakes": (list,),
}
_ALWAYS = {"title", "kind", "points", "mistakes"}


@cache
def built_in(name: str) -> Sheet:
    """Return a sheet that comes with headwise."""
    path = Path(__file__).parent / f"{name}.toml"
    return parsed(path.read_text(encoding="utf-8"), name)


def load(place: str | Path) -> Sheet:
    """Return a sheet by its name, or from a file."""
    if str(place) in BUILT_IN:
        return built_in(str(place))
    path = Path(place)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise FileError("", f"{path}: a sheet must be a TOML file or {' or '.join(BUILT_IN)}, but {why}") from None
    return parsed(text, str(path))


def parsed(text: str, name: str) -> Sheet:
    """Read a sheet; what is wrong with it is told with its line."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError("", f"{name}: a sheet must be TOML, but {error}") from None
    parts = data.get("part")
    if not isinstance(parts, dict) or not parts:
        raise FileError("", f'{name}: a sheet must have a table [part."..."] for every part, but it has none')
    problems = {str(part): _problem(name, text, str(part), given) for part, given in parts.items()}
    return Sheet(name, str(data.get("title", name)), problems)


def _problem(name: str, text: str, part: str, given: Any) -> Problem:  # noqa: ANN401  whatever TOML holds
    def wrong(key: str, rule: str) -> FileError:
        return FileError("", f"{name}, line {_line(text, part, key)}: part {part}: {rule}")

    if not isinstance(given, dict):
        raise wrong("", "a part must be a table, but it is not")
    kind = str(given.get("kind"))
    if kind not in _KINDS:
        raise wrong("kind", f"kind must be one of {', '.join(_KINDS)}, but it is {given.get('kind')!r}")
    build, needed, more = _KINDS[kind]
    for key in sorted(needed):
        if key not in given:
            raise wrong("", f"{key} must be given for the kind {kind}, but it is not")
    for key, value in given.items():
        if key not in needed | more | _ALWAYS:
            raise wrong(key, f"{key} is not known for the kind {kind}")
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool) != (bool in _TYPES[key]):
            raise wrong(key, f"{key} must be {' or '.join(one.__name__ for one in _TYPES[key])}, but it is {value!r}")
        listed: Any = value
        if key in ("give", "keys", "accept") and not (listed and all(isinstance(one, str) for one in listed)):
            raise wrong(key, f"{key} must be a list of strings, but it is {value!r}")
    mistakes: list[Any] = list(given.get("mistakes", []))
    for mistake in mistakes:
        if not isinstance(mistake, dict) or not {"value", "name", "help"} <= set(mistake):
            raise wrong("mistakes", "a mistake must have value, name and help, but one has not")
    try:
        wanted = build(given)
    except (Unreadable, ValueError, TypeError, KeyError) as error:
        key = next((key for key in ("targets", "value", "give") if key in given), "")
        raise wrong(key, f"the {key} cannot be read: {error}") from None
    return Problem(
        part,
        given.get("title", part),
        kind,
        wanted,
        float(given.get("points", 1)),
        tuple(one.lower() for one in given.get("accept", [])),
        tuple({key: str(value) for key, value in mistake.items()} for mistake in mistakes),
    )


def _line(text: str, part: str, key: str) -> int:
    """Return the line of a key in the table of a part, or of its head."""
    inside, head = False, 1
    for place, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            inside = bare.startswith("[part.") and bare.strip("[]").removeprefix("part.").strip("\"' ") == part
            head = place if inside else head
        elif inside and key and bare.split("=")[0].strip() == key:
            return place
    return head
