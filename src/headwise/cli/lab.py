"""`headwise lab`."""

from pathlib import Path

import click

from headwise.cli.frame import json_option, print_json


@click.command()
@click.option("--port", type=int, default=0, help="The port; a free one if not given.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--export", "out", type=click.Path(path_type=Path), help="Write the lab as one offline .html file instead.")
@json_option
def lab(port: int, out: Path | None, *, no_browser: bool, as_json: bool) -> None:
    """Open a live page: move a query among keys, turn up the noise, edit K, Q and V, type an answer.

    The page is served on this machine only, until Ctrl-C. Its state is in its address.

    \b
    Example:
      headwise lab
      headwise lab --port 8000 --no-browser
      headwise lab --export lab.html
    """
    from headwise.lab import export, serve  # noqa: PLC0415

    if out is not None:
        written = export(out)
        click.echo(f"wrote {written}", err=True)
        if as_json:
            print_json({"written": str(written)})
        return
    serve(
        port=port,
        browser=not no_browser,
        say=lambda line: click.echo(line, err=True),
        at=lambda address: print_json({"address": address}) if as_json else None,
    )
