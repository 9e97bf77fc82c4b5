"""How often the stated error of each method covers the truth, over a thousand random settings."""

import sys
from pathlib import Path

import numpy as np

from headwise.stress import law

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SETTINGS = 1000
# Seeds that no constant was chosen on.
FIRST = 500_000
METHODS = {"pairs": 1e-3, "auto": 1e-2, "hybrid": 3e-2, "montecarlo": 3e-2}


def main() -> None:
    from noisy_settings import setting

    covered = {method: np.zeros(3) for method in METHODS}
    met = dict.fromkeys(METHODS, 0)
    for seed in range(FIRST, FIRST + SETTINGS):
        queries, keys, values = setting(seed, most_keys=30)
        truth = law(queries, keys, values, method="pairs", tolerance=1e-6)
        for method, tolerance in METHODS.items():
            found = law(queries, keys, values, method=method, tolerance=tolerance, seed=seed)
            met[method] += found.met
            covered[method] += [
                np.linalg.norm(found.mean - truth.mean) <= found.mean_error + truth.mean_error,
                np.linalg.norm(found.covariance - truth.covariance) <= found.covariance_error + truth.covariance_error,
                abs(found.variance - truth.variance) <= found.variance_error + truth.variance_error,
            ]
    print(f"{'method':<12} {'mean':>7} {'covariance':>11} {'variance':>9}   within tolerance   ({SETTINGS} settings)")
    for method, counts in covered.items():
        mean, covariance, variance = 100 * counts / SETTINGS
        print(f"{method:<12} {mean:>6.1f}% {covariance:>10.1f}% {variance:>8.1f}% {100 * met[method] / SETTINGS:>17.1f}%")
