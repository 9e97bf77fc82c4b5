"""`headwise attend`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.cli.frame import PLACE, check_no_input, json_option, print_json, print_shown, whole_numbers
from headwise.errors import OptionError

if TYPE_CHECKING:
    import numpy as np

    from headwise.core.masks import Mask


@click.command()
@click.option("--queries", required=True, metavar=PLACE, help="One query (d) or several (q, d).")
@click.option("--keys", required=True, metavar=PLACE, help="Keys (k, d); a large .npy file is read block by block.")
@click.option("--values", required=True, metavar=PLACE, help="Values (k, v).")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Factor on every score.")
@click.option(
    "--allowed", metavar=PLACE, help="Table (q, k) of 1 and 0, or of true and false: which query may look at which key."
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
        rows = whole_numbers("--leak", options["leak"])
        leaks = {"leak": result.leak(rows), "log_leak": result.log_leak(rows)}
    if options["out"] is not None:
        check_no_input(options["out"], (queries, keys, values))
        write_array(options["out"], result.contexts)
    if options["as_json"]:
        print_json({**result.to_dict(weights=options["weights"]), **leaks})
        return
    print_shown(result)
    for name, found in leaks.items():
        click.echo(f"{name.replace('_', ' ')} outside {options['leak']}: {_few(found)}")


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


def _few(found: "np.ndarray") -> str:
    """Write the first few numbers."""
    from headwise.shown import MOST_ROWS, number  # noqa: PLC0415

    flat = found.reshape(-1)
    return " ".join(number(value) for value in flat[:MOST_ROWS]) + (" ..." if flat.size > MOST_ROWS else "")
