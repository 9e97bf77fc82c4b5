"""The Markdown of hand-ins: what stands under each heading, as plain text. Layout goes, everything that was written stays."""

import re
from collections.abc import Iterator, Sequence

from headwise.check.phrases import FILLERS, LARGE, LEADS, SMALL
from headwise.check.tokens import FUNCTIONS, GREEK, LONGEST

_FENCE = re.compile(r"\s*(?:```|~~~)")
_BLOCK = re.compile(
    r"^[ \t]*(?:```|~~~)[^\n]*\n(.*?)^[ \t]*(?:```|~~~)[ \t]*$|\$\$(.+?)\$\$|\\\[(.+?)\\\]", re.DOTALL | re.MULTILINE
)
_INLINE = re.compile(r"``?([^`]+)``?|\$((?:[^$\n]|\n(?!\s*\n))+)\$|\\\((.+?)\\\)", re.DOTALL)
# What begins a line and only says that it is one of a list, or quoted; a line that is nothing but a rule.
_LIST = re.compile(r"(?:>\s*)*(?:(?:[-*+•]|\(?(?:\d{1,2}|[a-z]|[ivx]{2,4})[.)])\s+)?")
_RULE = re.compile(r"\s*(?:[-*_]\s*){3,}")
_STARS = re.compile(r"(?<![\w)\]}'*])\*{1,2}(?=[^\s*])|(?<=[^\s*])\*{1,2}(?![\w(\[{*])")
_DEEPEST, _LONGEST_HEADING = 6, 200
# Where a formula was taken out of the text; signs that mean nothing, so that nobody writes them.
_OPEN, _CLOSE = "\ue000", "\ue001"
_FORMULA = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
# A line that ends with one of these goes on in the next.
_LEADING = (FILLERS | LEADS) - LARGE - SMALL


def sections(text: str) -> Iterator[tuple[Sequence[str], str]]:
    """Yield every heading, with those above it, and the text under it."""
    above: list[tuple[int, str]] = []
    body: list[str] = []
    fenced = False
    for line in _uncommented(text).splitlines():
        fenced ^= _FENCE.match(line) is not None
        level = 0 if fenced else _level(line)
        if not level:
            body.append(line)
            continue
        if above:
            yield [name for _, name in above], "\n".join(body)
        body = []
        above = [*(one for one in above if one[0] < level), (level, line.strip("# \t")[:_LONGEST_HEADING])]
    if above:
        yield [name for _, name in above], "\n".join(body)


def _uncommented(text: str) -> str:
    """Leave out what no reader of the page sees."""
    first, *others = text.split("<!--")
    return first + "".join(one.partition("-->")[2] if "-->" in one else f"<!--{one}" for one in others)


def _level(line: str) -> int:
    """Return the level of a heading; 0 for any other line."""
    level = len(line) - len(line.lstrip("#"))
    return level if level <= _DEEPEST and line[level : level + 1] in (" ", "\t") else 0


def plain(body: str) -> str:
    r"""Return text without the marks that say how it looks; every line that is a statement of its own stands alone.

    >>> plain("* $K = I$\n* **Q = 2 I**")
    'K = I\n\nQ = 2 I'
    >>> plain("2 $A A^T$\nwhere $A$ is the matrix")
    '2 A A^T where A is the matrix'
    """
    if len(body) > 2 * LONGEST:
        return body  # which is too long to be an answer
    formulas: list[str] = []

    def taken(found: re.Match[str]) -> str:
        said = next(piece for piece in found.groups() if piece is not None).strip()
        formulas.append(said if found[0].lstrip()[:3] in ("```", "~~~") else " ".join(said.split()))
        return f"{_OPEN}{len(formulas) - 1}{_CLOSE}"

    bare = body.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")
    bare = _INLINE.sub(taken, _BLOCK.sub(lambda found: f"\n\n{taken(found)}\n\n", bare))
    lines = _joined([_shorn(line) for line in bare.splitlines()])
    return _FORMULA.sub(lambda found: formulas[int(found[1])], "\n\n".join(lines))


def _shorn(line: str) -> str:
    """Take the marks of lists and of emphasis off a line; what is left empty ends a statement."""
    if _RULE.fullmatch(line):
        return ""
    found = _LIST.match(line.strip())
    rest = line.strip()[found.end() :] if found is not None else line.strip()
    item = "\n" * (found is not None and bool(found[0].strip()))  # begins a statement, whatever stands before
    return item + _STARS.sub("", rest.replace("\\_", "_").replace("\\*", "*").replace("__", "")).strip()


def _joined(lines: Sequence[str]) -> list[str]:
    """Bring together lines that only the width of the page took apart."""
    found: list[str] = []
    broken = True
    for line in lines:
        if line and not broken and not line.startswith("\n") and _goes_on(found[-1], line):
            found[-1] = f"{found[-1]} {line}"
        elif line.strip():
            found.append(line.strip())
        broken = not line.strip()
    return found


def _goes_on(before: str, line: str) -> bool:
    """Say whether a line goes on with the sentence before: it begins with a small word, or that ended with a word like is."""
    last = re.split(r"[^A-Za-z]", before[-20:])[-1].lower()
    leads = len(last) > 1 and last in _LEADING
    first = re.match(r"[a-z]{2,}(?![\w^(])", line)
    word = first is not None and first[0] not in GREEK and first[0] not in FUNCTIONS
    return leads or (word and not before.endswith((".", ":", ";", "!", "?")))
