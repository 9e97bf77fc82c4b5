"""The law under one random length against mpmath, down to variances that are nothing beside rounding."""

import mpmath
import pytest

from headwise.study.length import spread

_DIGITS = 40


def _weights(keys: int, scale: mpmath.mpf, z: mpmath.mpf, heads: int) -> list[mpmath.mpf]:
    """Return the weights of a, of b, and of each other key."""
    if heads == 1:
        sizes = [mpmath.exp(scale * z), mpmath.exp(scale), mpmath.mpf(1)]
        total = sizes[0] + sizes[1] + (keys - 2)
        return [size / total for size in sizes]
    first = mpmath.exp(scale * z), mpmath.mpf(1), mpmath.mpf(1)
    second = mpmath.mpf(1), mpmath.exp(scale), mpmath.mpf(1)
    totals = first[0] + keys - 1, second[1] + keys - 1
    return [(a / totals[0] + b / totals[1]) / 2 for a, b in zip(first, second, strict=True)]


@pytest.mark.parametrize(("heads", "positive"), [(1, False), (1, True), (2, False), (2, True)])
@pytest.mark.parametrize(("keys", "scale", "tau"), [(10, 10.0, 0.5), (10, 100.0, 0.01), (500, 5.0, 0.006), (3, 0.2, 0.001)])
def test_length_alone(keys: int, scale: float, tau: float, heads: int, *, positive: bool) -> None:
    with mpmath.workdps(_DIGITS):
        deviation = mpmath.sqrt(mpmath.mpf(tau))
        low, high = (mpmath.mpf(0) if positive else 1 - 15 * deviation), 1 + 15 * deviation
        bends = [1 + k * deviation for k in range(-14, 15)]
        bends += [centre + k / mpmath.mpf(scale) for centre in (0, mpmath.log(keys - 1) / scale, 1) for k in range(-20, 21, 4)]
        points = sorted({low, high, *(bend for bend in bends if low < bend < high)})

        def mean(of: object) -> mpmath.mpf:
            return mpmath.quad(lambda z: mpmath.npdf(z, 1, deviation) * of(z), points, maxdegree=5)  # type: ignore[operator]

        kept = mean(lambda _: 1)
        means = [mean(lambda z, i=i: _weights(keys, mpmath.mpf(scale), z, heads)[i]) / kept for i in range(3)]
        many, wanted = [1, 1, keys - 2], [mpmath.mpf(1) / 2, mpmath.mpf(1) / 2, 0]

        def squares(z: mpmath.mpf) -> mpmath.mpf:
            found = _weights(keys, mpmath.mpf(scale), z, heads)
            return sum(count * (one - centre) ** 2 for count, one, centre in zip(many, found, means, strict=True))

        variance = mean(squares) / kept
        off = sum(count * (centre - goal) ** 2 for count, centre, goal in zip(many, means, wanted, strict=True))
        found = spread(keys, scale, tau, heads=heads, positive=positive)
        assert abs(found.variance - variance) <= found.error
        assert abs(found.variance - variance) <= 1e-10 * variance
        assert abs(found.mean_squared_error - variance - off) <= found.error
        assert (
            abs(found.left_out - (mpmath.erfc(1 / deviation / mpmath.sqrt(2)) / 2 if positive else 0)) <= found.left_out_error
        )
        assert found.error <= 1e-11 * found.mean_squared_error
