"""Outputs of some heads on the same noisy keys, as clouds in one plane, each with its exact mean and covariance."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from headwise.shown import number
from headwise.stress import Law
from headwise.study.pictures import Cloud, Landmark, Picture

_DRAWS = 400
_MOST_LANDMARKS = 8


def cloud_picture(
    laws: Mapping[str, Law],
    values: Float[np.ndarray, "k v"],
    keys: Sequence[int] = (),
    target: Float[np.ndarray, " v"] | None = None,
) -> Picture:
    """Show the outputs of each law in the plane in which they spread most, with the values of some keys as landmarks."""
    drawn = {name: law.sample(_DRAWS, seed=law.seed + 1) for name, law in laws.items()}
    centre = np.mean([law.mean for law in laws.values()], axis=0)
    plane = _plane(np.concatenate(list(drawn.values())) - centre)
    marks = [Landmark(f"$v_{{{key}}}$", *(plane @ (values[key] - centre)).tolist()) for key in keys[:_MOST_LANDMARKS]]
    points = {name: (outputs - centre) @ plane.T for name, outputs in drawn.items()}
    wanted = None if target is None else (plane @ (target - centre)).tolist()
    corners = [*points.values(), np.array([(mark.x, mark.y) for mark in marks]).reshape(-1, 2), *([[wanted]] if wanted else [])]
    window = _window(np.concatenate(corners))
    panels, said = [], []
    for name, law in laws.items():
        inside = law.covariance_in(plane)
        share = float(np.trace(inside)) / law.variance if law.variance > 0 else 1.0
        said.append(f"{share:.0%} of the variance of “{name}”")
        panels.append(
            Cloud(
                f"{name}\nvariance {number(law.variance, 3)}",
                points[name],
                (plane @ (law.mean - centre)).tolist(),
                inside,
                wanted,
                "one" if law.scores.heads == 1 else "two",
                ("first direction", "second direction"),
                window,
                marks,
            )
        )
    alt = "Clouds of outputs on the same noise, with means and ellipses of one standard deviation: "
    alt += "; ".join(f"{name}, variance {number(law.variance, 3)}" for name, law in laws.items())
    return Picture("clouds", alt, panels, f"This plane shows {' and '.join(said)}.")


def _plane(outputs: Float[np.ndarray, "n v"]) -> Float[np.ndarray, "2 v"]:
    """Return the two orthonormal directions of most spread, each pointing to where its largest entry is positive."""
    found = np.linalg.svd(outputs, full_matrices=False)[2][:2]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    return found * np.where(largest < 0, -1.0, 1.0)


def _window(points: Float[np.ndarray, "n 2"]) -> list[tuple[float, float]]:
    """Return a square with everything in it."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, 0.58 * max(float((high - low).max()), 1e-12)
    return [(float(at - half), float(at + half)) for at in middle]
