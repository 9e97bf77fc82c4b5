"""Part b: taking one value out of a sum, and averaging two."""

import math

import numpy as np
from jaxtyping import Float

from headwise.core.attend import attend
from headwise.core.orthonormal import orthonormal
from headwise.design import average, extractor
from headwise.study.part import Finding, Part, Proof, told
from headwise.study.pictures import Bars, Line, Lines, Mark, Picture
from headwise.study.setting import Setting, leak_of_pair, scale_for

_LEAK = 1e-3
_SCALES = (1.0, 4.0, 9.0)
# How many keys have room in a picture.
_SHOWN = 12


def _subspaces(setting: Setting) -> tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m d"]]:
    """Return orthonormal rows of two subspaces at right angles."""
    size = setting.width // 4
    rows = orthonormal(2 * size, setting.width, seed=setting.seed + 3)
    return rows[:size], rows[size:]


def extraction(setting: Setting) -> Part:
    """Part b.i."""
    own, other = _subspaces(setting)
    size = len(own)
    rng = np.random.default_rng(setting.seed + 3)
    first, second = rng.standard_normal(size) @ own, rng.standard_normal(size) @ other
    found = extractor(own, other)
    matrix = own.T @ own  # rows of `own` are the columns of the formula's A
    length = float(np.linalg.norm(first))
    off = float(np.linalg.norm(found.extract(first + second) - first)) / length
    coordinates = own @ (first + second)
    swapped = own @ own.T
    angles = np.radians([5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90])
    norms = [_leaning(own, other, angle) for angle in angles]
    worst = max(abs(norm * math.sin(angle) - 1) for norm, angle in zip(norms, angles, strict=True))
    rounding = 64 * setting.width * 2.0**-52
    return told(
        setting,
        "b.i",
        {"size": size, "width": setting.width},
        (
            Finding("the relative error of M s", off, rounding, "=", 0.0),
            Finding(
                "the distance of M from A Aᵀ",
                float(np.linalg.norm(np.asarray(found.matrix) - matrix)),
                rounding,
                "=",
                0.0,
            ),
            Finding(
                "the distance of Aᵀ A from the identity",
                float(np.linalg.norm(swapped - np.eye(size))),
                rounding,
                "=",
                0.0,
            ),
            Finding(
                "the length of Aᵀ s over that of v_a", float(np.linalg.norm(coordinates)) / length, rounding, "=", 1.0, rounding
            ),
            Finding("the largest error of |M| sin θ = 1", worst, 1e-10, "=", 0.0),
        ),
        _amplified(np.degrees(angles).tolist(), norms),
        "import numpy as np\nimport headwise as hw\n"
        f"rows = hw.orthonormal({2 * size}, {setting.width}, seed={setting.seed + 3})\n"
        f"A, B = rows[:{size}].T, rows[{size}:].T\n"
        f"rng = np.random.default_rng({setting.seed + 3})\n"
        f"v_a, v_b = A @ rng.standard_normal({size}), B @ rng.standard_normal({size})\n"
        "M = A @ A.T\nprint(hw.design.extractor(A.T, against=B.T))\n"
        "print(np.linalg.norm(M @ (v_a + v_b) - v_a) / np.linalg.norm(v_a))",
    )


def _amplified(degrees: list[float], norms: list[float]) -> Picture:
    """Show how the norm of M grows as the subspaces close in on each other."""
    grid = np.linspace(np.radians(4), np.pi / 2, 100)
    return Picture(
        "extract",
        "The norm of M against the angle between the subspaces: the computed points lie on one over the sine.",
        [
            Lines(
                "how much M amplifies noise",
                "angle between the subspaces, degrees",
                "norm of M",
                [
                    Line("1 / sin θ", np.degrees(grid).tolist(), (1 / np.sin(grid)).tolist(), "formula"),
                    Line("design.extractor", degrees, norms, "computed"),
                ],
                logs="y",
            )
        ],
    )


def _leaning(own: Float[np.ndarray, "m d"], other: Float[np.ndarray, "m d"], angle: float) -> float:
    """Return the norm of M when the second subspace leans towards the first."""
    return float(extractor(own, math.cos(angle) * own + math.sin(angle) * other).norm)


def averaging_picture(setting: Setting) -> Picture:
    """Show why averaging two values needs a long query."""
    bars = [
        Bars(
            rf"$\beta$ = {scale:g}",
            np.asarray(attend(scale * setting.pair, setting.means, setting.values).weights)[:_SHOWN].tolist(),
            0.5,
            ("a", "b"),
            highest=0.55,
        )
        for scale in _SCALES
    ]
    shown = f"{setting.keys}" if setting.keys <= _SHOWN else f"the first {_SHOWN} of {setting.keys}"
    grid = np.linspace(0, 16, 100)
    places = np.arange(0, 17, 2.0)
    found = [float(attend(scale * setting.pair, setting.means, setting.values).leak([0, 1])) for scale in places]
    curve = Lines(
        r"weight outside $\{a, b\}$",
        r"$\beta$",
        "",
        [
            Line("formula", grid.tolist(), [leak_of_pair(scale, setting.keys) for scale in grid], "formula"),
            Line("computed", places.tolist(), found, "computed"),
        ],
        [Mark("0.001", scale_for(_LEAK, setting.keys), _LEAK)],
        "y",
    )
    return Picture(
        "averaging",
        f"Weights of {shown} orthonormal keys under the sum of two of them, at scales 1, 4 and 9: the longer the query, the "
        "nearer both are to one half. Right, the weight outside the pair falls exponentially with the scale.",
        [*bars, curve],
        rf"{setting.keys} orthonormal keys, query $q = \beta\,(k_a + k_b)$",
        (1, 1, 1, 1.7),
    )


def average_of_two(setting: Setting) -> Part:
    """Part b.ii."""
    plain = attend(setting.pair, setting.means, setting.values)
    scale = scale_for(_LEAK, setting.keys)
    long = attend(scale * setting.pair, setting.means, setting.values)
    keys = np.random.default_rng(setting.seed + 5).standard_normal((setting.keys, setting.width)) / math.sqrt(setting.width)
    other = average(keys, [0, 1], leak=_LEAK)
    weights = np.asarray(attend(np.asarray(other.query), keys, keys).weights)
    rounding = setting.rounding()
    return told(
        setting,
        "b.ii",
        {"weight": f"{float(plain.weights[0]):.4f}", "scale": f"{scale:.2f}"},
        (
            Finding(
                "the weight of a without a scale",
                float(plain.weights[0]),
                rounding,
                "=",
                (1 - leak_of_pair(1, setting.keys)) / 2,
                rounding,
            ),
            Finding(f"the leak at the scale {scale:.4f}", float(long.leak([0, 1])), rounding, "=", _LEAK),
            Finding(
                "the distance from the average there",
                float(np.linalg.norm(np.asarray(long.contexts) - setting.target)),
                rounding,
                "=",
                # Both lose half of the leak, the others share it: all at right angles.
                _LEAK * math.sqrt(0.5 + 1 / (setting.keys - 2)),
                rounding,
            ),
            Finding("the leak for random keys", float(1 - weights[0] - weights[1]), rounding, "<=", _LEAK * (1 + 1e-9)),
            Finding("how uneven their two weights are", float(abs(weights[0] - weights[1])), rounding, "<=", 1e-6),
        ),
        averaging_picture(setting),
        setting.code() + "print(hw.design.average(keys, [0, 1], leak=0.001))\n"
        f"print(hw.attend({scale:.6f} * (keys[0] + keys[1]), keys, values).leak([0, 1]))\n"
        "print(hw.attend(keys[0] + keys[1], keys, values).weights[0])",
        (Proof(f"random keys 0 and 1 can be averaged: {other.reason}", other.verdict == "possible" and other.verify()),),
    )
