"""Beyond the exercise: what helps against noise, queries made for it, and heads as Transformers have them."""

import math
from importlib.util import find_spec
from statistics import NormalDist

import numpy as np

from headwise.core.attend import attend
from headwise.core.heads import MultiHeadAttention
from headwise.design import robust
from headwise.stress import law, remedies
from headwise.study.length import best_scale, spread
from headwise.study.part import Finding, Part, Proof, told
from headwise.study.part_c import linear_variance
from headwise.study.pictures import Heat, Picture, Ranks, Scores
from headwise.study.setting import Setting, leak_of_pair

_HEADS, _WIDTH, _TOKENS = 4, 16, 6


def side_by_side(setting: Setting) -> Part:
    """Part beyond.i."""
    noisy, n, tau = setting.noisy(0.0), setting.keys, setting.length_variance
    found = remedies(setting.scale * setting.pair, noisy, setting.values, setting.target, keys=[0, 1], seed=setting.seed)
    errors = {one.name: one.mean_squared_error for one in found.ranked}
    best = found.ranked[0]
    ties = [name for name, one in errors.items() if one.value - one.error <= errors[best.name].value + errors[best.name].error]
    # Two heads score their keys as high as the one head scores what it reads, on average.
    level = setting.scale * (1 - leak_of_pair(setting.scale, n))
    one, two = spread(n, setting.scale, tau, heads=1), spread(n, level, tau, heads=2)
    least = best_scale(n, tau)[1]
    turned = _normalised_error(setting)
    return told(
        setting,
        "beyond.i",
        {
            "best": best.name,
            "ties": ", ".join(ties),
            "divided": f"{setting.scale / math.sqrt(setting.width):.3g}",
            "scale": f"{setting.scale:g}",
        },
        (
            Finding(
                "the least mean squared error", errors[best.name].value, errors[best.name].error, "<=", one.mean_squared_error
            ),
            *(
                Finding(f"that of {name}", errors[name].value, errors[name].error, "=", wanted, doubt)
                for name, wanted, doubt in (
                    ("2 heads", two.mean_squared_error, two.error),
                    ("best scale", least, 1e-9),
                    ("normalised keys", turned, 1e-12),
                )
            ),
            Finding("that of one head as it is", errors["as is"].value, errors["as is"].error, "=", one.mean_squared_error),
        ),
        Picture(
            "remedies",
            "Mean squared errors of eight remedies as bars, the smallest on top: "
            + ", ".join(one.name for one in found.ranked),
            [
                Ranks(
                    "mean squared error under length noise",
                    [one.name for one in found.ranked],
                    [one.mean_squared_error.value for one in found.ranked],
                    "mean squared error",
                )
            ],
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {setting.length_variance!r}}})\n"
        f"target = (values[0] + values[1]) / 2\n"
        f"query = {setting.scale!r} * (keys[0] + keys[1])\n"
        f"found = hw.stress.remedies(query, noisy, values, target, keys=[0, 1], seed={setting.seed})\n"
        "print(found)\nfound.ranked[0].mean_squared_error",
    )


def _normalised_error(setting: Setting) -> float:
    """Return the mean squared error when key a has length 1 but, with the probability of a negative length, turned round."""
    turned = setting.means * np.where(np.arange(setting.keys) == 0, -1.0, 1.0)[:, None]
    outputs = [
        np.asarray(attend(setting.scale * setting.pair, keys, setting.values).contexts) for keys in (setting.means, turned)
    ]
    errors = [float(((output - setting.target) ** 2).sum()) for output in outputs]
    negative = NormalDist().cdf(-1 / math.sqrt(setting.length_variance))
    return (1 - negative) * errors[0] + negative * errors[1]


def robust_queries(setting: Setting) -> Part:
    """Part beyond.ii."""
    noisy = setting.noisy(setting.tiny)
    found = robust(noisy, setting.values, setting.target, heads=1, seed=setting.seed)
    error, plain = found.numbers["mean_squared_error"], found.numbers["plain_error"]
    again = law(found.queries, noisy, setting.values, tolerance=1e-5).mean_squared_error(setting.target)
    down = law(-setting.scale * setting.means[2:].sum(axis=0), noisy, setting.values)
    lines = linear_variance(setting, -setting.scale * setting.means[2:].sum(axis=0), setting.tiny)
    stretched = setting.tiny * setting.scale**2 * (setting.keys - 2)
    scores = setting.means @ np.asarray(found.query)
    shown = min(setting.keys, 12)
    return told(
        setting,
        "beyond.ii",
        {
            "a": f"{scores[0] + 0.0:.2f}",
            "b": f"{scores[1]:.2f}",
            "others": f"{scores[2:].mean():.2f}",
            "plain": f"{plain:.2g}",
            "error": f"{error:.2g}",
        },
        (
            Finding("the mean squared error", error, found.numbers["error_of_that"], "=", again.value, again.error),
            Finding("the same against design.average at its best scale", error, found.numbers["error_of_that"], "<=", plain),
            Finding(
                f"the variance of pushing down by {setting.scale:g}",
                down.variance,
                down.variance_error,
                "=",
                lines,
                20 * stretched * lines,
            ),
        ),
        Picture(
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
        ),
        setting.code()
        + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r}, along_mean={{0: {setting.length_variance!r}}})\n"
        f"found = hw.design.robust(noisy, values, (values[0] + values[1]) / 2, seed={setting.seed})\n"
        'print(found, keys @ found.query)\nfound.numbers["mean_squared_error"]',
        (Proof("the error of the robust query is within its stated bound", found.verify()),),
    )


def transformers(setting: Setting) -> Part:
    """Part beyond.iii."""
    rng = np.random.default_rng(setting.seed + 7)
    maps = {name: rng.standard_normal((_WIDTH, _WIDTH)) / math.sqrt(_WIDTH) for name in ("query", "key", "value", "output")}
    tokens = rng.standard_normal((_TOKENS, _WIDTH))
    heads = MultiHeadAttention(*maps.values(), heads=_HEADS)
    found = heads(tokens, tokens, tokens)
    weights = np.asarray(found.weights)
    contexts = np.asarray(found.contexts)
    findings = [Finding("the largest difference from the formula", _off(contexts, _by_hand(maps, tokens)), 1e-12, "<=", 1e-12)]
    compared = "torch is not installed here, so it was not compared with torch"
    if find_spec("torch") is not None:
        from headwise.core.with_torch import multi_head  # noqa: PLC0415  loads torch

        findings.append(
            Finding("the largest difference from torch", _off(contexts, multi_head(maps, tokens, _HEADS)), 1e-12, "<=", 1e-12)
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
                Heat(f"head {h + 1}", weights[h], [str(i + 1) for i in range(_TOKENS)], [str(i + 1) for i in range(_TOKENS)])
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
        "abs(found.contexts - np.concatenate(reads, axis=1) @ maps[3].T).max()",
    )


def _by_hand(maps: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    """Write the formula out, head by head."""
    query, key, value = (np.split(tokens @ maps[name].T, _HEADS, axis=1) for name in ("query", "key", "value"))
    tables = [np.exp(q @ k.T / math.sqrt(q.shape[1])) for q, k in zip(query, key, strict=True)]
    reads = [table / table.sum(axis=1, keepdims=True) @ v for table, v in zip(tables, value, strict=True)]
    return np.asarray(np.concatenate(reads, axis=1) @ maps["output"].T)


def _off(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())
