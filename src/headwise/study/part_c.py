"""Part c: one head and noisy keys."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from headwise.core.attend import attend
from headwise.stress import Curve, Law, curve, law
from headwise.study.curves import error_lines
from headwise.study.length import best_scale, endless, jumped, spread
from headwise.study.part import Finding, Part, told
from headwise.study.pictures import Cloud, Line, Lines, Mark, Picture
from headwise.study.setting import SMALL, Setting, leak_of_pair, percent, too_short

# Where negative lengths are rare, what they do takes integrals that reach far.
FINE = 1e-6


def linear_variance(setting: Setting, query: Float[np.ndarray, " d"], isotropic: float) -> float:
    """Return the variance to first order in the noise: sum_i a_i^2 |v_i - c|^2 times the variance of a score."""
    found = attend(query, setting.means, setting.values)
    weights, context = np.asarray(found.weights), np.asarray(found.contexts)
    away = ((setting.values - context) ** 2).sum(axis=1)
    return float((weights**2 * away).sum()) * isotropic * float(query @ query)


def tiny_noise(setting: Setting) -> Part:
    """Part c.i."""
    query = setting.scale * setting.pair
    found = law(query, setting.noisy(setting.tiny, length=False), setting.values, tolerance=1e-6)
    linear = linear_variance(setting, query, setting.tiny)
    # The next order is smaller by the variance of a score, 2 alpha beta^2, times a small number.
    doubt = 20 * setting.tiny * setting.scale**2 * linear
    stretched = np.geomspace(1e-4, 1e2, 25)
    laws = [law(query, setting.noisy(one / setting.scale**2, length=False), setting.values) for one in stretched]
    variances = [one.variance for one in laws]
    lines = [linear_variance(setting, query, one / setting.scale**2) for one in stretched]
    squared = found.mean_squared_error(setting.target)
    plain = float(((np.asarray(attend(query, setting.means, setting.values).contexts) - setting.target) ** 2).sum())
    error = squared.error + setting.rounded_away(squared.value)
    reached = _stretch_for(setting, SMALL)
    return told(
        setting,
        "c.i",
        {"stretched": "0.000001", "small": SMALL, "reached": f"{reached:.2g}"},
        (
            Finding(
                "the mean squared error",
                squared.value,
                error,
                "<=",
                SMALL,
                otherwise=too_short(setting, leak_of_pair(setting.scale, setting.keys), plain),
            ),
            Finding(
                "the same, against that without noise plus the variance",
                squared.value,
                error,
                "=",
                plain + linear,
                doubt + 2 * math.sqrt(plain) * 10 * linear + setting.rounded_away(plain),
            ),
            Finding("the variance of the output", found.variance, found.variance_error, "=", linear, doubt),
            Finding(f"the αβ² at which the variance is {SMALL:g}", reached, 1e-3 * reached),
        ),
        Picture(
            "tiny",
            "The variance of the output grows in proportion to the noise as long as that is tiny, and flattens when it is not.",
            [
                Lines(
                    "variance of the output against the noise in the scores",
                    r"$\alpha\,\beta^2$",
                    "variance",
                    [
                        Line("first order", stretched.tolist(), lines, "bound"),
                        Line("exact", stretched.tolist(), variances, "one"),
                    ],
                    [Mark(f"{SMALL:g} at {reached:.2g}", reached, SMALL)],
                    "xy",
                )
            ],
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r})\n"
        f"found = hw.stress.law({setting.scale!r} * (keys[0] + keys[1]), noisy, values, tolerance=1e-6)\n"
        "print(found)\nprint(found.mean_squared_error((values[0] + values[1]) / 2))",
    )


def _stretch_for(setting: Setting, variance: float) -> float:
    """Return the noise, stretched by the scale, at which the output has some variance."""

    def gap(log_noise: float) -> float:
        noisy = setting.noisy(math.exp(log_noise) / setting.scale**2, length=False)
        return law(setting.scale * setting.pair, noisy, setting.values, tolerance=1e-5).variance - variance

    return math.exp(brentq(gap, math.log(1e-5), math.log(1e4), xtol=1e-4))


def cloud(setting: Setting, found: Law, title: str) -> Cloud:
    """Show outputs in the plane of v_a and v_b."""
    plane = setting.values[:2]
    return Cloud(
        f"{title}\nvariance {found.variance:.3g}",
        found.sample(400, seed=setting.seed + 1) @ plane.T,
        (plane @ found.mean).tolist(),
        found.covariance_in(plane),
        style="one" if found.scores.heads == 1 else "two",
    )


@lru_cache(maxsize=1)
def error_curves(setting: Setting) -> Curve:
    """Return the errors of one head and of two under length noise, from a scale of 0.3 to well beyond the one in use."""
    queries = {"one head": setting.pair, "two heads": setting.means[:2]}
    scales = np.geomspace(0.3, max(50.0, 2 * setting.scale), 25)
    return curve(queries, setting.noisy(0.0), setting.values, setting.target, scales=scales)


def length_noise(setting: Setting) -> Part:
    """Part c.ii."""
    noisy, n, tau = setting.noisy(0.0), setting.keys, setting.length_variance
    found = law(setting.scale * setting.pair, noisy, setting.values, tolerance=FINE)
    exact = spread(n, setting.scale, tau, heads=1)
    curves = error_curves(setting)
    best, least = best_scale(n, tau)
    near = law(best * setting.pair, noisy, setting.values, tolerance=FINE).mean_squared_error(setting.target)
    flip, squared = found.flip_probability(0), found.mean_squared_error(setting.target)
    ends = jumped(n, setting.scale, tau)
    limit = endless(n, tau, heads=1)
    return told(
        setting,
        "c.ii",
        {
            "tau": f"{tau:g}",
            "scale": f"{setting.scale:g}",
            "jumped": percent(ends),
            "saved": "No scale saves this query" if least > SMALL else "A scale between saves this query",
            "best": f"{best:.2f}",
            "least": f"{least:.2g}",
        },
        (
            Finding("the variance of the output", found.variance, found.variance_error, "=", exact.variance, exact.error),
            Finding(
                "the probability that a or b gets over nine tenths", ends, 1e-12, ">=", 0.5, otherwise=_no_jump(setting, ends)
            ),
            Finding("the mean squared error", squared.value, squared.error, "=", exact.mean_squared_error, exact.error),
            Finding("the probability that a scores highest", flip.value, flip.error, "=", 0.5),
            Finding("the best scale", best, 1e-3 * best),
            Finding("the least mean squared error", near.value, near.error, "=", least, 1e-9),
            Finding("the variance for an endless query", limit.value, limit.error, "=", 0.5),
        ),
        Picture(
            "jump",
            f"Left, outputs of one head in the plane of two values, {percent(ends)} of them near one of them. Right, the mean "
            f"squared error against the scale, least at {best:.2f}.",
            [
                cloud(setting, found, rf"one head, $q = {setting.scale:g}\,(\mu_a + \mu_b)$"),
                error_lines(Curve(curves.scales, {"one head": curves.series["one head"]})),
            ],
            widths=(1, 1.3),
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {tau!r}}})\n"
        f"found = hw.stress.law({setting.scale!r} * (keys[0] + keys[1]), noisy, values, tolerance={FINE!r})\n"
        "print(found.flip_probability(0), found.mean_squared_error((values[0] + values[1]) / 2))\nprint(found.variance)",
    )


def _no_jump(setting: Setting, ends: float) -> str:
    """Say why few outputs are at one end: the query leaks, or the noise does not part the scores of a and b."""
    leak, apart = leak_of_pair(setting.scale, setting.keys), setting.scale * math.sqrt(setting.length_variance)
    reason = (
        f"the query is too short, {percent(leak)} of the weight goes elsewhere"
        if leak > 0.1
        else f"the scores of a and b differ by a standard deviation of {apart:.2g} only"
    )
    return f"Here {percent(ends)} of outputs are near one of the two values: {reason}."
