"""`headwise study`."""

from typing import Any

import click

from headwise.cli.frame import json_option, print_json, print_shown, progress_bar
from headwise.errors import OptionError


@click.command()
@click.option("--keys", type=int, default=10, show_default=True, help="How many keys.")
@click.option("--width", type=int, default=16, show_default=True, help="How wide they are.")
@click.option(
    "--scale", type=float, default=10.0, show_default=True, help="The factor beta of the queries in the parts on noise."
)
@click.option("--length-variance", type=float, default=0.5, show_default=True, help="Variance of the length of key a.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--parts", help="Some parts only, with commas between: a.ii,c.ii, or c for all of c.")
@click.option("--out", type=click.Path(), default="study-out", show_default=True, help="Folder for the report.")
@click.option("--notebook", is_flag=True, help="Write study.ipynb as well.")
@json_option
def study(parts: str | None, out: str, *, notebook: bool, as_json: bool, **sizes: Any) -> None:  # noqa: ANN401
    """Work through the attention exercise: what is claimed, what was found, with what error.

    Prints a row per part and writes study.html, a report with pictures that needs no network, and study.json. The report
    needs the extra "study" and is left out without it.

    \b
    Example:
      headwise study
      headwise study --keys 50 --width 64 --scale 20 --out my-study
      headwise study --parts c,d.ii --length-variance 0.2
    """
    from headwise.study import run  # noqa: PLC0415
    from headwise.study.report import missing  # noqa: PLC0415
    from headwise.study.run import chosen, made  # noqa: PLC0415
    from headwise.study.setting import checked  # noqa: PLC0415

    names = None if parts is None else [name.strip() for name in parts.split(",") if name.strip()]
    if not out:
        raise OptionError("", "--out must name a folder, but it is empty")
    try:
        checked(**sizes)
        chosen(names)
    except OptionError as error:
        raise _said_by_option(error) from None
    made(out)
    with progress_bar() as tick:
        result = run(parts=names, progress=tick, **sizes)
    written = result.write(out, notebook=notebook)
    if as_json:
        print_json(result.to_dict())
    else:
        print_shown(result)
    for path in written:
        click.echo(f"wrote {path}", err=True)
    if missing():
        click.echo(f'hint: for study.html, run: pip install "headwise[study]" (missing: {", ".join(missing())})', err=True)
    if not result.holds:
        raise SystemExit(1)


def _said_by_option(error: OptionError) -> OptionError:
    """Turn what the function says of a parameter into the same of an option."""
    name, _, rest = error.problem.removeprefix("run(): ").removesuffix(".").partition(" ")
    return OptionError("", f"--{name.replace('_', '-')} {rest}", error.step)
