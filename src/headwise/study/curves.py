"""Errors against the scale, as a picture."""

from headwise.stress import Curve
from headwise.study.pictures import Line, Lines, Mark, Picture

_STYLES = ("one", "two", "three", "four")


def error_lines(found: Curve) -> Lines:
    """Show mean squared errors and variances against the scale, each least error marked."""
    lines, marks = [], []
    for place, (name, one) in enumerate(found.series.items()):
        style = _STYLES[place % len(_STYLES)]
        lines.append(Line(f"{name}: mean squared error", found.scales.tolist(), one.errors.tolist(), style))
        lines.append(Line(f"{name}: variance", found.scales.tolist(), one.variances.tolist(), f"{style} faint"))
        if one.best.valley:
            marks.append(Mark(f"{one.best_error:.3g} at {one.best_scale:.3g}", one.best_scale, one.best_error, style))
    return Lines("error against scale", "scale of the queries", "squared error, variance", lines, marks, "xy")


def error_picture(found: Curve) -> Picture:
    """Show curves as a picture of their own."""
    least = ", ".join(f"{name} at {one.best_scale:.3g}" for name, one in found.series.items())
    return Picture(
        "curve",
        f"Mean squared error and variance against the scale of the queries; least error: {least}.",
        [error_lines(found)],
    )
