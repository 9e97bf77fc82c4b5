"""Sheets of problems: TOML with a table per part. The built-in one is the attention exercise."""

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from headwise.check.evaluate import value
from headwise.check.properties import Approximates, Average, Equals, Extract, Layer, Number, Property, expression
from headwise.check.scope import SCALAR
from headwise.check.unreadable import Unreadable
from headwise.check.words import bare
from headwise.check.worlds import Keys
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
    noise = bool(given.get("noise"))
    world = Keys(
        "mu" if noise else "k",
        tuple(given.get("keys", ["a", "b"])),
        independent=given.get("drawn") == "independent",
        noise=noise,
        counts=given.get("n", ()),
        width=given.get("width", 0),
    )
    return Average(given["give"], world)


_KINDS: Mapping[str, tuple[Callable[[Mapping[str, Any]], Property | None], set[str], set[str]]] = {
    "average": (_average, {"give"}, {"keys", "noise", "drawn", "n", "width"}),
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
    "n": (list,),
    "width": (int,),
    "targets": (dict,),
    "row": (int,),
    "value": (str, int, float),
    "tolerance": (int, float),
    "names": (dict,),
    "letter": (str,),
    "accept": (list,),
    "mistakes": (list,),
}
_NAMES = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "a table", bool: "true or false"}
_ROWS = (1, 2, 3)
# How many keys can be averaged, and how many keys and coordinates there may be.
_MOST_KEYS, _LARGEST = 8, 64
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
    _check_parts(parts, lambda part, rule: FileError("", f"{name}, line {_line(text, part, '')}: {rule}"))
    for key in data:
        if key not in ("title", "part"):
            raise FileError("", f"{name}, line {_line(text, '', key)}: a sheet has a title and parts, but {key} is neither")
    problems = {str(part): _problem(name, text, str(part), given) for part, given in parts.items()}
    return Sheet(name, str(data.get("title", name)), problems)


def _check_parts(parts: Iterable[str], wrong: Callable[[str, str], FileError]) -> None:
    """Refuse parts that a hand-in could not tell apart."""
    known: dict[str, str] = {}
    for part in parts:
        if not plain_name(part):
            raise wrong(part, f"the name of a part must have letters or digits, but {part!r} has none")
        other = known.setdefault(plain_name(part), part)
        if other != part:
            raise wrong(part, f"the names of parts must differ in letters or digits, but {part!r} is also {other!r}")


@lru_cache(maxsize=1024)
def plain_name(part: str) -> str:
    """Return the name of a part as it is compared: (b)(ii) and B.II are b.ii."""
    return ".".join(re.findall(r"[a-z0-9]+", part.lower()))


def _problem(name: str, text: str, part: str, given: Any) -> Problem:  # noqa: ANN401  whatever TOML holds
    def wrong(key: str, rule: str) -> FileError:
        return FileError("", f"{name}, line {_line(text, part, key)}: part {part}: {rule}")

    if not isinstance(given, dict):
        raise wrong("", "a part must be a table, but it is not")
    if "kind" not in given and any(isinstance(one, dict) and "kind" in one for one in given.values()):
        inner = f"{part}.{next(key for key, one in given.items() if isinstance(one, dict))}"
        raise wrong("", f'a name with a dot must be quoted, as in [part."{inner}"], but it is not')
    kind = str(given.get("kind"))
    if kind not in _KINDS:
        raise wrong("kind", f"kind must be one of {', '.join(_KINDS)}, but it is {_shown(given.get('kind'))}")
    build, needed, more = _KINDS[kind]
    for key in sorted(needed):
        if key not in given:
            raise wrong("", f"{key} must be given for the kind {kind}, but it is not")
    for key, found in given.items():
        if key not in needed | more | _ALWAYS:
            raise wrong(key, f"{key} is not known for the kind {kind}")
        if not isinstance(found, _TYPES[key]) or isinstance(found, bool) != (bool in _TYPES[key]):
            said = " or ".join(dict.fromkeys(_NAMES[one] for one in _TYPES[key]))
            raise wrong(key, f"{key} must be {said}, but it is {_shown(found)}")
        listed: Any = found
        if key in ("give", "keys", "accept") and not (listed and all(isinstance(one, str) for one in listed)):
            raise wrong(key, f"{key} must be a list of strings, but it is {_shown(found)}")
        rule = _rule(key, found)
        if rule:
            raise wrong(key, f"{key} must be {rule}, but it is {_shown(found)}")
    mistakes: list[Any] = list(given.get("mistakes", []))
    for mistake in mistakes:
        if not isinstance(mistake, dict) or not {"value", "name", "help"} <= set(mistake):
            raise wrong("mistakes", "a mistake must have value, name and help, but one has not")
    try:
        wanted = build(given)
    except (Unreadable, ValueError, TypeError, KeyError) as error:
        key = next((key for key in ("targets", "value", "names", "give") if key in given), "")
        said = error.problem if isinstance(error, Unreadable) else "it is not what this kind needs"
        raise wrong(key, f"the {key} cannot be read: {said}") from None
    taken = wanted.world.scope.names if wanted is not None else {}
    for one in given.get("give", ()):
        if one.partition("_")[0] in taken:
            raise wrong("give", f"give must be names of its own, but {one} is a name of the kind {kind}")
    if kind == "number":
        _check_numbers(wanted, mistakes, wrong)
    if kind == "word":
        _check_words(given["accept"], mistakes, wrong)
    return Problem(
        part,
        given.get("title", part),
        kind,
        wanted,
        float(given.get("points", 1)),
        tuple(one.lower() for one in given.get("accept", [])),
        tuple({key: str(one) for key, one in mistake.items()} for mistake in mistakes),
    )


def _check_words(accept: Sequence[str], mistakes: Sequence[Any], wrong: Callable[[str, str], FileError]) -> None:
    """Refuse words that say nothing, or that are both right and a mistake."""
    right = [bare(one) for one in accept]
    for key, texts in (("accept", accept), ("mistakes", [str(one["value"]) for one in mistakes])):
        for text in texts:
            if not bare(text):
                raise wrong(key, f"a word must say something, but {text[:40]!r} is only what stands beside one")
            if key == "mistakes" and bare(text) in right:
                raise wrong(key, f"a word is right or a mistake, but {text[:40]!r} is both")


def _check_numbers(wanted: Property | None, mistakes: Sequence[Any], wrong: Callable[[str, str], FileError]) -> None:
    """Refuse known mistakes whose number cannot be worked out."""
    assert wanted is not None  # noqa: S101  a number has a property
    for mistake in mistakes:
        try:
            value(expression(str(mistake["value"]), wanted.world, SCALAR), wanted.world.draw(0).values)
        except Unreadable as error:
            raise wrong("mistakes", f"the mistake {_shown(mistake['value'])} cannot be read: {error.problem}") from None


def _rule(key: str, given: Any) -> str:  # noqa: ANN401  likewise
    """Say what a value must be, if it is not."""
    match key:
        case "points" if not (math.isfinite(given) and given >= 0):
            return "a number of at least 0"
        case "tolerance" if not (math.isfinite(given) and given > 0):
            return "a number above 0"
        case "row" if given not in _ROWS:
            return "1, 2 or 3"
        case "targets" if not given or not all(
            str(row) in map(str, _ROWS) and isinstance(one, str) for row, one in given.items()
        ):
            return "a table of expressions by position, 1, 2 or 3"
        case "give" | "keys" if len(set(given)) < len(given):
            return "a list of different names"
        case "give" if not all(_is_name(one) for one in given):
            return "a list of names, such as q or q_1"
        case "keys" if not all(one.isascii() and (one.isdecimal() or (one.isalpha() and len(one) == 1)) for one in given):
            return "a list of letters or numbers, which are indices"
        case "keys" if len(given) > _MOST_KEYS:
            return f"a list of at most {_MOST_KEYS} names"
        case "drawn" if given not in ("orthonormal", "independent"):
            return "orthonormal or independent"
        case "n" if not given or not all(isinstance(one, int) and 3 <= one <= _LARGEST for one in given):
            return f"a list of whole numbers from 3 to {_LARGEST}"
        case "width" if not 1 <= given <= _LARGEST:
            return f"a whole number from 1 to {_LARGEST}"
        case "names" if not all(isinstance(one, (int, float)) and math.isfinite(one) for one in given.values()):
            return "a table of numbers by name"
    return ""


def _is_name(given: str) -> bool:
    """Say whether something can be given by this name: letters, perhaps with an index."""
    name, line, index = given.partition("_")
    return given.isascii() and name.isalpha() and (index.isalnum() or not line)


def _shown(given: Any) -> str:  # noqa: ANN401  likewise
    """Return a value as TOML would write it, if it is short."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str):
        return f'"{given[:40]}"'
    if isinstance(given, list):
        return f"[{', '.join(_shown(one) for one in given[:6])}]"
    if isinstance(given, dict):
        return f"{{ {', '.join(f'{key} = {_shown(one)}' for key, one in list(given.items())[:4])} }}"
    return "missing" if given is None else str(given)


def _line(text: str, part: str, key: str) -> int:
    """Return the line of a key in the table of a part, or of its head."""
    inside, head = False, 1
    for place, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            inside = bare.startswith("[part.") and bare.strip("[]").removeprefix("part.").strip("\"' ") == part
            head = place if inside else head
        elif (inside or not part) and key and bare.split("=")[0].strip() == key:
            return place
    return head
