"""Part a: weights are a distribution, and what it takes to copy one value."""

import math
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from headwise.core.attend import attend
from headwise.design import Design, copy, copyable
from headwise.study.part import Finding, Part, Proof, told
from headwise.study.pictures import Bars, Hull, Line, Lines, Mark, Picture
from headwise.study.setting import Setting

_LEAK = 1e-3
_MARGINS = np.linspace(0, 20, 41)
_MOST_IN_PLANE = 12


def distribution(setting: Setting) -> Part:
    """Part a.i."""
    rng = np.random.default_rng(setting.seed)
    query, keys = rng.standard_normal(setting.width), rng.standard_normal((setting.keys, setting.width))
    keys = keys / math.sqrt(setting.width)
    found = attend(query, keys, keys)
    weights = np.asarray(found.weights)
    entropy = float(-(weights * np.log(weights)).sum())
    rounding = setting.rounding()
    return told(
        setting,
        "a.i",
        {"keys": setting.keys, "width": setting.width, "effective": f"{math.exp(entropy):.2f}"},
        (
            Finding("the sum of the weights", float(weights.sum()), rounding, "=", 1.0),
            Finding("the smallest weight", float(weights.min()), rounding * float(weights.min()), ">", 0.0),
            Finding("the entropy", float(found.entropy), rounding * 10, "=", entropy, rounding * 10),
            Finding("the effective number of keys", float(found.effective_keys), rounding * setting.keys, "<=", setting.keys),
        ),
        Picture(
            "weights",
            f"Bars of {setting.keys} attention weights, largest first; a dotted line at one over {setting.keys}.",
            [
                Bars(
                    f"weights, {math.exp(entropy):.2f} effective keys of {setting.keys}",
                    np.sort(weights)[::-1].tolist(),
                    1 / setting.keys,
                    marked=(),
                    highest=float(weights.max()) * 1.1,
                )
            ],
        ),
        "import numpy as np\nimport headwise as hw\n"
        f"rng = np.random.default_rng({setting.seed})\n"
        f"query, keys = rng.standard_normal({setting.width}), rng.standard_normal(({setting.keys}, {setting.width}))\n"
        f"keys = keys / np.sqrt({setting.width})\n"
        "found = hw.attend(query, keys, keys)\nprint(found.weights, found.entropy, found.effective_keys)\n"
        "print(found.weights.sum())",
    )


def _bound(margin: float, keys: int) -> float:
    """Bound the weight elsewhere by the margin."""
    away = (keys - 1) * math.exp(-margin)
    return away / (1 + away)


def _random_keys(setting: Setting) -> tuple[Float[np.ndarray, "k d"], Design]:
    """Return random keys and the best query for the first of them: as many dimensions as keys make every key a vertex."""
    keys = np.random.default_rng(setting.seed + 2).standard_normal((setting.keys, setting.width)) / math.sqrt(setting.width)
    return keys, copy(keys, 0)


def margin(setting: Setting) -> Part:
    """Part a.ii."""
    keys, found = _random_keys(setting)
    best = np.asarray(found.query)
    reached = float(attend(best, keys, keys).margin)
    needed = math.log((setting.keys - 1) * (1 - _LEAK) / _LEAK)
    bounds = [_bound(one, setting.keys) for one in _MARGINS]
    alike = [float(attend(one * setting.means[0], setting.means, setting.values).leak(0)) for one in _MARGINS]
    others = [float(attend(one / reached * best, keys, keys).leak(0)) for one in _MARGINS]
    at = float(attend(needed * setting.means[0], setting.means, setting.values).leak(0))
    worst = max(other / bound for other, bound in list(zip(others, bounds, strict=True))[2:])
    rounding = setting.rounding()
    return told(
        setting,
        "a.ii",
        {"needed": f"{needed:.2f}"},
        (
            Finding(f"the leak at the margin {needed:.4f}", at, rounding, "=", _LEAK),
            Finding("the largest ratio of leak to bound, random keys, margins from 1", worst, rounding, "<=", 1.0),
            Finding("the margin needed for a leak of 0.001", needed, rounding),
        ),
        Picture(
            "leak",
            "The weight elsewhere falls exponentially with the margin; orthonormal keys lie on the bound, random keys below.",
            [
                Lines(
                    "weight elsewhere against margin",
                    "margin g",
                    "leak",
                    [
                        Line("bound", _MARGINS.tolist(), bounds, "bound"),
                        Line("orthonormal keys", _MARGINS[::2].tolist(), alike[::2], "computed"),
                        Line("random keys", _MARGINS.tolist(), others, "formula"),
                    ],
                    [Mark(f"0.001 at {needed:.2f}", needed, _LEAK)],
                    "y",
                )
            ],
        ),
        setting.code() + f"margin = np.log({setting.keys - 1} * (1 - {_LEAK}) / {_LEAK})\n"
        "print(hw.attend(margin * keys[0], keys, values).leak(0))",
        (Proof(f"random key 0 can be copied: {found.reason}", found.verify()),),
    )


def output(setting: Setting) -> Part:
    """Part a.iii."""
    needed = math.log((setting.keys - 1) * (1 - _LEAK) / _LEAK)
    away, bounds = [], []
    for one in _MARGINS:
        found = attend(one * setting.means[0], setting.means, setting.values)
        away.append(float(np.linalg.norm(np.asarray(found.contexts) - setting.values[0])))
        bounds.append(_bound(one, setting.keys) * math.sqrt(2))
    at = attend(needed * setting.means[0], setting.means, setting.values)
    distance = float(np.linalg.norm(np.asarray(at.contexts) - setting.values[0]))
    # The other values are at right angles to v_j and to each other: |c - v_j| = leak sqrt(1 + 1/(n-1)).
    exact = _LEAK * math.sqrt(1 + 1 / (setting.keys - 1))
    rounding = setting.rounding()
    return told(
        setting,
        "a.iii",
        {},
        (
            Finding("the distance from the value at a leak of 0.001", distance, rounding, "=", exact),
            Finding("the same against its bound", distance, rounding, "<=", _LEAK * math.sqrt(2)),
        ),
        Picture(
            "copy",
            "The distance between output and value falls with the margin and stays below its bound.",
            [
                Lines(
                    "distance of the output from the value",
                    "margin g",
                    "distance",
                    [
                        Line("bound", _MARGINS.tolist(), bounds, "bound"),
                        Line("computed", _MARGINS[::2].tolist(), away[::2], "computed"),
                    ],
                    [Mark(f"{exact:.5f} at {needed:.2f}", needed, exact)],
                    "y",
                )
            ],
        ),
        setting.code() + f"margin = np.log({setting.keys - 1} * (1 - {_LEAK}) / {_LEAK})\n"
        "print(np.linalg.norm(hw.attend(margin * keys[0], keys, values).contexts - values[0]))",
    )


def plane_keys(setting: Setting) -> Float[np.ndarray, "k 2"]:
    """Return keys in the plane of which the last is a mixture of others, exactly: entries are multiples of 1/256."""
    rng = np.random.default_rng(setting.seed + 4)
    keys = np.round(64 * 1.5 * rng.standard_normal((min(setting.keys, _MOST_IN_PLANE), 2))) / 64
    corners = np.argsort(-np.linalg.norm(keys[:-1], axis=1))
    if len(keys) > 3:
        keys[-1] = (2 * keys[corners[0]] + keys[corners[1]] + keys[corners[2]]) / 4
    else:
        keys[-1] = (keys[0] + keys[1]) / 2
    return keys


def who(setting: Setting) -> Part:
    """Part a.iv."""
    keys = plane_keys(setting)
    verdicts = copyable(keys)
    count, row = int(np.asarray(verdicts.possible).sum()), int(np.argmax(verdicts.distances))
    easy, hard = copy(keys, row), copy(keys, len(keys) - 1)
    proof = hard.to_dict()["certificate"]
    corners, weights = proof["rows"], [float(Fraction(weight)) for weight in proof["weights"]]
    terms = " + ".join(f"{weight:.2f} $k_{{{corner}}}$" for corner, weight in zip(corners, weights, strict=True))
    possible = [bool(one) for one in verdicts.possible]
    # Per unit of query the best margin is the distance to the hull of the others.
    way = np.asarray(easy.query) / float(np.linalg.norm(np.asarray(easy.query)))
    reached = float((keys[row] @ way - np.delete(keys, row, axis=0) @ way).min())
    return told(
        setting,
        "a.iv",
        {"keys": len(keys), "count": count, "hard": len(keys) - 1},
        (
            Finding("the best margin per unit of query", reached, 1e-12, "=", float(verdicts.distances[row]), 1e-9),
            Finding("keys that can be copied", count, 0.0, "<=", len(keys) - 1),
        ),
        Picture(
            "hull",
            f"Keys in the plane with their hull. Left, key {row} and the query under which it wins; right, key {len(keys) - 1} "
            "inside the hull, joined to the keys that it is a mixture of.",
            [
                Hull(
                    f"$k_{{{row}}}$ wins: its distance to the hull of\nthe others is the margin, {reached:.3f} per unit of q",
                    keys,
                    possible,
                    row,
                    query=way.tolist(),
                ),
                Hull(
                    f"$k_{{{len(keys) - 1}}}$ never wins: it is the mixture\n{terms}",
                    keys,
                    possible,
                    len(keys) - 1,
                    corners=corners,
                    weights=weights,
                ),
            ],
        ),
        f"import headwise as hw\nkeys = [\n{_rows(keys)}]\n"
        f"print(hw.design.copyable(keys))\nprint(hw.design.copy(keys, {len(keys) - 1}))\n"
        f"print(hw.design.copy(keys, {row}).margin)",
        (
            Proof(f"key {row} can be copied: {easy.reason}", easy.verify()),
            Proof(f"key {len(keys) - 1} cannot: {hard.reason}", hard.verdict == "impossible" and hard.verify()),
        ),
    )


def _rows(keys: Float[np.ndarray, "k 2"]) -> str:
    """Write keys as lines of code, a few to a line."""
    lines = [", ".join(map(str, keys[start : start + 4].tolist())) for start in range(0, len(keys), 4)]
    return "".join(f"    {line},\n" for line in lines)
