"""How results show themselves: plain text, a rich table in a terminal, HTML in a notebook, plain data for programs.

A result describes itself once, as a `Summary` of strings; this file draws it. It knows nothing of attention.
"""

import html
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

from headwise.arrays import host

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

MOST_ROWS = 10


@dataclass(frozen=True)
class Summary:
    """A title, a table and some lines under it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())


class Shown(ABC):
    """A result that prints itself; `summary` and `to_dict` are the two things it must say."""

    @abstractmethod
    def summary(self) -> Summary:
        """Describe the result for a person."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: numbers, strings, lists and dictionaries."""

    def to_json(self) -> str:
        """Return `to_dict()` as one line of JSON; what JSON cannot say (infinity, NaN) becomes null."""
        return as_json(self.to_dict())

    def __str__(self) -> str:
        """Return the summary as plain text."""
        from rich.console import Console  # noqa: PLC0415  slow to load, and only needed to print

        page = io.StringIO()
        Console(file=page, width=160, color_system=None).print(self.__rich__())
        return "\n".join(line.rstrip() for line in page.getvalue().splitlines() if line.strip())

    def __rich__(self) -> "Group":
        """Let rich draw the summary."""
        from rich.console import Group  # noqa: PLC0415
        from rich.markup import escape  # noqa: PLC0415

        said = self.summary()
        tables = [_drawn(said)] if said.rows else []
        return Group(f"[bold]{escape(said.title)}[/bold]", *tables, *(f"[dim]{escape(note)}[/dim]" for note in said.notes))

    def _repr_html_(self) -> str:
        """Let a notebook draw the summary."""
        said = self.summary()
        names = "".join(f"<th>{html.escape(name)}</th>" for name in said.columns)
        head = f"<thead><tr>{names}</tr></thead>" if any(said.columns) else ""
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in said.rows)
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in said.notes)
        table = f"<table>{head}<tbody>{body}</tbody></table>" if said.rows else ""
        return f"<div><p><b>{html.escape(said.title)}</b></p>{table}{notes}</div>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401, FBT001  IPython's protocol
        """Let IPython print the summary in a terminal."""
        printer.text("..." if cycle else str(self))


def _drawn(said: Summary) -> "Table":
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=any(said.columns))
    for place, name in enumerate(said.columns):
        table.add_column(Text(name), justify="right" if all(_is_number(row[place]) for row in said.rows) else "left")
    for row in said.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def number(value: SupportsFloat, digits: int = 4) -> str:
    """Write a number for a table: four digits that count.

    >>> number(0.123456), number(1e-200), number(float("inf")), number(0.123456, 2)
    ('0.1235', '1e-200', 'inf', '0.12')
    """
    return f"{float(value):.{digits}g}"


def at_least(value: SupportsFloat) -> str:
    """Write a lower bound for a sentence: four digits, never rounded up.

    >>> at_least(2.00046), at_most(2.00044), at_least(0.0)
    ('2', '2.001', '0')
    """
    return _directed(value, ROUND_FLOOR)


def at_most(value: SupportsFloat, digits: int = 4) -> str:
    """Write an upper bound for a sentence: a few digits, never rounded down.

    >>> at_most(0.00012301, 2)
    '0.00013'
    """
    return _directed(value, ROUND_CEILING, digits)


def _directed(value: SupportsFloat, way: str, digits: int = 4) -> str:
    if not math.isfinite(float(value)):
        return number(value)
    return number(Context(prec=digits, rounding=way).create_decimal(Decimal(float(value))))


def as_json(data: Mapping[str, Any]) -> str:
    """Write plain data as one line of JSON.

    >>> as_json({"margin": float("inf")})
    '{"margin": null}'
    """
    return json.dumps(plain(data), allow_nan=False)


def plain(value: Any) -> Any:  # noqa: ANN401  data of any kind
    """Turn arrays into lists and infinities into None, so that JSON can say it.

    >>> import numpy as np
    >>> plain({"margin": np.array([1.0, np.inf])})
    {'margin': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None  # numpy's own numbers are of this kind too
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, np.floating):  # wider than Python's own float
        return plain(float(value))
    return plain(host(value).tolist())
