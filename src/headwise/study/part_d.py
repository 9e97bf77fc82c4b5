"""Part d: two heads, and what they are worth when keys are noisy."""

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from headwise.core.attend import attend
from headwise.stress import Curve, Law, law
from headwise.study.curves import error_lines
from headwise.study.length import endless, negative, spread
from headwise.study.part import Finding, Part, told
from headwise.study.part_c import FINE, cloud, error_curves, linear_variance
from headwise.study.pictures import Bars, Picture
from headwise.study.setting import SMALL, Setting, too_short


def copies(setting: Setting) -> Part:
    """Part d.i."""
    quiet, noisy = setting.noisy(setting.tiny, length=False), setting.noisy(0.0)
    two, pair = setting.scale * setting.means[:2], setting.scale * setting.pair
    found = law(two, quiet, setting.values)
    squared = found.mean_squared_error(setting.target)
    error = squared.error + setting.rounded_away(squared.value)
    weights = np.stack([np.asarray(attend(query, setting.means, setting.values).weights) for query in two])
    # Each head leaks (n-1) / (e^beta + n - 1), evenly; a head's leak to the other's key helps that one.
    leak = (setting.keys - 1) / (math.exp(setting.scale) + setting.keys - 1)
    lost = leak / 2 * (1 - 1 / (setting.keys - 1))
    plain = 2 * lost**2 + (setting.keys - 2) * (leak / (setting.keys - 1)) ** 2
    # The noise of the two heads is independent, for their queries are at right angles.
    shaken = sum(linear_variance(setting, query, setting.tiny) for query in two) / 4
    doubt = 20 * setting.tiny * setting.scale**2 * (plain + shaken)
    one, apart = (law(given, noisy, setting.values, tolerance=FINE) for given in (pair, two))
    exact = [spread(setting.keys, setting.scale, setting.length_variance, heads=heads) for heads in (1, 2)]
    drawn = [_equal_heads(setting, pair, keys) for keys in noisy.sample(100, seed=setting.seed)]
    shown = min(setting.keys, 12)
    titles = [rf"head 1: $q_1 = {setting.scale:g}\,\mu_a$", rf"head 2: $q_2 = {setting.scale:g}\,\mu_b$", "their average"]
    return told(
        setting,
        "d.i",
        {"equal": f"{one.variance:.3g}", "apart": f"{apart.variance:.3g}"},
        (
            Finding(
                "the mean squared error under tiny noise",
                squared.value,
                error,
                "<=",
                SMALL,
                otherwise=too_short(setting, leak, plain),
            ),
            Finding("the same, against the leaks and the noise", squared.value, error, "=", plain + shaken, doubt),
            Finding(
                "how far two equal heads are from one, 100 draws of length noise", max(drawn), setting.rounding(), "=", 0.0
            ),
            *(
                Finding(f"the variance of {name}", found.variance, found.variance_error, "=", wanted.variance, wanted.error)
                for name, found, wanted in zip(
                    ("one head under length noise", "two copies under length noise"), (one, apart), exact, strict=True
                )
            ),
        ),
        Picture(
            "two",
            "Weights of head 1, which looks at a; of head 2, which looks at b; and their average.",
            [
                Bars(title, row[:shown].tolist(), 0.5, ("a", "b"), highest=1.05)
                for title, row in zip(titles, [*weights, weights.mean(axis=0)], strict=True)
            ],
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r})\n"
        f"found = hw.stress.law({setting.scale!r} * keys[:2], noisy, values)\n"
        "print(found)\nprint(found.mean_squared_error((values[0] + values[1]) / 2))",
    )


def _equal_heads(setting: Setting, query: Float[np.ndarray, " d"], keys: Float[np.ndarray, "k d"]) -> float:
    """Return how far the average of two heads with the same query is from one head."""
    one = np.asarray(attend(query, keys, setting.values).contexts)
    two = np.asarray(attend(np.stack([query, query]), keys, setting.values).contexts)
    return float(np.linalg.norm(two.mean(axis=0) - one))


def two_heads(setting: Setting) -> Part:
    """Part d.ii."""
    noisy, n, tau = setting.noisy(0.0), setting.keys, setting.length_variance
    queries = setting.scale * setting.means[:2], setting.scale * setting.pair
    found, one = (law(given, noisy, setting.values, tolerance=FINE) for given in queries)
    exact, given = (spread(n, setting.scale, tau, heads=2, positive=positive) for positive in (False, True))
    squared, other = (each.mean_squared_error(setting.target) for each in (found, one))
    curves = error_curves(setting)
    single, double = curves.series["one head"], curves.series["two heads"]
    ratios = double.variances / single.variances
    doubts = (double.variance_errors + ratios * single.variance_errors) / single.variances
    worst = int(np.argmax(ratios))
    turned = negative(tau)
    limits = [endless(n, tau, heads=2, positive=positive) for positive in (False, True)]
    better = _where_better(n, tau)
    return told(
        setting,
        "d.ii",
        {
            "tau": f"{tau:g}",
            "scale": f"{setting.scale:g}",
            "variance": f"{found.variance:.3g}",
            "one": f"{one.variance:.3g}",
            "rest": _what_remains(tau),
            "positive": f"{given.variance:.3g}",
            "better": better,
        },
        (
            Finding("the variance of the output", found.variance, found.variance_error, "=", exact.variance, exact.error),
            Finding(
                "the mean squared error, against one head",
                squared.value,
                squared.error + setting.rounded_away(squared.value),
                "<",
                other.value,
                other.error,
                otherwise=f"At a scale of {setting.scale:g} two heads do not err less than one: {squared.value:.3g} against "
                f"{other.value:.3g}. {better}",
            ),
            Finding(
                "the largest ratio of variances, two heads over one, at 25 scales",
                float(ratios[worst]),
                float(doubts[worst]),
                "<",
                1.0,
                otherwise=f"At a scale of {curves.scales[worst]:.3g} two heads do not vary less than one.",
            ),
            Finding("the probability of a negative length", given.left_out, given.left_out_error, "=", turned),
            Finding("the variance given a positive length", given.variance, given.error),
            Finding(
                "the variance for endless queries",
                limits[0].value,
                limits[0].error,
                "=",
                turned * (1 - turned) / 4 * n / (n - 1),
            ),
            Finding("the same given a positive length", limits[1].value, limits[1].error, "=", 0.0),
        ),
        _held(setting, one, found, curves),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {tau!r}}})\n"
        f"found = hw.stress.law({setting.scale!r} * keys[:2], noisy, values, tolerance={FINE!r})\n"
        "print(found, found.mean_squared_error((values[0] + values[1]) / 2))\nprint(found.variance)",
    )


def _held(setting: Setting, one: Law, found: Law, curves: Curve) -> Picture:
    """Show the outputs of one head and of two, and the error of both at every scale."""
    return Picture(
        "hold",
        f"Outputs of one head, of variance {one.variance:.3g}; outputs of two heads, of variance {found.variance:.3g}; and "
        "mean squared error and variance of both against the scale.",
        [
            cloud(setting, one, rf"one head, $q = {setting.scale:g}\,(\mu_a + \mu_b)$"),
            cloud(setting, found, rf"two heads, ${setting.scale:g}\,\mu_a$ and ${setting.scale:g}\,\mu_b$"),
            error_lines(curves),
        ],
        widths=(1, 1, 1.35),
    )


def _what_remains(length_variance: float) -> str:
    """Say what the two heads still suffer from."""
    turned, deviation = negative(length_variance), math.sqrt(length_variance)
    if turned < 1e-4:
        return (
            f"Negative lengths do not matter here, their probability is {turned:.1g}: what varies is how much short keys leak."
        )
    return (
        f"What remains: {100 * turned:.2g}% of lengths are negative ($\\tau$ is a variance, the standard deviation is "
        f"{deviation:.3g}), and lengths near zero leak."
    )


def _where_better(keys: int, length_variance: float) -> str:
    """Say at which scales two heads have the smaller mean squared error."""

    def gain(scale: float) -> float:
        one, two = (spread(keys, scale, length_variance, heads=heads).mean_squared_error for heads in (1, 2))
        return one - two

    grid = np.geomspace(0.3, 300, 16).tolist()
    wins = [gain(scale) > 0 for scale in grid]
    first = wins.index(True) if True in wins else len(grid)
    if first == 0 and all(wins):
        return "Two heads have the smaller mean squared error at every scale looked at, from 0.3 to 300."
    if 0 < first < len(grid) and all(wins[first:]):
        crossing = brentq(gain, grid[first - 1], grid[first], xtol=1e-4)
        return (
            f"One head has the smaller mean squared error below a scale of {crossing:.3g}, for two short queries leak twice; "
            "two heads have it above."
        )
    return f"Two heads have the smaller mean squared error at {sum(wins)} of {len(grid)} scales from 0.3 to 300."
