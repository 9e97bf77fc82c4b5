"""The command line: parse, call, print. Data goes to stdout, everything else to stderr.

Nothing heavy is imported here; each command loads what it needs when it runs.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.errors import HeadwiseError, OptionError
from headwise.version import __version__

if TYPE_CHECKING:
    import numpy as np

    from headwise.core.masks import Mask
    from headwise.shown import Shown

_PLACE = "FILE[:NAME]"


class Sentences(click.Group):
    """A group whose mistakes come out as one sentence after `error:`, a `hint:` if there is one, and exit status 2."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:  # noqa: ANN401  click's signature
        """Run a command and end the process with its status."""
        try:
            super().main(args, prog_name="headwise", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
        except HeadwiseError as error:
            _complain(error.problem, error.step)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            step = f"Try: {context.command_path} --help" if context else ""
            _complain(error.format_message(), step)
        except click.exceptions.Exit as exit_:
            sys.exit(exit_.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo("stopped", err=True)
            sys.exit(130)
        except BrokenPipeError:
            # The reader has gone; give Python nothing more to flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            _complain(f"{error.filename or 'output'}: {error.strerror or error}.", "")
        sys.exit(0)


def _complain(problem: str, step: str) -> None:
    click.echo(f"error: {problem}", err=True)
    if step:
        click.echo(f"hint: {step}", err=True)
    sys.exit(2)


def _print_shown(result: "Shown") -> None:
    """Print a result for a person: a drawn table in a terminal, plain text into a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        Console().print(result)
    else:
        click.echo(str(result))


def _print_json(data: dict[str, Any]) -> None:
    """Print a result for a program."""
    from headwise.shown import as_json  # noqa: PLC0415

    click.echo(as_json(data))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Answers about softmax attention, with evidence.

    \b
    Example:
      headwise attend --queries q.npy --keys k.npy --values v.csv
    """


@main.command()
@click.option("--queries", required=True, metavar=_PLACE, help="One query (d) or several (q, d).")
@click.option("--keys", required=True, metavar=_PLACE, help="Keys (k, d); a large .npy file is read block by block.")
@click.option("--values", required=True, metavar=_PLACE, help="Values (k, v).")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Factor on every score.")
@click.option(
    "--allowed", metavar=_PLACE, help="Table (q, k) of 1 and 0, or of true and false: which query may look at which key."
)
@click.option("--causal", type=click.Choice(["end", "start"]), help="Let no query look ahead; which ends meet.")
@click.option("--empty", default="error", show_default=True, help='"zero": a query with no allowed key reads zeros.')
@click.option("--leak", metavar="ROWS", help="Also tell the weight outside these keys, for example 0,3.")
@click.option("--weights", is_flag=True, help="With --json, also print scores and weights.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.npy", help="Write the contexts to a file.")
@json_option
def attend(queries: str, keys: str, values: str, **options: Any) -> None:  # noqa: ANN401  click passes the options
    """Read from values by softmax attention: scores, weights, contexts.

    Files are .npy, .npz, .csv, .json or .safetensors; FILE:NAME picks one of several arrays in a file.

    \b
    Example:
      headwise attend --queries q.npy --keys run.npz:keys --values v.csv --leak 0,1
    """
    from headwise import attend as attend_  # noqa: PLC0415
    from headwise.files import read_array, write_array  # noqa: PLC0415

    if options["weights"] and not options["as_json"]:
        raise OptionError("", "--weights goes with --json, but --json is missing")
    arrays = [read_array(place) for place in (queries, keys, values)]
    mask = _mask(options["allowed"], options["causal"], arrays)
    result = attend_(*arrays, scale=options["scale"], allowed=mask, empty=options["empty"])
    leaks = {}
    if options["leak"] is not None:
        rows = _whole_numbers("--leak", options["leak"])
        leaks = {"leak": result.leak(rows), "log_leak": result.log_leak(rows)}
    if options["out"] is not None:
        _check_no_input(options["out"], (queries, keys, values))
        write_array(options["out"], result.contexts)
    if options["as_json"]:
        _print_json({**result.to_dict(weights=options["weights"]), **leaks})
        return
    _print_shown(result)
    for name, found in leaks.items():
        click.echo(f"{name.replace('_', ' ')} outside {options['leak']}: {_few(found)}")


def _check_no_input(out: Path, places: Sequence[str]) -> None:
    """Refuse to write over what was read."""
    for place in places:
        if out.exists() and any(Path(name).exists() and out.samefile(name) for name in (place, place.rpartition(":")[0])):
            raise OptionError("", f"--out must be a new file, but {out} is one of the inputs")


def _mask(allowed: str | None, align: str | None, arrays: "Sequence[np.ndarray]") -> "Mask | np.ndarray | None":
    """Build the mask that --allowed and --causal ask for."""
    from headwise import causal  # noqa: PLC0415
    from headwise.files import read_mask  # noqa: PLC0415

    table = None if allowed is None else read_mask(allowed)
    if align is None:
        return table
    queries = arrays[0].shape[-2] if arrays[0].ndim > 1 else 1
    mask = causal(queries, arrays[1].shape[-2] if arrays[1].ndim > 1 else 1, align=align)
    return mask if table is None else mask & table


def _whole_numbers(option: str, given: str) -> list[int]:
    try:
        return [int(part) for part in given.split(",") if part.strip()]
    except ValueError:
        raise OptionError("", f"{option} must be rows with commas between them, but got {given!r}") from None


def _few(found: "np.ndarray") -> str:
    """Write the first few numbers."""
    from headwise.shown import MOST_ROWS, number  # noqa: PLC0415

    flat = found.reshape(-1)
    return " ".join(number(value) for value in flat[:MOST_ROWS]) + (" ..." if flat.size > MOST_ROWS else "")


@main.command()
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
        _print_json(result.to_dict())
    else:
        _print_shown(result)
    for path in result.pictures:
        click.echo(f"wrote {path}", err=True)
