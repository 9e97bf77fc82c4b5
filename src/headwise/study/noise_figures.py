"""Pictures of noise: clouds of outputs with their exact ellipses, and the error against the scale."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.core.random_keys import RandomKeys
from headwise.stress import Curve, Law, law
from headwise.study.figures import CALM, FAINT, INK, PAIR, figure
from headwise.study.parts import KEYS

_SCALE = 10.0
_COLOURS = (PAIR, CALM, "#6a4c93", "#e09f3e")


def cloud(folder: Path) -> Path:
    """Draw the outputs of one head and of two when the length of one key varies, and return the file."""
    e = np.eye(KEYS)
    noisy = RandomKeys(e, isotropic=1e-3, along_mean={0: 0.5})
    laws = {
        r"one head, $q = \beta\,(\mu_a + \mu_b)$": law(_SCALE * (e[0] + e[1]), noisy, e),
        r"two heads, $\beta\,\mu_a$ and $\beta\,\mu_b$": law(_SCALE * e[:2], noisy, e),
    }
    path = folder / "cloud.svg"
    with figure(path, 9.6, 4.2) as drawn:
        for axes, (name, one) in zip(drawn.subplots(1, 2, sharex=True, sharey=True), laws.items(), strict=True):
            _draw_cloud(axes, one, np.eye(KEYS)[:2])
            axes.set(title=f"{name}\nvariance {one.variance:.4f}", xlabel=r"share of $v_a$", aspect="equal")
            axes.set(xlim=(-0.12, 1.12), ylim=(-0.12, 1.12), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        drawn.axes[0].set_ylabel(r"share of $v_b$")
    return path


def _draw_cloud(axes: Any, one: Law, plane: Float[np.ndarray, "2 v"]) -> None:  # noqa: ANN401  matplotlib is not imported here
    """Draw sampled outputs, the mean and the ellipse of one standard deviation in a plane of values."""
    drawn = one.sample(600, seed=1) @ plane.T
    axes.plot(*drawn.T, "o", color=CALM, markersize=5, alpha=0.18, markeredgewidth=0, zorder=3)
    axes.plot([], [], "o", color=CALM, markersize=5, label="outputs")
    values, vectors = np.linalg.eigh(one.covariance_in(plane))
    turn = np.linspace(0, 2 * np.pi, 200)
    circle = np.sqrt(np.maximum(values, 0))[:, None] * np.stack([np.cos(turn), np.sin(turn)])
    mean = plane @ one.mean
    axes.plot(*(vectors @ circle + mean[:, None]), color=PAIR, linewidth=1.6, label="one standard deviation")
    axes.plot(*mean, "x", color=PAIR, markersize=8, markeredgewidth=2, zorder=4, label="mean")
    axes.plot(0.5, 0.5, "*", color=INK, markersize=11, zorder=4, label="wanted")
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(frameon=False, fontsize=8, loc="upper right")


def error_curve(found: Curve, path: Path) -> Path:
    """Draw mean squared errors and variances against the scale, each least error marked, and return the file."""
    with figure(path, 6.4, 4.0) as drawn:
        axes = drawn.subplots()
        for place, (name, one) in enumerate(found.series.items()):
            colour = _COLOURS[place % len(_COLOURS)]
            axes.loglog(found.scales, one.errors, color=colour, linewidth=2, label=f"{name}: mean squared error")
            axes.loglog(found.scales, one.variances, color=colour, linewidth=1.2, linestyle=":", label=f"{name}: variance")
            axes.plot(one.best_scale, one.best_error, "o", color=colour, markersize=7)
            axes.annotate(
                f"{one.best_error:.3g} at {one.best_scale:.3g}",
                (one.best_scale, one.best_error),
                xytext=(0, -14),
                textcoords="offset points",
                ha="center",
                fontsize=9,
            )
        axes.set(xlabel="scale of the queries", ylabel="of the output")
        axes.grid(color=FAINT, linewidth=0.6)
        axes.legend(frameon=False, fontsize=8)
    return path
