"""Beyond the exercise: what helps against noise, queries made for it, and heads as Transformers have them."""

import math
from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
from jaxtyping import Float

from headwise.core.attend import attend
from headwise.core.heads import MultiHeadAttention
from headwise.design import robust
from headwise.stress import Estimate, law, remedies
from headwise.study.length import best_scale, negative, spread
from headwise.study.part import Finding, Part, told
from headwise.study.part_c import FINE, linear_variance
from headwise.study.pictures import Heat, Picture, Ranks, Scores
from headwise.study.setting import SMALL, Setting, leak_of_pair, percent

_HEADS, _WIDTH, _TOKENS = 4, 16, 6
_LONG = {
    "as is": "one head as it is",
    "best scale": "one head at its best scale",
    "1/sqrt(d)": "one head divided by sqrt(d)",
}
# What no formula is at hand for.
_ALONE = ("4 heads", "8 heads", "1/sqrt(d)")


def side_by_side(setting: Setting) -> Part:
    """Part beyond.i."""
    noisy, n, tau = setting.noisy(0.0), setting.keys, setting.length_variance
    tolerance = 1e-3 if negative(tau) > 1e-3 else FINE
    found = remedies(
        setting.scale * setting.pair,
        noisy,
        setting.values,
        setting.target,
        keys=[0, 1],
        tolerance=tolerance,
        seed=setting.seed,
    )
    errors = {one.name: one.mean_squared_error for one in found.ranked}
    best = found.ranked[0].name
    # Two heads score their keys as high as the one head scores what it reads, on average.
    level = setting.scale * (1 - leak_of_pair(setting.scale, n))
    one, two = spread(n, setting.scale, tau, heads=1), spread(n, level, tau, heads=2)
    least = best_scale(n, tau)[1]
    held = {
        "as is": (one.mean_squared_error, one.error),
        "best scale": (least, 1e-9),
        "2 heads": (two.mean_squared_error, two.error),
    }
    return told(
        setting,
        "beyond.i",
        {
            "best": best,
            "count": len(errors),
            "ties": _ties(errors, best),
            "divided": f"{setting.scale / math.sqrt(setting.width):.3g}",
            "scale": f"{setting.scale:g}",
            "turned": percent(negative(tau)),
        },
        (
            Finding("the least mean squared error", errors[best].value, errors[best].error),
            Finding(
                "that of 2 heads, against one as it is",
                errors["2 heads"].value,
                errors["2 heads"].error,
                "<",
                errors["as is"].value,
                errors["as is"].error,
                otherwise=f"At a scale of {setting.scale:g} two heads do not err less than one: {errors['2 heads'].value:.3g} "
                f"against {errors['as is'].value:.3g}.",
            ),
            *(
                Finding(
                    f"that of {_LONG.get(name, name)}",
                    errors[name].value,
                    errors[name].error + setting.rounded_away(wanted),
                    "=",
                    wanted,
                    doubt,
                )
                for name, (wanted, doubt) in held.items()
            ),
            *(Finding(f"that of {_LONG.get(name, name)}", errors[name].value, errors[name].error) for name in _ALONE),
            Finding("that of normalised keys, sampled", errors["normalised keys"].value, errors["normalised keys"].error),
            Finding("the same by the formula", _normalised_error(setting), 1e-12),
        ),
        _ranked(errors),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {setting.length_variance!r}}})\n"
        f"target = (values[0] + values[1]) / 2\n"
        f"query = {setting.scale!r} * (keys[0] + keys[1])\n"
        f"found = hw.stress.remedies(query, noisy, values, target, keys=[0, 1], tolerance={tolerance}, seed={setting.seed})\n"
        "print(found)\nprint(found.ranked[0].mean_squared_error)",
    )


def _ranked(errors: Mapping[str, Estimate]) -> Picture:
    """Show all ways, the best on top."""
    return Picture(
        "remedies",
        f"Mean squared errors of {len(errors)} ways as bars, the smallest on top: {', '.join(errors)}",
        [
            Ranks(
                "mean squared error under length noise",
                list(errors),
                [one.value for one in errors.values()],
                "mean squared error",
                [{"as is": "one", "1 head": "one", "2 heads": "two"}.get(name, "rest") for name in errors],
            )
        ],
    )


def _ties(errors: Mapping[str, Estimate], best: str) -> str:
    """Name the best, or those that are as good within their errors."""
    first = errors[best]
    close = [name for name, one in errors.items() if one.value - one.error <= first.value + first.error]
    return f"The best is {best}." if close == [best] else f"The best are a tie within errors: {', '.join(close)}."


def _normalised_error(setting: Setting) -> float:
    """Return the mean squared error when key a has length 1 but, with the probability of a negative length, turned round."""
    turned = setting.means * np.where(np.arange(setting.keys) == 0, -1.0, 1.0)[:, None]
    outputs = [
        np.asarray(attend(setting.scale * setting.pair, keys, setting.values).contexts) for keys in (setting.means, turned)
    ]
    errors = [float(((output - setting.target) ** 2).sum()) for output in outputs]
    turns = negative(setting.length_variance)
    return (1 - turns) * errors[0] + turns * errors[1]


def robust_queries(setting: Setting) -> Part:
    """Part beyond.ii."""
    noisy = setting.noisy(setting.tiny)
    found = robust(noisy, setting.values, setting.target, heads=1, seed=setting.seed)
    error, plain = found.numbers["mean_squared_error"], found.numbers["plain_error"]
    doubt = found.numbers["error_of_that"] + setting.rounded_away(error)
    again = law(found.queries, noisy, setting.values, tolerance=1e-5).mean_squared_error(setting.target)
    down = law(-setting.scale * setting.means[2:].sum(axis=0), noisy, setting.values)
    lines = linear_variance(setting, -setting.scale * setting.means[2:].sum(axis=0), setting.tiny)
    stretched = setting.tiny * setting.scale**2 * (setting.keys - 2)
    scores = setting.means @ np.asarray(found.query)
    return told(
        setting,
        "beyond.ii",
        {
            "a": _score(scores[0]),
            "b": _score(scores[1]),
            "others": _score(scores[2:].mean()),
            "plain": f"{plain:.2g}",
            "error": f"{error:.2g}",
            "start": _start(plain, best_scale(setting.keys, setting.length_variance)[1]),
        },
        (
            Finding(
                "the mean squared error",
                error,
                doubt,
                "<=",
                SMALL,
                otherwise=f"From this start no head was found that holds: the mean squared error is {error:.2g}.",
            ),
            Finding("the same, integrated more finely", again.value, again.error, "=", error, doubt),
            Finding("the same, against design.average at its best scale", error, doubt, "<=", plain),
            Finding(
                f"the variance of pushing down by {setting.scale:g}",
                down.variance,
                down.variance_error,
                "=",
                lines,
                20 * stretched * lines,
            ),
        ),
        _two_ways(setting, scores),
        setting.code()
        + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r}, along_mean={{0: {setting.length_variance!r}}})\n"
        f"found = hw.design.robust(noisy, values, (values[0] + values[1]) / 2, seed={setting.seed})\n"
        'print(found, keys @ found.query)\nprint(found.numbers["mean_squared_error"])',
    )


def _start(plain: float, least: float) -> str:
    """Say how the query that the search began with differs from the sum of the two keys, if it does."""
    if plain > 0.95 * least:
        return ""
    return (
        rf" The start errs by {plain:.2g} and not by the {least:.2g} of $\beta(\mu_a + \mu_b)$ at its best scale, for "
        "the query of `design.average` pushes the others down a little too."
    )


def _two_ways(setting: Setting, scores: Float[np.ndarray, " k"]) -> Picture:
    """Show the scores of the sum of two keys beside those of the robust query."""
    shown = min(setting.keys, 12)
    return Picture(
        "robust",
        "Mean scores of the keys: under the sum of a and b those two stand up, under the robust query all others are "
        "pushed down.",
        [
            Scores(title, heights[:shown].tolist(), ("a", "b"))
            for title, heights in (
                (rf"mean scores, $q = {setting.scale:g}\,(\mu_a + \mu_b)$", setting.means @ (setting.scale * setting.pair)),
                ("mean scores, robust query", scores),
            )
        ],
    )


def _score(score: float) -> str:
    """Write a score with two decimals, and zero without a sign."""
    return f"{round(float(score), 2) + 0.0:.2f}"


def transformers(setting: Setting) -> Part:
    """Part beyond.iii."""
    rng = np.random.default_rng(setting.seed + 7)
    maps = {name: rng.standard_normal((_WIDTH, _WIDTH)) / math.sqrt(_WIDTH) for name in ("query", "key", "value", "output")}
    tokens = rng.standard_normal((_TOKENS, _WIDTH))
    heads = MultiHeadAttention(*maps.values(), heads=_HEADS)
    found = heads(tokens, tokens, tokens)
    weights = np.asarray(found.weights)
    contexts = np.asarray(found.contexts)
    findings = [Finding("the largest difference from the formula", _off(contexts, _by_hand(maps, tokens)), 1e-12, "=", 0.0)]
    numbers = [str(i + 1) for i in range(_TOKENS)]
    compared = "torch is not installed here, so it was not compared with torch"
    if find_spec("torch") is not None:
        from headwise.core.with_torch import multi_head  # noqa: PLC0415  loads torch

        findings.append(
            Finding("the largest difference from torch", _off(contexts, multi_head(maps, tokens, _HEADS)), 1e-12, "=", 0.0)
        )
        compared = "`torch.nn.MultiheadAttention` with the same maps agrees"
    return told(
        setting,
        "beyond.iii",
        {"heads": _HEADS, "width": _WIDTH // _HEADS, "tokens": _TOKENS, "compared": compared},
        findings,
        Picture(
            "heads",
            f"Attention weights of {_HEADS} heads on {_TOKENS} tokens.",
            [
                Heat(
                    f"head {h + 1}", weights[h], numbers, numbers, across="token read", up="token that reads" if h == 0 else ""
                )
                for h in range(_HEADS)
            ],
        ),
        "import numpy as np\nimport headwise as hw\n"
        f"rng = np.random.default_rng({setting.seed + 7})\n"
        f"maps = [rng.standard_normal(({_WIDTH}, {_WIDTH})) / {math.sqrt(_WIDTH):g} for _ in range(4)]\n"
        f"tokens = rng.standard_normal(({_TOKENS}, {_WIDTH}))\n"
        f"found = hw.MultiHeadAttention(*maps, heads={_HEADS})(tokens)\n"
        f"query, key, value = (np.split(tokens @ m.T, {_HEADS}, axis=1) for m in maps[:3])\n"
        f"tables = [np.exp(q @ k.T / {math.sqrt(_WIDTH // _HEADS):g}) for q, k in zip(query, key)]\n"
        "reads = [t / t.sum(axis=1, keepdims=True) @ v for t, v in zip(tables, value)]\n"
        "print(abs(found.contexts - np.concatenate(reads, axis=1) @ maps[3].T).max())",
    )


def _by_hand(maps: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Write the formula out, head by head."""
    query, key, value = (np.split(tokens @ maps[name].T, _HEADS, axis=1) for name in ("query", "key", "value"))
    tables = [np.exp(q @ k.T / math.sqrt(q.shape[1])) for q, k in zip(query, key, strict=True)]
    reads = [table / table.sum(axis=1, keepdims=True) @ v for table, v in zip(tables, value, strict=True)]
    return np.asarray(np.concatenate(reads, axis=1) @ maps["output"].T)


def _off(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())
