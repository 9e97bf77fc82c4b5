"""`headwise design`: one subcommand per question."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.cli.frame import PLACE, check_no_input, json_option, print_json, print_shown, progress_bar, whole_numbers
from headwise.errors import OptionError, SubspaceError

if TYPE_CHECKING:
    import numpy as np

    from headwise.shown import Shown

keys_option = click.option("--keys", required=True, metavar=PLACE, help="Keys (k, d).")
values_option = click.option("--values", metavar=PLACE, help="Values (k, v), to bound the error of the output.")
leak_option = click.option("--leak", type=float, default=1e-3, show_default=True, help="Weight that may go elsewhere.")
heads_option = click.option("--heads", type=int, default=1, show_default=True, help="Heads to split the set over.")
seconds_option = click.option("--seconds", type=float, default=20.0, show_default=True, help="Limit for exact arithmetic.")


def out_option(what: str) -> Callable[..., Any]:
    """Return the option that writes the result of a design to a file."""
    return click.option("--out", type=click.Path(path_type=Path), metavar="FILE.npy", help=f"Write {what} to a file.")


@click.group(no_args_is_help=True)
def design() -> None:
    """Ask whether a head can attend like this: a query with a bound on its error, or a proof that none exists.

    \b
    Example:
      headwise design copy --keys k.npy --index 3 --leak 1e-6
    """


@design.command()
@keys_option
@click.option("--index", type=int, required=True, help="Row of the key whose value is to be copied.")
@values_option
@leak_option
@heads_option
@seconds_option
@out_option("the queries")
@json_option
def copy(keys: str, index: int, values: str | None, **options: Any) -> None:  # noqa: ANN401  click passes the options
    """Find the query that reads one value and nothing else.

    \b
    Example:
      headwise design copy --keys k.npy --values v.npy --index 3 --leak 1e-6 --out query.npy
    """
    from headwise.design import copy as copy_  # noqa: PLC0415

    places = {"keys": keys, "values": values}
    found = copy_(**_read(places), index=index, **_chosen(options, "leak", "heads", "seconds"))
    _finish(found, found.queries, options, places)


@design.command()
@keys_option
@click.option("--indices", required=True, metavar="ROWS", help="Rows of the set, for example 0,3,5.")
@values_option
@leak_option
@heads_option
@seconds_option
@out_option("the queries")
@json_option
def average(keys: str, indices: str, values: str | None, **options: Any) -> None:  # noqa: ANN401
    """Find the query that reads the mean of a set of values.

    \b
    Example:
      headwise design average --keys k.npy --indices 0,1 --leak 1e-3
    """
    from headwise.design import average as average_  # noqa: PLC0415

    places = {"keys": keys, "values": values}
    rows = whole_numbers("--indices", indices)
    found = average_(**_read(places), indices=rows, **_chosen(options, "leak", "heads", "seconds"))
    _finish(found, found.queries, options, places)


@design.command()
@keys_option
@click.option("--target", required=True, metavar=PLACE, help="Weights (k), of sum 1.")
@click.option("--within", type=float, default=1e-9, show_default=True, help="Divergence that counts as reached, in nats.")
@click.option("--leak", type=float, default=1e-6, show_default=True, help="Weight left where the target has none.")
@seconds_option
@out_option("the query")
@json_option
def weights(keys: str, target: str, **options: Any) -> None:  # noqa: ANN401
    """Find the query whose weights are closest to given ones.

    \b
    Example:
      headwise design weights --keys k.npy --target w.csv
    """
    from headwise.design import weights as weights_  # noqa: PLC0415

    places = {"keys": keys, "target": target}
    read = _read(places)
    found = weights_(read["keys"], _flat(read["target"]), **_chosen(options, "within", "leak", "seconds"))
    _finish(found, found.queries, options, places)


@design.command()
@keys_option
@click.option("--values", required=True, metavar=PLACE, help="Values (k, v).")
@click.option("--target", required=True, metavar=PLACE, help="The output wanted (v).")
@click.option("--within", type=float, default=1e-6, show_default=True, help="Relative distance that counts as reached.")
@seconds_option
@out_option("the query")
@json_option
def context(keys: str, values: str, target: str, **options: Any) -> None:  # noqa: ANN401
    """Find the query whose output is a given vector.

    \b
    Example:
      headwise design context --keys k.npy --values v.npy --target t.csv
    """
    from headwise.design import context as context_  # noqa: PLC0415

    places = {"keys": keys, "values": values, "target": target}
    read = _read(places)
    found = context_(read["keys"], read["values"], _flat(read["target"]), **_chosen(options, "within", "seconds"))
    _finish(found, found.queries, options, places)


@design.command()
@keys_option
@click.option(
    "--distance",
    type=click.Choice(["auto", "exact", "bound"]),
    default="auto",
    show_default=True,
    help="Distances from the hull of the other keys: exact, or lower bounds; auto is exact up to 2000 keys.",
)
@seconds_option
@click.option("--workers", type=int, default=2, show_default=True, help="Threads or processes.")
@out_option("rows of verdict (1 possible, -1 impossible, 0 undecided), distance and its error")
@json_option
def copyable(keys: str, **options: Any) -> None:  # noqa: ANN401
    """Find out of every key whether some query lets it win.

    Ctrl-C ends early and prints, or writes, what is decided so far.

    \b
    Example:
      headwise design copyable --keys k.npy
    """
    from headwise.design import copyable as copyable_  # noqa: PLC0415

    places = {"keys": keys}
    with progress_bar() as tick:
        found = copyable_(**_read(places), **_chosen(options, "distance", "seconds", "workers"), progress=tick)
    _finish(found, found.table, options, places)
    if found.reason == "interrupted":
        sys.exit(130)


@design.command()
@click.option("--basis", required=True, metavar=PLACE, help="Vectors (m, d) that span the subspace to take out.")
@click.option("--against", metavar=PLACE, help="Vectors (p, d) that span the other summand's subspace.")
@click.option("--total", metavar=PLACE, help="Sums (d) or (n, d) to take the part out of.")
@out_option("the matrix")
@json_option
def extract(basis: str, against: str | None, total: str | None, **options: Any) -> None:  # noqa: ANN401
    """Find the matrix that takes one vector back out of a sum.

    \b
    Example:
      headwise design extract --basis a.npy --against b.npy --out m.npy
    """
    from headwise.design import extractor  # noqa: PLC0415
    from headwise.shown import as_json  # noqa: PLC0415

    places = {"basis": basis, "against": against, "total": total}
    read = _read(places)
    try:
        found = extractor(read["basis"], read.get("against"))
    except SubspaceError as error:
        click.echo(f"witness: {as_json({'vector': error.witness})}", err=True)
        raise
    extra = {"extracted": found.extract(_flat(read["total"])).tolist()} if "total" in read else {}
    _finish(found, found.matrix, options, places, extra)


@design.command()
@click.option("--tokens", required=True, metavar=PLACE, help="Tokens (n, d).")
@click.option("--reads", metavar="JSON", help="""Where positions look: '{"1": 0}' or '{"1": {"0": 0.5, "2": 0.5}}'.""")
@click.option("--targets", metavar="JSON", help="What positions get: '{\"1\": [0, 1, 0]}'.")
@leak_option
@seconds_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.safetensors", help="Write the matrices to a file.")
@json_option
def layer(tokens: str, reads: str | None, targets: str | None, **options: Any) -> None:  # noqa: ANN401
    """Find K, Q and V of one self-attention layer.

    \b
    Example:
      headwise design layer --tokens x.npy --reads '{"0": 2, "1": 0}' --out layer.safetensors
    """
    from headwise.design import layer as layer_  # noqa: PLC0415

    given: dict[str, Any] = {"reads": _by_row("--reads", reads), "targets": _by_row("--targets", targets)}
    found = layer_(**_read({"tokens": tokens}), **given, **_chosen(options, "leak", "seconds"))
    _print(found, as_json=options["as_json"])
    if options["out"] is not None:
        check_no_input(options["out"], [tokens])
        _check_result(found.key)
        found.save(options["out"])


def _read(places: Mapping[str, str | None]) -> dict[str, Any]:
    """Read the files that were named."""
    from headwise.files import read_array  # noqa: PLC0415

    return {name: read_array(place) for name, place in places.items() if place is not None}


def _chosen(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names}


def _flat(array: "np.ndarray") -> "np.ndarray":
    """Read one row or one column, which is what a CSV file holds, as a vector."""
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _by_row(option: str, given: str | None) -> dict[int, Any] | None:
    """Read a JSON object whose keys are whole numbers, and those of its inner objects too."""
    if given is None:
        return None
    try:
        table = json.loads(given)
        return {
            int(i): {int(j): weight for j, weight in read.items()} if isinstance(read, dict) else read
            for i, read in table.items()
        }
    except (ValueError, AttributeError):
        example = '{"1": 0}' if option == "--reads" else '{"1": [0, 1, 0]}'
        raise OptionError(
            "", f"{option} must be a JSON object from positions, but got {given!r}", f"Write for example {example}."
        ) from None


def _finish(
    found: "Shown",
    array: "np.ndarray | None",
    options: dict[str, Any],
    places: Mapping[str, str | None],
    extra: dict[str, Any] | None = None,
) -> None:
    """Write the file that was asked for and print the result."""
    from headwise.files import write_array  # noqa: PLC0415

    if options["out"] is not None:
        check_no_input(options["out"], [place for place in places.values() if place is not None])
    _print(found, as_json=options["as_json"], extra=extra)
    if options["out"] is not None:
        write_array(options["out"], _check_result(array))


def _check_result(array: "np.ndarray | None") -> "np.ndarray":
    if array is None:
        raise OptionError("", "--out needs a result to write, but there is none", "See the verdict.")
    return array


def _print(found: "Shown", *, as_json: bool, extra: dict[str, Any] | None = None) -> None:
    if as_json:
        print_json({**found.to_dict(), **(extra or {})})
        return
    print_shown(found)
    for name, value in (extra or {}).items():
        click.echo(f"{name}: {json.dumps(value)}")
