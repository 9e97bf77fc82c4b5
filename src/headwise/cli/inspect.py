"""`headwise inspect`: what the heads of a model do on a text."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.cli.frame import check_no_input, json_option, print_json, print_shown, progress_bar, whole_numbers
from headwise.errors import FileError, HeadwiseError, OptionError

if TYPE_CHECKING:
    from headwise.inspect.report import HeadReport

# The words that are shown where the demo reads its own sentence.
_DEMO_TIE = ("it", "animal")


@click.command()
@click.argument("model")
@click.option("--text", "texts", multiple=True, metavar="FILE", help="A text file, or - for stdin; may be given several times.")
@click.option("--layers", metavar="ROWS", help="Layers to look at, with commas between; all of them if left out.")
@click.option("--window", type=int, help="Slide over longer texts, that many tokens at a time.")
@click.option("--batch", type=int, default=8, show_default=True, help="How many texts run at once.")
@click.option("--device", help="Where to run: cpu, cuda, cuda:1.")
@click.option("--ties", metavar="WORD:WORD", help="Which heads tie the first word to the second; for a short text.")
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE.html", help="Write a page with pictures.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE.csv", help="Write a line per head: .csv, .parquet, .json."
)
@click.option("--trust-remote-code", is_flag=True, help="Let the model folder run code of its own.")
@json_option
def inspect(model: str, texts: tuple[str, ...], **options: Any) -> None:  # noqa: ANN401  click passes the options
    """Ask what each head of a model does on your text: copy, average, sit on the first token, and how firmly.

    MODEL is a folder, a name on the hub, or demo: a small sentence model that comes with the extra "demo" and reads a sentence
    of its own if no text is given. The map of attention is never built, so long texts are no trouble. Ctrl-C prints the layers
    done.

    \b
    Example:
      headwise inspect demo
      headwise inspect ./my-model --text book.txt --window 512 --html heads.html
    """
    from headwise.inspect.loading import DEMO, DEMO_TEXT  # noqa: PLC0415
    from headwise.inspect.model import model as inspect_model  # noqa: PLC0415

    if not texts and model != DEMO:
        raise OptionError("", "a text is needed, but --text is missing", "Write --text FILE, or --text - to read from stdin.")
    read = [_read(name) for name in texts] or [DEMO_TEXT]
    for out, ending in ((options["page"], (".html",)), (options["out"], (".csv", ".parquet", ".json"))):
        _check_out(out, ending, texts)
    pair = _pair(options["ties"])
    layers = None if options["layers"] is None else whole_numbers("--layers", options["layers"])
    with progress_bar() as tick:
        shared = {name: options[name] for name in ("window", "batch", "device", "trust_remote_code")}
        report = inspect_model(model, read, layers=layers, progress=tick, **shared)
    # What took long is kept before anything can go wrong.
    for path in (options["page"], options["out"]):
        if path is not None:
            click.echo(f"wrote {report.save(path)}", err=True)
    fault = _print(report, pair or (None if texts else _DEMO_TIE), as_json=options["as_json"])
    if fault is not None and pair is not None:
        raise fault
    if fault is not None:
        click.echo(f"note: ties of {':'.join(_DEMO_TIE)} are left out: {fault.problem}", err=True)
    if not report.complete:
        raise SystemExit(130)


def _read(name: str) -> str:
    """Return the text of a file."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError("", f"{name}: a text must be UTF-8, but this file is not") from None
    except OSError as error:
        raise FileError("", f"{name}: the text must be readable, but it says: {error.strerror}") from None


def _check_out(path: Path | None, endings: tuple[str, ...], texts: tuple[str, ...]) -> None:
    if path is None:
        return
    from headwise.inspect.writing import check_ready  # noqa: PLC0415

    if path.suffix not in endings:
        option = "--html" if ".html" in endings else "--out"
        raise OptionError("", f"{option} must end in {' or '.join(endings)}, but got {str(path)!r}")
    check_ready(path)
    if not path.resolve().parent.is_dir():
        raise FileError("", f"{path}: the folder must exist, but there is none")
    check_no_input(path, texts)


def _pair(given: str | None) -> tuple[str, str] | None:
    """Return the two words of --ties."""
    if given is None:
        return None
    query, _, key = given.partition(":")
    if not (query and key):
        raise OptionError(
            "", f"--ties must be two words with a colon between, but got {given!r}", "Write for example it:animal."
        )
    return query, key


def _print(report: "HeadReport", pair: tuple[str, str] | None, *, as_json: bool) -> HeadwiseError | None:
    """Print a report and the ties of two words; return why there are no ties, if they were asked for."""
    tied = fault = None
    try:
        tied = None if pair is None else report.ties(*pair)
    except HeadwiseError as error:
        fault = error
    if as_json:
        print_json(report.to_dict() | ({} if tied is None else {"ties": tied.to_dict()}))
        return fault
    print_shown(report)
    if tied is not None:
        click.echo()
        print_shown(tied)
    return fault
