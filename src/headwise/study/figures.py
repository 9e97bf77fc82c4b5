"""Pictures drawn as SVG; the only place that imports matplotlib, and only on use.

Colours belong to roles, the same on every picture: a dark, b middle, the rest light; one head red, two heads green. What
colour says, hatches, markers or dashes say too, so that a grey print can be read.
"""

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from headwise.files import replacing
from headwise.study.pictures import Bars, Cloud, Heat, Hull, Lines, Picture, Ranks, Scores

INK, FAINT, PALE = "#1f2933", "#d9dee5", "#f3f5f8"
A, B, REST = "#1f4e79", "#e07b39", "#c3ccd6"
ONE, TWO = "#b0413e", "#2f8f74"
# Colour, dashes, marker and width of each role; more roles than these are drawn in turn.
_STYLES: dict[str, dict[str, Any]] = {
    "one": {"color": ONE, "linewidth": 2},
    "two": {"color": TWO, "linewidth": 2, "linestyle": (0, (5, 1.5))},
    "three": {"color": "#6a4c93", "linewidth": 2, "linestyle": (0, (3, 1, 1, 1))},
    "four": {"color": "#8a6d1d", "linewidth": 2, "linestyle": (0, (1, 1))},
    "bound": {"color": INK, "linewidth": 1.2, "linestyle": (0, (2, 2))},
    "formula": {"color": "#7b8794", "linewidth": 2},
    "computed": {"color": A, "linestyle": "", "marker": "o", "markersize": 5},
}
_HEIGHT, _WIDTH = 3.3, 9.6
_LABEL = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}


@contextmanager
def _figure(width: float, height: float) -> Iterator[Any]:
    """Give an empty figure in the house style."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style = {
        **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.edgecolor": FAINT,
        "hatch.linewidth": 0.6,
        "hatch.color": "#ffffff",
        "svg.hashsalt": "headwise",
    }
    with mpl.rc_context(style):
        yield Figure(figsize=(width, height), layout="constrained")


def svg(picture: Picture) -> bytes:
    """Draw a picture and return it as an SVG file."""
    count = len(picture.panels)
    tall = any(isinstance(panel, (Cloud, Hull)) for panel in picture.panels)
    width = _WIDTH if count > 1 else 6.4
    with _figure(width, 4.0 if tall and count < 3 else _HEIGHT + 0.2 * tall) as drawn:
        ratios = picture.widths or [1.0] * count
        for place, (axes, panel) in enumerate(
            zip(np.atleast_1d(drawn.subplots(1, count, width_ratios=ratios)), picture.panels, strict=True)
        ):
            axes.set_title(panel.title)
            _draw(panel, axes)
            if isinstance(panel, Bars) and place and isinstance(picture.panels[place - 1], Bars):
                axes.set(yticklabels=[], ylabel="")
            if isinstance(panel, Cloud) and any(isinstance(other, Cloud) for other in picture.panels[place + 1 :]):
                axes.get_legend().remove()
        if picture.caption:
            drawn.supxlabel(picture.caption, fontsize=10)
        stream = io.BytesIO()
        drawn.savefig(stream, format="svg", metadata={"Date": None, "Title": picture.alt})
        return stream.getvalue()


def save(picture: Picture, path: Path) -> Path:
    """Draw a picture into a file, and return the file."""
    drawn = svg(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(drawn)
    return path


@singledispatch
def _draw(panel: object, axes: Any) -> None:  # noqa: ANN401  matplotlib is not imported here
    raise TypeError(type(panel), axes)


def _bars(axes: Any, heights: Sequence[float], labels: Sequence[str], marked: Sequence[int]) -> None:  # noqa: ANN401
    """Draw one bar per key; a and b by colour and hatch."""
    drawn = axes.bar(range(len(heights)), heights, color=REST, width=0.8)
    for row, colour, hatch in zip(marked, (A, B), ("", "///"), strict=False):
        drawn[row].set(facecolor=colour, hatch=hatch)
    axes.set(xticks=range(len(labels)), xticklabels=labels)


@_draw.register
def _(panel: Bars, axes: Any) -> None:  # noqa: ANN401
    _bars(axes, panel.heights, panel.labels, panel.marked)
    if panel.level is not None:
        axes.axhline(panel.level, color=INK, linewidth=0.8, linestyle=":")
    axes.set(ylim=(0, panel.highest), ylabel="weight")


@_draw.register
def _(panel: Scores, axes: Any) -> None:  # noqa: ANN401
    _bars(axes, panel.heights, panel.labels, (0, 1))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(ylabel="score")


@_draw.register
def _(panel: Lines, axes: Any) -> None:  # noqa: ANN401
    for line in panel.lines:
        axes.plot(line.x, line.y, label=line.name, **_style(line.style))
    for mark in panel.marks:
        colour = _style(mark.style)["color"]
        axes.plot(mark.x, mark.y, "o", color=colour, markersize=7, markeredgecolor="white", zorder=5)
        where = {"xytext": (0, 10), "ha": "center"} if mark.above else {"xytext": (8, 9)}
        axes.annotate(mark.text, (mark.x, mark.y), textcoords="offset points", fontsize=9, bbox=_LABEL, **where)
    axes.set(xlabel=panel.across, ylabel=panel.up)
    axes.set(**{f"{axis}scale": "log" for axis in panel.logs})
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(frameon=False, fontsize=8)


def _style(role: str) -> dict[str, Any]:
    name, _, faint = role.partition(" ")
    style = dict(_STYLES[name])
    return style | {"linewidth": 1.1, "alpha": 0.75, "linestyle": ":"} if faint else style


@_draw.register
def _(panel: Cloud, axes: Any) -> None:  # noqa: ANN401
    axes.plot(*panel.points.T, "o", color=A, markersize=5, alpha=0.2, markeredgewidth=0, zorder=3)
    axes.plot([], [], "o", color=A, markersize=5, label="outputs")
    values, vectors = np.linalg.eigh(panel.covariance)
    turn = np.linspace(0, 2 * np.pi, 100)
    circle = np.sqrt(np.maximum(values, 0))[:, None] * np.stack([np.cos(turn), np.sin(turn)])
    axes.plot(*(vectors @ circle + np.asarray(panel.mean)[:, None]), color=ONE, linewidth=1.6, label="one standard deviation")
    axes.plot(*panel.mean, "x", color=ONE, markersize=8, markeredgewidth=2, zorder=4, label="mean")
    axes.plot(*panel.wanted, "*", color=INK, markersize=11, zorder=4, label="wanted")
    axes.set(xlabel=r"share of $v_a$", ylabel=r"share of $v_b$", aspect="equal")
    axes.set(xlim=(-0.12, 1.12), ylim=(-0.12, 1.12), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(frameon=False, fontsize=8, loc="best")


@_draw.register
def _(panel: Hull, axes: Any) -> None:  # noqa: ANN401
    inside = np.asarray(panel.possible)
    corners = panel.keys[inside] if inside.any() else panel.keys
    centre = corners.mean(axis=0)
    turn = np.argsort(np.arctan2(*(corners - centre).T[::-1]))
    axes.fill(*corners[turn].T, facecolor=PALE, edgecolor=FAINT, linewidth=1.2)
    if panel.query is not None:
        _winner(axes, panel)
    for corner, weight in zip(panel.corners, panel.weights, strict=True):
        axes.plot(*panel.keys[[panel.row, corner]].T, color=B, linewidth=0.8 + 5 * weight, alpha=0.6, solid_capstyle="round")
    for row, (x, y) in enumerate(panel.keys):
        vertex = bool(panel.possible[row])
        axes.plot(x, y, "o" if vertex else "X", color=A if vertex else B, markersize=8 if vertex else 9, zorder=4)
        away = panel.keys[row] - centre
        length = float(np.linalg.norm(away)) or 1.0
        axes.annotate(
            f"$k_{{{row}}}$", (x, y), xytext=13 * away / length, textcoords="offset points", ha="center", va="center", zorder=5
        )
    for vertex, name in ((True, "can be copied"), (False, "can not")):
        axes.plot([], [], "o" if vertex else "X", color=A if vertex else B, markersize=7, label=name)
    axes.legend(frameon=False, fontsize=8, loc="best")
    axes.margins(0.18)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _winner(axes: Any, panel: Hull) -> None:  # noqa: ANN401
    """Draw the query that a key wins under, and the distance that is its margin."""
    key, way = panel.keys[panel.row], np.asarray(panel.query)
    level = float((np.delete(panel.keys, panel.row, axis=0) @ way).max())
    foot = key - way * (float(key @ way) - level)
    along = np.array([-way[1], way[0]])
    size = float(np.ptp(panel.keys, axis=0).max())
    axes.plot(*np.stack([foot - 0.35 * size * along, foot + 0.35 * size * along]).T, color=INK, linewidth=0.9, linestyle=":")
    axes.plot(*np.stack([foot, key]).T, color=A, linewidth=2.4)
    axes.annotate("", key + 0.3 * size * way, key + 0.02 * size * way, arrowprops={"arrowstyle": "->", "color": INK})
    axes.annotate("q", key + 0.33 * size * way, ha="center", va="center")


@_draw.register
def _(panel: Heat, axes: Any) -> None:  # noqa: ANN401
    axes.imshow(np.abs(panel.matrix), cmap="Greys", vmin=0, vmax=1.25 * panel.largest, aspect="auto")
    small = panel.matrix.size <= 12
    for (row, column), value in np.ndenumerate(panel.matrix) if small else ():
        dark = abs(value) > 0.6 * panel.largest
        said = "0" if abs(value) < 1e-6 else f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.0e}"
        axes.text(column, row, said, ha="center", va="center", color="white" if dark else INK, fontsize=10)
    axes.set(xticks=range(len(panel.columns)), xticklabels=panel.columns, yticks=range(len(panel.rows)), yticklabels=panel.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


@_draw.register
def _(panel: Ranks, axes: Any) -> None:  # noqa: ANN401
    places = range(len(panel.names))
    axes.barh(places, panel.lengths, color=[TWO, *[REST] * (len(panel.names) - 1)], height=0.7)
    for place, length in zip(places, panel.lengths, strict=True):
        axes.annotate(f" {length:.3g}", (length, place), va="center", fontsize=9)
    axes.set(yticks=places, yticklabels=panel.names, xlabel=panel.across, xscale="log")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlim(10 ** math.floor(math.log10(min(panel.lengths) / 1.5)), 2.2 * max(panel.lengths))
    axes.invert_yaxis()
