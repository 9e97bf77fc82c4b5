"""Pictures of the study; the only place that imports matplotlib, and only on use."""

from pathlib import Path

import numpy as np

from headwise.core.attend import attend
from headwise.core.orthonormal import orthonormal
from headwise.files import replacing
from headwise.study.parts import KEYS, leak_of_pair

_INK, _PAIR, _REST, _FAINT = "#1f2933", "#d1495b", "#8d99ae", "#d9dee5"
_SCALES = (1.0, 4.0, 9.0)


def averaging(folder: Path) -> Path:
    """Draw why averaging two values needs a long query, and return the file."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    keys = orthonormal(KEYS, 16)
    pair = keys[0] + keys[1]
    style = {"font.size": 10, "axes.edgecolor": _FAINT, "axes.labelcolor": _INK, "text.color": _INK, "svg.hashsalt": "headwise"}
    with mpl.rc_context(
        {**style, "xtick.color": _INK, "ytick.color": _INK, "axes.spines.top": False, "axes.spines.right": False}
    ):
        figure = Figure(figsize=(9.6, 3.1), layout="constrained")
        *bars, curve = figure.subplots(1, len(_SCALES) + 1, width_ratios=[1] * len(_SCALES) + [1.7])
        for axes, beta in zip(bars, _SCALES, strict=True):
            weights = attend(beta * pair, keys, keys).weights
            axes.bar(range(KEYS), weights, color=[_PAIR] * 2 + [_REST] * (KEYS - 2), width=0.8)
            axes.axhline(0.5, color=_INK, linewidth=0.8, linestyle=":")
            axes.set(ylim=(0, 0.55), xticks=[0, 1], xticklabels=["a", "b"], title=rf"$\beta$ = {beta:g}")
            if axes is not bars[0]:
                axes.set_yticklabels([])
        bars[0].set_ylabel("weight")
        figure.supxlabel(r"ten orthonormal keys, query $q = \beta\,(k_a + k_b)$", fontsize=10)
        grid = np.linspace(0, 16, 200)
        curve.semilogy(grid, [leak_of_pair(beta) for beta in grid], color=_REST, linewidth=2, label="formula")
        found = [float(attend(beta * pair, keys, keys).leak([0, 1])) for beta in range(0, 17, 2)]
        curve.semilogy(range(0, 17, 2), found, "o", color=_PAIR, markersize=5, label="computed")
        curve.set(title=r"weight outside $\{a, b\}$", xlabel=r"$\beta$", xlim=(-0.4, 16.4), xticks=range(0, 17, 4))
        curve.grid(color=_FAINT, linewidth=0.6)
        curve.legend(frameon=False)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "averaging.svg"
        with replacing(path) as stream:
            figure.savefig(stream, format="svg", metadata={"Date": None})
    return path
