"""Part d: two heads, and what they are worth when keys are noisy."""

import math
from statistics import NormalDist

import numpy as np
from scipy.optimize import brentq

from headwise.core.attend import attend
from headwise.stress import curve, law
from headwise.study.curves import error_lines
from headwise.study.length import endless, spread
from headwise.study.part import Finding, Part, told
from headwise.study.part_c import cloud, linear_variance, scales
from headwise.study.pictures import Bars, Picture
from headwise.study.setting import Setting


def copies(setting: Setting) -> Part:
    """Part d.i."""
    quiet, noisy = setting.noisy(setting.tiny, length=False), setting.noisy(setting.tiny)
    two, same = setting.scale * setting.means[:2], np.repeat(setting.scale * setting.pair[None], 2, axis=0)
    found = law(two, quiet, setting.values)
    squared = found.mean_squared_error(setting.target)
    weights = np.stack([np.asarray(attend(query, setting.means, setting.values).weights) for query in two])
    # Each head leaks (n-1) / (e^beta + n - 1), evenly; a head's leak to the other's key helps that one.
    leak = (setting.keys - 1) / (math.exp(min(setting.scale, 700.0)) + setting.keys - 1)
    lost = leak / 2 * (1 - 1 / (setting.keys - 1))
    plain = 2 * lost**2 + (setting.keys - 2) * (leak / (setting.keys - 1)) ** 2
    # The noise of the two heads is independent, for their queries are at right angles.
    shaken = sum(linear_variance(setting, query, setting.tiny) for query in two) / 4
    stretched = setting.tiny * setting.scale**2
    equal, one, apart = (law(given, noisy, setting.values) for given in (same, same[:1], two))
    shown = min(setting.keys, 12)
    titles = [rf"head 1: $q_1 = {setting.scale:g}\,\mu_a$", rf"head 2: $q_2 = {setting.scale:g}\,\mu_b$", "their average"]
    heights = [*weights, weights.mean(axis=0)]
    return told(
        setting,
        "d.i",
        {"equal": f"{equal.variance:.4f}", "apart": f"{apart.variance:.4f}"},
        (
            Finding(
                "the mean squared error under tiny noise",
                squared.value,
                squared.error,
                "=",
                plain + shaken,
                20 * stretched * (plain + shaken),
            ),
            Finding(
                "the variance of equal queries under length noise",
                equal.variance,
                equal.variance_error,
                "=",
                one.variance,
                one.variance_error,
            ),
            Finding("the variance of two copies under length noise", apart.variance, apart.variance_error),
        ),
        Picture(
            "two",
            "Weights of head 1, which looks at a; of head 2, which looks at b; and their average.",
            [
                Bars(title, row[:shown].tolist(), 0.5, ("a", "b"), highest=1.05)
                for title, row in zip(titles, heights, strict=True)
            ],
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r})\n"
        f"found = hw.stress.law({setting.scale!r} * keys[:2], noisy, values)\n"
        "print(found)\nfound.mean_squared_error((values[0] + values[1]) / 2)",
    )


def two_heads(setting: Setting) -> Part:
    """Part d.ii."""
    noisy, n, tau = setting.noisy(0.0), setting.keys, setting.length_variance
    found, one = (law(setting.scale * given, noisy, setting.values) for given in (setting.means[:2], setting.pair))
    exact, given = (spread(n, setting.scale, tau, heads=2, positive=positive) for positive in (False, True))
    curves = curve(
        {"one head": setting.pair, "two heads": setting.means[:2]},
        noisy,
        setting.values,
        setting.target,
        scales=scales(setting),
    )
    single, double = curves.series["one head"], curves.series["two heads"]
    ratios = double.variances / single.variances
    doubts = ratios * (double.variance_errors / double.variances + single.variance_errors / single.variances)
    worst = int(np.argmax(ratios))
    negative = NormalDist().cdf(-1 / math.sqrt(tau))
    limits = [endless(n, tau, heads=2, positive=positive) for positive in (False, True)]
    crossing = _crossing(n, tau)
    better = (
        f"one head has the smaller mean squared error below a scale of {crossing:.3g}, two heads above it"
        if crossing
        else "but here two heads have the smaller mean squared error at every scale looked at"
    )
    return told(
        setting,
        "d.ii",
        {
            "tau": f"{tau:g}",
            "scale": f"{setting.scale:g}",
            "ratio": f"{one.variance / found.variance:.3g}",
            "negative": f"{100 * negative:.2g}",
            "deviation": f"{math.sqrt(tau):.3g}",
            "positive": f"{given.variance:.2g}",
            "better": better,
        },
        (
            Finding("the variance of the output", found.variance, found.variance_error, "=", exact.variance, exact.error),
            Finding("the same against one head", found.variance, found.variance_error, "<", one.variance, one.variance_error),
            Finding("the largest ratio of variances, two heads over one", float(ratios[worst]), float(doubts[worst]), "<", 1.0),
            Finding("the probability of a negative length", 1 - given.probability, given.error, "=", negative),
            Finding("the variance given a positive length", given.variance, given.error, "<=", exact.variance, exact.error),
            Finding(
                "the variance for endless queries",
                limits[0].value,
                limits[0].error,
                "=",
                negative * (1 - negative) / 4 * n / (n - 1),
            ),
            Finding("the same given a positive length", limits[1].value, limits[1].error, "=", 0.0),
        ),
        Picture(
            "hold",
            "Outputs of one head, between two values; outputs of two heads, nearer to the wanted average; and mean "
            "squared error and variance of both against the scale.",
            [
                cloud(setting, one, rf"one head, $q = {setting.scale:g}\,(\mu_a + \mu_b)$"),
                cloud(setting, found, rf"two heads, ${setting.scale:g}\,\mu_a$ and ${setting.scale:g}\,\mu_b$"),
                error_lines(curves),
            ],
            widths=(1, 1, 1.35),
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {tau!r}}})\n"
        f"found = hw.stress.law({setting.scale!r} * keys[:2], noisy, values)\n"
        "print(found, found.mean_squared_error((values[0] + values[1]) / 2))\nfound.variance",
    )


def _crossing(keys: int, length_variance: float) -> float | None:
    """Return the scale below which one head has the smaller mean squared error, if there is one."""

    def gain(scale: float) -> float:
        return (
            spread(keys, scale, length_variance, heads=1).mean_squared_error
            - spread(keys, scale, length_variance, heads=2).mean_squared_error
        )

    grid = np.geomspace(0.3, 300, 16)
    gains = [gain(float(scale)) for scale in grid]
    for low, high, before, after in zip(grid, grid[1:], gains, gains[1:], strict=False):
        if before < 0 < after:
            return float(brentq(gain, low, high, xtol=1e-4))
    return None
