"""What all commands share: how mistakes come out, how results are printed, how files are named."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.errors import HeadwiseError, OptionError

if TYPE_CHECKING:
    from headwise.shown import Shown

PLACE = "FILE[:NAME]"


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


def print_shown(result: "Shown") -> None:
    """Print a result for a person: a drawn table in a terminal, plain text into a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console  # noqa: PLC0415

        Console().print(result)
    else:
        click.echo(str(result))


def print_json(data: dict[str, Any]) -> None:
    """Print a result for a program."""
    from headwise.shown import as_json  # noqa: PLC0415

    click.echo(as_json(data))


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Give a function (done, total, stage) that draws a bar on stderr, if that is a terminal; the bar goes when done."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def tick(done: int, total: int, stage: str) -> None:
            if bar.tasks[0].description != stage:
                bar.reset(task, description=stage)
            bar.update(task, completed=done, total=total)

        yield tick


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def check_no_input(out: Path, places: Sequence[str]) -> None:
    """Refuse to write over what was read."""
    for place in places:
        if out.exists() and any(Path(name).exists() and out.samefile(name) for name in (place, place.rpartition(":")[0])):
            raise OptionError("", f"--out must be a new file, but {out} is one of the inputs")


def whole_numbers(option: str, given: str) -> list[int]:
    """Read rows that stand with commas between them."""
    try:
        return [int(part) for part in given.split(",") if part.strip()]
    except ValueError:
        raise OptionError("", f"{option} must be rows with commas between them, but got {given!r}") from None
