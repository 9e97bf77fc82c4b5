"""Weights, leaks and entropy against 50-digit arithmetic, from the same float64 scores."""

import mpmath
import numpy as np
import pytest

import headwise as hw

EPS = np.finfo(np.float64).eps


def nasty_settings():
    """A few hundred rows of scores: random at every size, ties, gaps of one ulp, offsets that swamp the rest."""
    rng = np.random.default_rng(7)
    for size in (1e-12, 1e-3, 1.0, 30.0, 700.0, 1e4, 1e8, 1e15, 1e300):
        for count in (2, 3, 10, 60):
            for _ in range(7):
                yield size * rng.normal(size=count)
    for count in (2, 5, 40):
        yield np.zeros(count)
        yield np.full(count, 1e300)
        yield np.r_[np.zeros(count), 800.0]
        yield np.r_[np.zeros(count), -800.0]
        yield 1e4 + rng.normal(size=count)
        yield -1e4 + rng.normal(size=count)
        yield np.r_[1e300, -1e300, rng.normal(size=count)]
        yield np.nextafter(np.full(count, 1e4), rng.choice([-np.inf, np.inf], count))
        yield np.linspace(0, -2000, count)
        yield np.r_[0.0, -1e6 * np.arange(1, count)]


ROWS = list(nasty_settings())


@pytest.fixture(scope="module", autouse=True)
def digits():
    # exp(-1e6) and 1 + exp(-2000) both need to be told apart from their neighbours.
    with mpmath.workdps(50):
        yield


def exact(scores):
    """Return weights as logarithms, and the largest score and the log of the sum beside it."""
    peak = mpmath.mpf(float(max(scores)))
    rest = [mpmath.mpf(float(score)) - peak for score in scores]
    total = mpmath.log(mpmath.fsum(mpmath.exp(item) for item in rest))
    return [item - total for item in rest]


def test_every_weight(record_property):
    worst = 0.0
    for scores in ROWS:
        out = hw.attend(np.ones(1), scores[:, None], scores[:, None] * 0)
        np.testing.assert_array_equal(out.scores, scores)
        for weight, log in zip(out.weights, exact(scores), strict=True):
            wanted = mpmath.exp(log)
            if wanted < 1e-290:  # near the end of float64 the last digits are lost, not the size
                assert abs(mpmath.mpf(float(weight)) - wanted) < 1e-300
                continue
            error = abs(mpmath.mpf(float(weight)) / wanted - 1) / (8 * EPS * (1 + abs(log)))
            worst = max(worst, float(error))
    record_property("worst case", f"weights of {len(ROWS)} rows: worst error {worst:.3f} of 8 eps (1 + |s - lse|)")
    assert worst <= 1


def test_every_leak(record_property):
    worst, smallest = 0.0, 0.0
    for scores in ROWS:
        out = hw.attend(np.ones(1), scores[:, None], scores[:, None] * 0)
        logs = exact(scores)
        for rows in ([int(np.argmax(scores))], [0], list(range(len(scores) // 2)), [int(np.argmin(scores))]):
            outside = [log for row, log in enumerate(logs) if row not in rows]
            peak = max(outside)
            wanted = peak + mpmath.log(mpmath.fsum(mpmath.exp(log - peak) for log in outside))
            error = abs(mpmath.mpf(float(out.log_leak(rows))) - wanted) / (1e-12 * (1 + abs(wanted)))
            worst, smallest = max(worst, float(error)), min(smallest, float(wanted))
            if wanted > -690:
                ratio = mpmath.mpf(float(out.leak(rows))) / mpmath.exp(wanted)
                assert abs(ratio - 1) <= 1e-12 * (1 + abs(wanted))
    record_property("worst case", f"leaks down to e^{smallest:.3g}: worst error {worst:.3f} of 1e-12 (1 + |log leak|)")
    assert worst <= 1


def test_entropy_and_the_rest(record_property):
    """Relative accuracy even where the entropy is 1e-289, which 1 + 1e-289 would hide; hence 400 digits here."""
    worst = {"entropy": 0.0, "effective_keys": 0.0, "collision_keys": 0.0, "log_normalizer": 0.0}
    with mpmath.workdps(400):
        for scores in ROWS:
            out = hw.attend(np.ones(1), scores[:, None], scores[:, None] * 0)
            logs = exact(scores)
            weights = [mpmath.exp(log) for log in logs]
            entropy = -mpmath.fsum(weight * log for weight, log in zip(weights, logs, strict=True))
            peak = mpmath.mpf(float(max(scores)))
            # The log-normaliser is a sum of two numbers that may cancel: its error is relative to them.
            wanted = {
                "entropy": (entropy, entropy),
                "effective_keys": (mpmath.exp(entropy), 1),
                "collision_keys": (1 / mpmath.fsum(weight**2 for weight in weights), 1),
                "log_normalizer": (peak - max(logs), abs(peak) + abs(max(logs))),
            }
            for name, (value, size) in wanted.items():
                found = mpmath.mpf(float(getattr(out, name)))
                if size < 1e-289:
                    assert abs(found - value) < 1e-289
                    continue
                worst[name] = max(worst[name], float(abs(found - value) / size))
    record_property("worst case", "worst error: " + ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
    assert max(worst.values()) <= 1e-12
