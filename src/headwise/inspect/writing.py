"""A report into a file: what the name ends in says which kind."""

import csv
import io
import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headwise.errors import FileError, MissingExtraError
from headwise.files import replacing
from headwise.shown import plain

if TYPE_CHECKING:
    from headwise.inspect.report import HeadReport


def write(report: "HeadReport", path: Path) -> Path:
    """Write a report; whoever looks sees the old file or the whole new one."""
    maker = _MAKERS.get(path.suffix)
    if maker is None:
        raise FileError("", f"{path}: a report must end in {', '.join(_MAKERS)}, but it ends in {path.suffix or 'nothing'}")
    check_ready(path)
    made = maker(report)
    with replacing(path) as stream:
        stream.write(made)
    return path


def _csv(report: "HeadReport") -> bytes:
    stream = io.StringIO(newline="")
    table = csv.DictWriter(stream, list(report.rows[0]))
    table.writeheader()
    table.writerows(report.rows)
    return stream.getvalue().encode()


def check_ready(path: Path) -> None:
    """Refuse a file that what is installed cannot write."""
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise MissingExtraError(
            "save",
            "a .parquet file needs pyarrow, but it is not installed",
            'Run: pip install "headwise[parquet]", or write .csv.',
        )


def _parquet(report: "HeadReport") -> bytes:
    table = import_module("pyarrow").Table.from_pylist(report.rows)
    stream = io.BytesIO()
    import_module("pyarrow.parquet").write_table(table, stream)
    return stream.getvalue()


def _json(report: "HeadReport") -> bytes:
    return json.dumps(plain(report.to_dict()), allow_nan=False).encode()


def _html(report: "HeadReport") -> bytes:
    from headwise.inspect.page import page  # noqa: PLC0415

    return page(report).encode()


def _svg(report: "HeadReport") -> bytes:
    return report.heat_map().encode()


_MAKERS: dict[str, Callable[["HeadReport"], bytes]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
    ".html": _html,
    ".svg": _svg,
}
