"""`headwise stress`: the law of the output on files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwise.cli.frame import PLACE, check_no_input, json_option, print_json, print_shown, progress_bar
from headwise.errors import FileError, OptionError

if TYPE_CHECKING:
    from headwise.core.random_keys import RandomKeys
    from headwise.shown import Shown
    from headwise.stress import Estimate, Law


@click.command()
@click.option("--queries", required=True, metavar=PLACE, help="One query (d), or one per head (h, d).")
@click.option("--means", required=True, metavar=PLACE, help="Means of the keys (k, d).")
@click.option("--values", required=True, metavar=PLACE, help="Values (k, v).")
@click.option("--isotropic", type=float, default=0.0, show_default=True, help="Variance of every coordinate of every key.")
@click.option("--diagonal", metavar=PLACE, help="Variances of the coordinates, (d) or (k, d).")
@click.option("--along-mean", multiple=True, metavar="ROW=TAU", help="Variance of one key's length, relative to its mean.")
@click.option("--target", metavar=PLACE, help="The output wanted (v): also tells the mean squared error.")
@click.option("--remedies", "with_remedies", is_flag=True, help="Compare what would help; needs --target.")
@click.option("--curve", "curve_file", metavar="FILE.svg", help="Draw the error against the scale; needs --target.")
@click.option("--cloud", "cloud_file", metavar="FILE.svg", help="Draw outputs and their ellipses, as is and with two heads.")
@click.option("--method", default="auto", show_default=True, help="auto, laplace, pairs, hybrid, montecarlo or delta.")
@click.option("--tolerance", type=float, default=1e-3, show_default=True, help="Relative error of the covariance.")
@click.option("--seed", type=int, default=0, show_default=True, help="For what is sampled.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.npy", help="Write the covariance to a file.")
@json_option
def stress(queries: str, means: str, values: str, **options: Any) -> None:  # noqa: ANN401  click passes the options
    """Ask whether attention holds when keys are noisy: mean and covariance of the output.

    \b
    Example:
      headwise stress --queries q.npy --means k.npy --values v.npy --isotropic 1e-3 --along-mean 0=0.5
    """
    from headwise.files import read_array, write_array  # noqa: PLC0415
    from headwise.stress import curve, law, remedies  # noqa: PLC0415

    _check_options([queries, means, values], options)
    read: dict[str, Any] = {"queries": read_array(queries), "random_keys": _keys(means, options), "values": read_array(values)}
    target = None if options["target"] is None else read_array(options["target"]).reshape(-1)
    shared: dict[str, Any] = {"tolerance": options["tolerance"], "seed": options["seed"]}
    with progress_bar() as tick:
        shared["progress"] = tick
        found = law(**read, method=options["method"], **shared)
        error = None if target is None else found.mean_squared_error(target)
        helped = remedies(**read, target=target, **shared) if options["with_remedies"] else None
        drawn = curve(**read, target=target, **shared) if options["curve_file"] else None
    if options["out"] is not None:
        write_array(options["out"], found.covariance)
    if drawn is not None:
        from headwise.study.curves import error_picture  # noqa: PLC0415
        from headwise.study.figures import save  # noqa: PLC0415

        save(error_picture(drawn), Path(options["curve_file"]))
    if options["cloud_file"] is not None:
        _draw_clouds(found, read["values"], target, shared, Path(options["cloud_file"]))
    for out in _outputs(options):
        click.echo(f"wrote {out}", err=True)
    _print([part for part in (found, helped, drawn) if part is not None], error, as_json=options["as_json"])
    if found.interrupted:
        raise SystemExit(130)


def _draw_clouds(found: "Law", values: Any, target: Any, shared: dict[str, Any], path: Path) -> None:  # noqa: ANN401
    """Draw the outputs as they are beside those of two heads that share the keys, or of one head that reads them all."""
    from headwise.stress import law  # noqa: PLC0415
    from headwise.stress.remedies import keys_read, split  # noqa: PLC0415
    from headwise.study.clouds import cloud_picture  # noqa: PLC0415
    from headwise.study.figures import save  # noqa: PLC0415

    if found.scores.given.shape[1] < 2:
        raise OptionError("", "--cloud needs values of at least two coordinates, but v=1")
    keys, heads = keys_read(found), found.scores.heads
    other = law(split(found, keys, 2 if heads == 1 else 1), found.scores.keys, values, **shared)
    names = ("as is, one head", "two heads") if heads == 1 else (f"as is, {heads} heads", "one head")
    save(cloud_picture(dict(zip(names, (found, other), strict=True)), values, keys.tolist(), target), path)


def _outputs(options: dict[str, Any]) -> list[str | Path]:
    """Return the files that are to be written."""
    return [options[name] for name in ("out", "curve_file", "cloud_file") if options[name] is not None]


def _check_options(places: list[str], options: dict[str, Any]) -> None:
    """Refuse what cannot be done or written before anything is computed."""
    if (options["with_remedies"] or options["curve_file"]) and options["target"] is None:
        raise OptionError("", "--remedies and --curve need --target, but it is missing")
    inputs = [place for place in (*places, options["target"], options["diagonal"]) if place is not None]
    for out in _outputs(options):
        check_no_input(Path(out), inputs)
        if not Path(out).resolve().parent.is_dir():
            raise FileError("", f"{out}: the folder must exist, but there is none")
    for name in ("curve", "cloud"):
        given = options[f"{name}_file"]
        if given is not None and Path(given).suffix != ".svg":
            raise OptionError("", f"--{name} must end in .svg, but got {given!r}")


def _keys(means: str, options: dict[str, Any]) -> "RandomKeys":
    """Read the law of the keys."""
    from headwise.core.random_keys import RandomKeys  # noqa: PLC0415
    from headwise.files import read_array  # noqa: PLC0415

    lengths: dict[int, float] = {}
    for given in options["along_mean"]:
        row, equals, tau = given.partition("=")
        twice = False
        try:
            twice = int(row) in lengths
            lengths[int(row)] = float(tau)
        except ValueError:
            equals = ""
        if twice:
            raise OptionError("", f"--along-mean must name a key once, but {row} comes twice")
        if not equals:
            raise OptionError("", f"--along-mean must be ROW=TAU, but got {given!r}", "Write for example 0=0.5.")
    diagonal = None if options["diagonal"] is None else read_array(options["diagonal"])
    if diagonal is not None and 1 in diagonal.shape:
        diagonal = diagonal.reshape(-1)
    return RandomKeys(read_array(means), isotropic=options["isotropic"], diagonal=diagonal, along_mean=lengths or None)


def _print(parts: "list[Shown]", error: "Estimate | None", *, as_json: bool) -> None:
    if as_json:
        data = parts[0].to_dict() | ({} if error is None else {"mean_squared_error": error.to_dict()})
        print_json(data | {part.to_dict()["kind"]: part.to_dict() for part in parts[1:]})
        return
    for part in parts:
        print_shown(part)
    if error is not None:
        click.echo(f"mean squared error from the target: {error}")
