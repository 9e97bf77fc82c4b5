"""Pictures of the study and the manual; the only place that imports matplotlib, and only on use."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from headwise.core.attend import attend
from headwise.core.orthonormal import orthonormal
from headwise.design import copy, copyable
from headwise.files import replacing
from headwise.study.parts import KEYS, leak_of_pair

INK, PAIR, REST, FAINT, CALM = "#1f2933", "#d1495b", "#8d99ae", "#d9dee5", "#2a7f9e"
_SCALES = (1.0, 4.0, 9.0)


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """Give an empty figure in the house style, and write it as SVG when done."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    style = {
        **dict.fromkeys(("axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
        **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
        "font.size": 10,
        "axes.edgecolor": FAINT,
        "svg.hashsalt": "headwise",
    }
    with mpl.rc_context(style):
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            drawn.savefig(stream, format="svg", metadata={"Date": None})


def averaging(folder: Path) -> Path:
    """Draw why averaging two values needs a long query, and return the file."""
    keys = orthonormal(KEYS, 16)
    pair = keys[0] + keys[1]
    path = folder / "averaging.svg"
    with figure(path, 9.6, 3.1) as drawn:
        *bars, curve = drawn.subplots(1, len(_SCALES) + 1, width_ratios=[1] * len(_SCALES) + [1.7])
        for axes, beta in zip(bars, _SCALES, strict=True):
            weights = attend(beta * pair, keys, keys).weights
            axes.bar(range(KEYS), weights, color=[PAIR] * 2 + [REST] * (KEYS - 2), width=0.8)
            axes.axhline(0.5, color=INK, linewidth=0.8, linestyle=":")
            axes.set(ylim=(0, 0.55), xticks=[0, 1], xticklabels=["a", "b"], title=rf"$\beta$ = {beta:g}")
            if axes is not bars[0]:
                axes.set_yticklabels([])
        bars[0].set_ylabel("weight")
        drawn.supxlabel(r"ten orthonormal keys, query $q = \beta\,(k_a + k_b)$", fontsize=10)
        grid = np.linspace(0, 16, 200)
        curve.semilogy(grid, [leak_of_pair(beta) for beta in grid], color=REST, linewidth=2, label="formula")
        found = [float(attend(beta * pair, keys, keys).leak([0, 1])) for beta in range(0, 17, 2)]
        curve.semilogy(range(0, 17, 2), found, "o", color=PAIR, markersize=5, label="computed")
        curve.set(title=r"weight outside $\{a, b\}$", xlabel=r"$\beta$", xlim=(-0.4, 16.4), xticks=range(0, 17, 4))
        curve.grid(color=FAINT, linewidth=0.6)
        curve.legend(frameon=False)
    return path


# The keys of the hull picture: five vertices and three keys inside.
HULL_KEYS = np.array([[-2.0, -1.0], [1.6, -1.6], [2.6, 0.9], [0.2, 2.2], [-1.9, 1.2], [0.7, 0.3], [-0.6, 0.7], [0.3, -0.9]])
_LABELS = {2: (4, -15), 5: (-6, 9)}


def hull(folder: Path) -> Path:
    """Draw a key that can be copied beside one that cannot, each with its proof, and return the file."""
    verdicts = copyable(HULL_KEYS)
    path = folder / "hull.svg"
    with figure(path, 9.6, 3.9) as drawn:
        drawn.get_layout_engine().set(rect=(0, 0, 1, 0.97))
        left, right = drawn.subplots(1, 2)
        for axes in (left, right):
            ring = HULL_KEYS[[0, 1, 2, 3, 4]]
            axes.fill(*ring.T, facecolor="#f3f5f8", edgecolor=FAINT, linewidth=1.2)
            for row, (x, y) in enumerate(HULL_KEYS):
                vertex = bool(verdicts.possible[row])
                axes.plot(x, y, "o" if vertex else "X", color=CALM if vertex else PAIR, markersize=8 if vertex else 9)
                axes.annotate(f"$k_{row}$", (x, y), xytext=_LABELS.get(row, (7, 5)), textcoords="offset points")
            axes.set(aspect="equal", xlim=(-3.2, 4.6), ylim=(-2.0, 2.7), xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        _winner(left, 2)
        _blocked(right, 5)
        ends = [left.plot([], [], mark, color=colour, markersize=8)[0] for mark, colour in (("o", CALM), ("X", PAIR))]
        drawn.legend(ends, ["can be copied: a vertex", "can not"], loc="outside lower center", ncols=2, frameon=False)
    return path


def _winner(axes: Any, row: int) -> None:  # noqa: ANN401  matplotlib is not imported here
    """Draw the query that a key wins under, and the distance that is its margin."""
    found = copy(HULL_KEYS, row)
    way = np.asarray(found.query) / np.linalg.norm(np.asarray(found.query))
    others = np.delete(HULL_KEYS, row, axis=0)
    level = float((others @ way).max())
    foot = HULL_KEYS[row] - way * (float(HULL_KEYS[row] @ way) - level)
    along = np.array([-way[1], way[0]])
    axes.plot(*np.stack([foot - 1.9 * along, foot + 1.9 * along]).T, color=INK, linewidth=0.9, linestyle=":")
    axes.plot(*np.stack([foot, HULL_KEYS[row]]).T, color=CALM, linewidth=2)
    axes.annotate("", HULL_KEYS[row] + 1.5 * way, HULL_KEYS[row] + 0.12 * way, arrowprops={"arrowstyle": "->", "color": INK})
    axes.annotate("q", HULL_KEYS[row] + 1.6 * way, ha="center", va="center")
    axes.set_title(f"$k_{row}$ wins: distance to the hull of the others\nis the margin, {found.margin:.3f} per unit of query")


def _blocked(axes: Any, row: int) -> None:  # noqa: ANN401
    """Draw the keys whose mixture a key is, with their weights."""
    proof = copy(HULL_KEYS, row).to_dict()["certificate"]
    corners, weights = proof["rows"], [float(Fraction(weight)) for weight in proof["weights"]]
    axes.fill(*HULL_KEYS[corners].T, facecolor=PAIR, alpha=0.12)
    for corner, weight in zip(corners, weights, strict=True):
        axes.plot(*HULL_KEYS[[row, corner]].T, color=PAIR, linewidth=0.6 + 5 * weight, alpha=0.55, solid_capstyle="round")
    terms = " + ".join(f"{weight:.2f} $k_{corner}$" for corner, weight in zip(corners, weights, strict=True))
    axes.set_title(f"$k_{row}$ never wins: it is the mixture\n{terms}")
