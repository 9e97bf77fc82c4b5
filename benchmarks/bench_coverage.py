"""How often the stated error of each method covers the truth, over a thousand random settings.

The truth is the integral of a thousandth of the error. One head of each setting is asked for by "laplace", all heads by the
others; "delta" meets the same keys with noise smaller by a factor between 10^2 and 10^8, where it applies. What the integrals
themselves state is compared with plain sums, on settings of two keys from calm to extremely noisy.
"""

import sys
from pathlib import Path

import numpy as np

from headwise.stress import Law, law

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SETTINGS = 1000
# Seeds that no constant was chosen on.
FIRST = 500_000
# Of each method: what it is asked about, and to which tolerance.
METHODS = {
    "laplace": ("one head", 1e-3),
    "pairs": ("all heads", 1e-3),
    "auto": ("all heads", 1e-2),
    "hybrid": ("all heads", 3e-2),
    "montecarlo": ("all heads", 3e-2),
    "delta": ("quiet keys", 1e-2),
}


def covers(found: Law, truth: Law) -> list[bool]:
    """Say of mean, covariance and variance whether the stated error covers the truth."""
    return [
        bool(np.linalg.norm(found.mean - truth.mean) <= found.mean_error + truth.mean_error),
        bool(np.linalg.norm(found.covariance - truth.covariance) <= found.covariance_error + truth.covariance_error),
        abs(found.variance - truth.variance) <= found.variance_error + truth.variance_error,
    ]


def two_keys() -> None:
    """Print how often integrals over two keys cover plain sums."""
    from two_keys import lone_setting, one_head_law, pair_of_keys, paired_setting, two_heads_law

    from headwise import RandomKeys

    values, rng = np.array([[1.0], [0.0]]), np.random.default_rng(FIRST)
    for name, count in (("laplace", SETTINGS), ("pairs", SETTINGS // 5)):
        covered = np.zeros(2)
        for _ in range(count):
            if name == "laplace":
                means, deviations = lone_setting(rng)
                mean, variance = one_head_law(means[0] - means[1], float(np.hypot(*deviations)))
                queries, keys = np.ones(1), RandomKeys(means[:, None], diagonal=(deviations**2)[:, None])
            else:
                means, factors = paired_setting(rng)
                mean, variance = two_heads_law(means[0] - means[1], sum(factor.T @ factor for factor in factors))
                queries, keys = np.eye(2), pair_of_keys(means, factors)
            found = law(queries, keys, values, method=name, tolerance=1e-6)
            # Plain sums have a rounding of their own.
            covered += (
                abs(found.mean[0] - mean) <= found.mean_error + 1e-13,
                abs(found.variance - variance) <= found.covariance_error + (3e-13 * variance if name == "laplace" else 1e-14),
            )
        mean, covariance = 100 * covered / count
        print(f"{name:<12} {mean:>6.1f}% {covariance:>10.1f}%             two keys to 1e-6, by plain sums   ({count} settings)")


def main() -> None:
    from noisy_settings import quieter, setting

    covered = {method: np.zeros(3) for method in METHODS}
    met = dict.fromkeys(METHODS, 0)
    for seed in range(FIRST, FIRST + SETTINGS):
        queries, keys, values = setting(seed, most_keys=30)
        quiet = quieter(keys, 10 ** -np.random.default_rng(seed).uniform(2, 8))
        given = {"all heads": (queries, keys), "one head": (queries[0], keys), "quiet keys": (queries, quiet)}
        truths = {name: law(*asked, values, method="pairs", tolerance=1e-6) for name, asked in given.items()}
        for method, (name, tolerance) in METHODS.items():
            found = law(*given[name], values, method=method, tolerance=tolerance, seed=seed)
            met[method] += found.met
            covered[method] += covers(found, truths[name])
    print(f"{'method':<12} {'mean':>7} {'covariance':>11} {'variance':>9}   within tolerance   ({SETTINGS} settings)")
    for method, counts in covered.items():
        mean, covariance, variance = 100 * counts / SETTINGS
        print(f"{method:<12} {mean:>6.1f}% {covariance:>10.1f}% {variance:>8.1f}% {100 * met[method] / SETTINGS:>17.1f}%")
    two_keys()
