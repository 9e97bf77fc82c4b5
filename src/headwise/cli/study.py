"""`headwise study`."""

from pathlib import Path

import click

from headwise.cli.frame import json_option, print_json, print_shown


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default="study-out", show_default=True, help="Folder for pictures.")
@json_option
def study(out: Path, *, as_json: bool) -> None:
    """Work through the attention exercise: what is claimed, what was found, how far apart.

    So far the parts on weights, copying, averaging and plain self-attention; the parts on noise and on key, query and
    value matrices are to come. The picture needs matplotlib and is left out without it.

    \b
    Example:
      headwise study --out my-study
    """
    from headwise.study import run  # noqa: PLC0415

    result = run(out=out)
    if as_json:
        print_json(result.to_dict())
    else:
        print_shown(result)
    for path in result.pictures:
        click.echo(f"wrote {path}", err=True)
