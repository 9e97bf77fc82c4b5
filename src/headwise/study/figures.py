"""Pictures drawn as SVG; the only place that imports matplotlib, and only on use.

Colours belong to roles, the same on every picture: a blue, b orange, the rest light grey; one head red, two heads green. What
has none of these roles is drawn in ink. What colour says, hatches, markers or dashes say too, so that a grey print can be read.
"""

import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.files import replacing
from headwise.study.pictures import Bars, Cloud, Heat, Hull, Lines, Panel, Picture, Ranks, Scores

INK, GREY, FAINT, PALE = "#1f2933", "#7b8794", "#d9dee5", "#f3f5f8"
A, B, REST = "#1f4e79", "#e07b39", "#c3ccd6"
ONE, TWO = "#b0413e", "#2f8f74"
# Colour, dashes, marker and width of each role; "three" and "four" are for what else there is to tell apart.
_STYLES: dict[str, dict[str, Any]] = {
    "one": {"color": ONE, "linewidth": 2, "linestyle": "-"},
    "two": {"color": TWO, "linewidth": 2, "linestyle": (0, (5, 1.5))},
    "three": {"color": "#6a4c93", "linewidth": 2, "linestyle": (0, (3, 1, 1, 1))},
    "four": {"color": "#8a6d1d", "linewidth": 2, "linestyle": (0, (1, 1))},
    "bound": {"color": INK, "linewidth": 1.2, "linestyle": (0, (2, 2))},
    "formula": {"color": GREY, "linewidth": 2, "linestyle": "-"},
    "computed": {"color": INK, "linestyle": "", "marker": "o", "markersize": 5},
    "rest": {"color": REST},
}
# Thin lines beside those of the same role.
_FAINT = {"one": (0, (1, 1.5)), "two": (0, (6, 2, 1, 2)), "three": (0, (8, 3)), "four": (0, (1, 4))}
_LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 9}
_BELOW = _LEGEND | {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "columnspacing": 1, "ncols": 2}
_HEIGHT, _WIDTH, _ALONE = 3.3, 9.2, 5.2


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
        # A pixel is a point, as in the file: lengths measured here hold there.
        yield Figure(figsize=(width, height), dpi=72, layout="constrained")


def svg(picture: Picture) -> bytes:
    """Draw a picture, its panels side by side, and return it as an SVG file."""
    shares = picture.widths or [1.0] * len(picture.panels)
    with _figure(_WIDTH if len(shares) > 1 else _ALONE, _height(picture)) as drawn:
        places = np.atleast_1d(drawn.subplots(1, len(shares), width_ratios=shares))
        for place, (axes, panel) in enumerate(zip(places, picture.panels, strict=True)):
            _draw(panel, axes)
            if isinstance(panel, Bars) and place and isinstance(picture.panels[place - 1], Bars):
                axes.set(yticklabels=[], ylabel="")
        if picture.caption:
            drawn.supxlabel(picture.caption, fontsize=10)
        return _finished(drawn, zip(places, picture.panels, strict=True), picture.alt)


def panels(picture: Picture) -> list[bytes]:
    """Draw every panel as an SVG file of its own, for pages that put them side by side or below each other."""
    shares = picture.widths or [1.0] * len(picture.panels)
    files = []
    for share, panel in zip(shares, picture.panels, strict=True):
        with _figure(_WIDTH * share / sum(shares) if len(shares) > 1 else _ALONE, _height(picture)) as drawn:
            axes = drawn.subplots()
            _draw(panel, axes)
            files.append(_finished(drawn, [(axes, panel)], picture.alt))
    return files


def _height(picture: Picture) -> float:
    tall = any(isinstance(panel, (Cloud, Hull)) for panel in picture.panels)
    return (4.4 if len(picture.panels) < 3 else 3.9) if tall else _HEIGHT


def _finished(drawn: Any, parts: Iterable[tuple[Any, Panel]], title: str) -> bytes:  # noqa: ANN401
    """Write labels where nothing else is, now that everything has its place, and return the file."""
    drawn.draw_without_rendering()
    for axes, panel in parts:
        if isinstance(panel, Lines):
            _label_marks(axes, panel)
        if isinstance(panel, Hull):
            _label_keys(axes, panel)
        if isinstance(panel, Cloud):
            _label_landmarks(axes, panel)
    stream = io.BytesIO()
    drawn.savefig(stream, format="svg", metadata={"Date": None, "Title": title})
    return stream.getvalue()


def save(picture: Picture, path: Path) -> Path:
    """Draw a picture into a file, and return the file."""
    drawn = svg(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(drawn)
    return path


def _draw(panel: Panel, axes: Any) -> None:  # noqa: ANN401
    axes.set_title(panel.title)
    _fill(panel, axes)


@singledispatch
def _fill(panel: object, axes: Any) -> None:  # noqa: ANN401  matplotlib is not imported here
    raise TypeError(type(panel), axes)


def _bars(axes: Any, heights: Sequence[float], labels: Sequence[str], marked: Sequence[int]) -> None:  # noqa: ANN401
    """Draw one bar per key; a and b by colour and hatch."""
    drawn = axes.bar(range(len(heights)), heights, color=REST, width=0.8)
    for row, colour, hatch in zip(marked, (A, B), ("", "///"), strict=False):
        drawn[row].set(facecolor=colour, hatch=hatch)
    axes.set(xticks=range(len(labels)), xticklabels=labels)


@_fill.register
def _(panel: Bars, axes: Any) -> None:  # noqa: ANN401
    _bars(axes, panel.heights, panel.labels, panel.marked)
    if panel.level is not None:
        axes.axhline(panel.level, color=INK, linewidth=0.8, linestyle=":")
    axes.set(ylim=(0, panel.highest), ylabel="weight")


@_fill.register
def _(panel: Scores, axes: Any) -> None:  # noqa: ANN401
    _bars(axes, panel.heights, panel.labels, (0, 1))
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set(ylabel="score")


@_fill.register
def _(panel: Lines, axes: Any) -> None:  # noqa: ANN401
    for line in panel.lines:
        axes.plot(line.x, line.y, label=line.name, **_style(line.style))
    for mark in panel.marks:
        axes.plot(mark.x, mark.y, "o", color=_style(mark.style)["color"], markersize=7, markeredgecolor="white", zorder=5)
    axes.set(xlabel=panel.across, ylabel=panel.up)
    axes.set(**{f"{axis}scale": "log" for axis in panel.logs})
    axes.grid(color=FAINT, linewidth=0.6)
    axes.margins(y=0.12)
    axes.legend(**_LEGEND)


def _label_marks(axes: Any, panel: Lines) -> None:  # noqa: ANN401
    """Write what is said of marks, clear of all lines."""
    taken = [_dense(axes.transData.transform(np.stack([line.x, line.y], axis=1))) for line in panel.lines]
    for mark in panel.marks:
        _write(axes, mark.text, (mark.x, mark.y), taken)


def _style(role: str) -> dict[str, Any]:
    name, _, faint = role.partition(" ")
    return _STYLES[name] | ({"linewidth": 1.1, "linestyle": _FAINT[name]} if faint else {})


@_fill.register
def _(panel: Cloud, axes: Any) -> None:  # noqa: ANN401
    colour = _style(panel.style)["color"]
    axes.plot(*panel.points.T, "o", color=colour, markersize=5, alpha=0.2, markeredgewidth=0, zorder=3)
    axes.plot([], [], "o", color=colour, markersize=5, label="outputs")
    values, vectors = np.linalg.eigh(panel.covariance)
    turn = np.linspace(0, 2 * np.pi, 100)
    circle = np.sqrt(np.maximum(values, 0))[:, None] * np.stack([np.cos(turn), np.sin(turn)])
    axes.plot(*(vectors @ circle + np.asarray(panel.mean)[:, None]), color=INK, linewidth=1.4, label="one deviation")
    axes.plot(*panel.mean, "x", color=INK, markersize=8, markeredgewidth=2, zorder=4, label="mean")
    if panel.wanted is not None:
        axes.plot(*panel.wanted, "*", color="white", markeredgecolor=INK, markersize=12, zorder=5, label="wanted")
    axes.set(xlabel=panel.axes[0], ylabel=panel.axes[1], aspect="equal")
    if panel.window is None:
        axes.set(xlim=(-0.12, 1.12), ylim=(-0.12, 1.12), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    else:
        axes.set(xlim=panel.window[0], ylim=panel.window[1])
    for mark in panel.landmarks:
        axes.plot(mark.x, mark.y, "s", color="white", markeredgecolor=INK, markersize=6, zorder=4)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(**_BELOW, borderaxespad=4.2)


@_fill.register
def _(panel: Hull, axes: Any) -> None:  # noqa: ANN401
    inside = np.asarray(panel.possible)
    corners = panel.keys[inside] if inside.any() else panel.keys
    turn = np.argsort(np.arctan2(*(corners - corners.mean(axis=0)).T[::-1]))
    axes.fill(*corners[turn].T, facecolor=PALE, edgecolor=FAINT, linewidth=1.2)
    if panel.query is not None:
        _winner(axes, panel)
    for corner, weight in zip(panel.corners, panel.weights, strict=True):
        axes.plot(*panel.keys[[panel.row, corner]].T, color=GREY, linewidth=0.8 + 5 * weight, alpha=0.6, solid_capstyle="round")
    for vertex, marker, colour, name in ((True, "o", INK, "can be copied"), (False, "X", GREY, "can not")):
        axes.plot(*panel.keys[inside == vertex].T, marker, color=colour, markersize=8, markeredgecolor="white", label=name)
    axes.legend(**_BELOW, borderaxespad=0.3)
    axes.margins(0.15)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _won(panel: Hull) -> tuple[Float[np.ndarray, "2 2"], ...]:
    """Return, from end to end, the arrow of the query, the margin that a key wins by, and the line where the others end."""
    key, way = panel.keys[panel.row], np.asarray(panel.query)
    size = float(np.ptp(panel.keys, axis=0).max())
    foot = key - way * (float(key @ way) - float((np.delete(panel.keys, panel.row, axis=0) @ way).max()))
    along = 0.35 * size * np.array([-way[1], way[0]])
    arrow = np.stack([key + 0.03 * size * way, key + 0.25 * size * way])
    return arrow, np.stack([foot, key]), np.stack([foot - along, foot + along])


def _label_keys(axes: Any, panel: Hull) -> None:  # noqa: ANN401
    """Name the keys and the query, clear of each other and of what is drawn."""
    to_pixels = axes.transData.transform
    taken = [to_pixels(panel.keys)]
    taken += [_dense(to_pixels(panel.keys[[panel.row, corner]])) for corner in panel.corners]
    if panel.query is not None:
        taken += [_dense(to_pixels(path)) for path in _won(panel)]
        _write(axes, "$q$", _won(panel)[0][1], taken)
    for row, key in enumerate(panel.keys):
        _write(axes, f"$k_{{{row}}}$", key, taken)


def _label_landmarks(axes: Any, panel: Cloud) -> None:  # noqa: ANN401
    """Name the landmarks of a plane, clear of each other and of the outputs."""
    taken = [axes.transData.transform(panel.points)]
    for mark in panel.landmarks:
        _write(axes, mark.name, (mark.x, mark.y), taken)


def _dense(path: Float[np.ndarray, "n 2"], step: float = 4.0) -> Float[np.ndarray, "m 2"]:
    """Return points all along a path."""
    parts = [path[:1]]
    for start, end in itertools.pairwise(path):
        count = min(200, max(1, math.ceil(float(np.linalg.norm(end - start)) / step)))
        parts.append(start + (end - start) * np.linspace(0, 1, count + 1)[1:, None])
    return np.concatenate(parts)


def _write(axes: Any, text: str, at: Sequence[float] | Float[np.ndarray, "2"], taken: list[Float[np.ndarray, "_ 2"]]) -> None:  # noqa: ANN401
    """Write beside a point where there is most room, and remember that the place is taken; lengths are in pixels."""
    label = axes.annotate(text, at, xytext=(0, 0), textcoords="offset pixels", ha="center", va="center", fontsize=9, zorder=6)
    half = np.array(label.get_window_extent().size) / 2
    centre, box = axes.transData.transform(at), axes.get_window_extent()
    points = np.concatenate([*taken, _covered(axes.get_legend())])
    best, most = np.zeros(2), -np.inf
    for far, angle in itertools.product((5.0, 8.0, 14.0, 22.0), np.arange(16) * np.pi / 8):
        offset = np.array([np.cos(angle), np.sin(angle)]) * (far + half)
        middle = centre + offset
        room = float(np.hypot(*np.maximum(np.abs(points - middle) - half, 0).T).min())
        out = float(np.maximum(np.abs(middle - (box.min + box.max) / 2) + half - box.size / 2, 0).sum())
        if (score := 3 * min(room, 4.0) - 0.3 * far - 3 * out) > most:
            best, most = offset, score
    label.set_position(tuple(best))
    corners = half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    taken.append(_dense(centre + best + corners))


def _covered(legend: Any) -> Float[np.ndarray, "n 2"]:  # noqa: ANN401
    """Return points all over a legend, if there is one."""
    if legend is None:
        return np.empty((0, 2))
    frame = legend.get_window_extent()
    columns, rows = np.meshgrid(np.arange(frame.x0, frame.x1, 8), np.arange(frame.y0, frame.y1, 8))
    return np.stack([columns, rows], axis=-1).reshape(-1, 2)


def _winner(axes: Any, panel: Hull) -> None:  # noqa: ANN401
    """Draw the query that a key wins under, and the distance that is its margin."""
    arrow, margin, edge = _won(panel)
    axes.plot(*edge.T, color=INK, linewidth=0.9, linestyle=":")
    axes.plot(*margin.T, color=INK, linewidth=2.4)
    axes.annotate("", arrow[1], arrow[0], arrowprops={"arrowstyle": "->", "color": INK})
    axes.update_datalim(arrow[1:])


@_fill.register
def _(panel: Heat, axes: Any) -> None:  # noqa: ANN401
    axes.imshow(np.abs(panel.matrix), cmap="Greys", vmin=0, vmax=1.25 * panel.largest, aspect="auto")
    small = panel.matrix.size <= 12
    for (row, column), value in np.ndenumerate(panel.matrix) if small else ():
        dark = abs(value) > 0.6 * panel.largest
        said = "0" if abs(value) < 1e-6 else f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.0e}"
        axes.text(column, row, said, ha="center", va="center", color="white" if dark else INK, fontsize=10)
    axes.set(xticks=range(len(panel.columns)), xticklabels=panel.columns, yticks=range(len(panel.rows)), yticklabels=panel.rows)
    axes.set(xlabel=panel.across, ylabel=panel.up)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


@_fill.register
def _(panel: Ranks, axes: Any) -> None:  # noqa: ANN401
    places = range(len(panel.names))
    styles = panel.styles or ["rest"] * len(panel.names)
    axes.barh(places, panel.lengths, color=[_style(style)["color"] for style in styles], height=0.7)
    for place, length in zip(places, panel.lengths, strict=True):
        axes.annotate(f" {length:.3g}", (length, place), va="center", fontsize=9)
    axes.set(yticks=places, yticklabels=panel.names, xlabel=panel.across, xscale="log")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlim(10 ** math.floor(math.log10(min(panel.lengths) / 1.5)), 2.2 * max(panel.lengths))
    axes.invert_yaxis()
