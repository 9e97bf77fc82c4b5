"""Part c: one head and noisy keys."""

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from headwise.core.attend import attend
from headwise.stress import Law, curve, law
from headwise.study.curves import error_lines
from headwise.study.length import best_scale, endless, spread
from headwise.study.part import Finding, Part, told
from headwise.study.pictures import Cloud, Line, Lines, Mark, Picture
from headwise.study.setting import Setting

# Variance of the output that is called small: a tenth of a value's length, squared.
_SMALL = 0.01


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
    reached = _stretch_for(setting, _SMALL)
    return told(
        setting,
        "c.i",
        {"stretched": "0.000001", "small": _SMALL, "reached": f"{reached:.2g}"},
        (
            Finding("the variance of the output", found.variance, found.variance_error, "=", linear, doubt),
            Finding(
                "the mean squared error, against that without noise plus the variance",
                squared.value,
                squared.error,
                "=",
                plain + linear,
                doubt + 2 * math.sqrt(plain) * 10 * linear,
            ),
            Finding(f"the αβ² at which the variance is {_SMALL:g}", reached, 1e-3 * reached),
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
                    [Mark(f"{_SMALL:g} at {reached:.2g}", reached, _SMALL)],
                    "xy",
                )
            ],
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, isotropic={setting.tiny!r})\n"
        f"found = hw.stress.law({setting.scale!r} * (keys[0] + keys[1]), noisy, values, tolerance=1e-6)\n"
        "print(found)\nfound.variance",
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
        f"{title}\nvariance {found.variance:.4f}",
        found.sample(400, seed=setting.seed + 1) @ plane.T,
        (plane @ found.mean).tolist(),
        found.covariance_in(plane),
    )


def scales(setting: Setting) -> Float[np.ndarray, " s"]:
    """Return the scales of curves, from 0.3 to well beyond the scale in use."""
    return np.geomspace(0.3, max(50.0, 2 * setting.scale), 25)


def length_noise(setting: Setting) -> Part:
    """Part c.ii."""
    noisy = setting.noisy(0.0)
    found = law(setting.scale * setting.pair, noisy, setting.values)
    exact = spread(setting.keys, setting.scale, setting.length_variance, heads=1)
    curves = curve({"one head": setting.pair}, noisy, setting.values, setting.target, scales=scales(setting))
    best, least = best_scale(setting.keys, setting.length_variance)
    near = law(best * setting.pair, noisy, setting.values).mean_squared_error(setting.target)
    flip, squared = found.flip_probability(0), found.mean_squared_error(setting.target)
    # The value at the end counts as jumped to if it gets nine tenths of the weight.
    low, high = (found.cdf(setting.values[0], share) for share in (0.1, 0.9))
    limit = endless(setting.keys, setting.length_variance, heads=1)
    return told(
        setting,
        "c.ii",
        {
            "tau": f"{setting.length_variance:g}",
            "scale": f"{setting.scale:g}",
            "best": f"{best:.2f}",
            "least": f"{least:.3f}",
            "jumped": f"{100 * (1 - high.value + low.value):.0f}",
        },
        (
            Finding("the variance of the output", found.variance, found.variance_error, "=", exact.variance, exact.error),
            Finding("the mean squared error", squared.value, squared.error, "=", exact.mean_squared_error, exact.error),
            Finding("the probability that a scores highest", flip.value, flip.error, "=", 0.5),
            Finding("the probability that a gets under 0.1 or over 0.9", 1 - high.value + low.value, low.error + high.error),
            Finding("the best scale", best, 1e-3 * best),
            Finding("the least mean squared error", near.value, near.error, "=", least, 1e-9),
            Finding("the variance for an endless query", limit.value, limit.error, "=", 0.5),
        ),
        Picture(
            "jump",
            f"Left, outputs of one head in the plane of two values, on the line between them. Right, the mean squared error "
            f"against the scale, least at {best:.2f}.",
            [
                cloud(setting, found, rf"one head, $q = {setting.scale:g}\,(\mu_a + \mu_b)$"),
                error_lines(curves),
            ],
            widths=(1, 1.3),
        ),
        setting.code() + f"noisy = hw.RandomKeys(keys, along_mean={{0: {setting.length_variance!r}}})\n"
        f"found = hw.stress.law({setting.scale!r} * (keys[0] + keys[1]), noisy, values)\n"
        "print(found.flip_probability(0), found.mean_squared_error((values[0] + values[1]) / 2))\nfound.variance",
    )
