"""`headwise check`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.cli.frame import json_option, print_json, print_shown, progress_bar
from headwise.errors import FileError, OptionError

if TYPE_CHECKING:
    from headwise.check import Marks

_FORMATS = ("text", "json", "html", "gradescope")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("given", required=False)
@click.option("--part", help="Mark GIVEN as the answer to this part; otherwise GIVEN is a hand-in or a folder of them.")
@click.option("--sheet", default="attention", show_default=True, help="The sheet: attention, or a TOML file.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="For a hand-in.")
@click.option("--out", type=click.Path(path_type=Path), help="A file for the output; for a folder of hand-ins, a folder.")
@click.option("--list", "listed", is_flag=True, help="List the parts of the sheet.")
@json_option
def check(given: str | None, part: str | None, sheet: str, *, listed: bool, **options: Any) -> None:  # noqa: ANN401
    """Mark written answers by what they do: right, right with a remark, wrong with a counterexample, or cannot be read.

    Answers are plain text, Unicode or LaTeX; nothing in them is run. A hand-in is a TOML, JSON or Markdown file with an answer
    per part. A folder of hand-ins gives a gradebook and a page of feedback each, and goes on where it was if stopped.

    \b
    Example:
      headwise check --part b.ii "q = beta (k_a + k_b), beta large"
      headwise check my-answers.md --format html --out feedback.html
      headwise check handins/ --out marks/
    """
    from headwise.check import answer, folder, load  # noqa: PLC0415

    if listed:
        for name, one in load(sheet).problems.items():
            click.echo(f"{name:<14} {one.title}")
        return
    if given is None:
        raise OptionError("", "GIVEN must be an answer (with --part), a hand-in or a folder, but it is missing")
    form = "json" if options["as_json"] else options["form"]
    if part is not None:
        if form in ("html", "gradescope") or options["out"] is not None:
            raise OptionError("", "--part prints a verdict, but --format html, --format gradescope and --out are for hand-ins")
        verdict = answer(part, given, sheet=sheet)
        if form == "json":
            print_json(verdict.to_dict())
        else:
            print_shown(verdict)
    elif Path(given).is_dir():
        if form in ("html", "gradescope"):
            raise OptionError("", f"--format {form} is for one hand-in, but {given} is a folder")
        with progress_bar() as tick:
            found = folder(given, options["out"] or f"{Path(given)}-marks", sheet=sheet, progress=tick)
        if form == "json":
            print_json(found.to_dict())
        else:
            print_shown(found)
    else:
        _marked_file(given, sheet, form, options["out"])


def _marked(given: str, sheet: str, form: str) -> "Marks":
    """Mark a hand-in; for an autograder, which must always say something, one that cannot be read has no points."""
    from headwise.check import Marks, answers, load  # noqa: PLC0415

    problems = load(sheet)
    try:
        return answers(given, sheet=problems)
    except FileError as error:
        if form != "gradescope":
            raise
        return Marks(Path(given).name, problems, {}, [error.problem])


def _marked_file(given: str, sheet: str, form: str, out: Path | None) -> None:
    """Mark one hand-in, and print or write its marks."""
    if out is not None and out.resolve() == Path(given).resolve():
        raise OptionError("", f"--out must be another file than the hand-in, but both are {given}")
    _hand_in(_marked(given, sheet, form), form, out)


def _hand_in(marks: "Marks", form: str, out: Path | None) -> None:
    """Print or write the marks of one hand-in."""
    from headwise.check.feedback import page  # noqa: PLC0415
    from headwise.files import replacing  # noqa: PLC0415
    from headwise.shown import as_json  # noqa: PLC0415

    if form == "text" and out is None:
        print_shown(marks)
        return
    made = {
        "text": lambda: str(marks),
        "json": lambda: as_json(marks.to_dict()),
        "html": lambda: page(marks),
        "gradescope": lambda: as_json(marks.to_gradescope()),
    }[form]()
    if out is None:
        click.echo(made)
        return
    with replacing(out) as stream:
        stream.write(made.encode())
    click.echo(f"wrote {out}", err=True)
