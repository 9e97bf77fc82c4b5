"""The parts of the exercise that the operation alone can show, each computed and held against its formula."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headwise.core.attend import attend
from headwise.core.orthonormal import orthonormal
from headwise.core.self_attention import SelfAttention

KEYS = 10


@dataclass(frozen=True)
class Part:
    """One claim: what it says, what was found, what the formula gives, and how far apart they may be."""

    name: str
    claim: str
    found: float
    expected: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether what was found is what the formula gives, up to rounding."""
        return abs(self.found - self.expected) <= self.tolerance


def leak_of_pair(beta: float, count: int = KEYS) -> float:
    """Return the weight outside a pair of `count` orthonormal keys under the query beta (k_a + k_b).

    >>> round((1 - leak_of_pair(1.0)) / 2, 4)
    0.2023
    """
    return (count - 2) / (2 * math.exp(beta) + count - 2)


def beta_for(leak: float, count: int = KEYS) -> float:
    """Return the scale at which a pair of `count` orthonormal keys leaks exactly `leak`.

    >>> round(beta_for(1e-3), 4)
    8.293
    """
    return math.log((count - 2) * (1 - leak) / (2 * leak))


def parts() -> Iterator[Part]:
    """Yield every part, in the order of the exercise."""
    rounding = 1e-12
    rng = np.random.default_rng(0)
    setting = attend(rng.standard_normal(6), rng.standard_normal((KEYS, 6)), rng.standard_normal((KEYS, 3)))
    yield Part("a.i", "weights are a distribution: they sum to", float(setting.weights.sum()), 1.0, rounding)

    keys, values = orthonormal(KEYS, 16), orthonormal(KEYS, 16, seed=1)
    margin = math.log((KEYS - 1) * (1 - 1e-3) / 1e-3)
    copy = attend(margin * keys[3], keys, values)
    yield Part("a.ii", f"a margin of {margin:.2f} copies: the weight elsewhere is", float(copy.leak(3)), 1e-3, rounding)
    distance = float(np.linalg.norm(copy.contexts - values[3]))
    # The other values are at right angles: |c - v| = leak sqrt(1 + 1/(n-1)).
    yield Part("a.iii", "and the output is the value, up to", distance, 1e-3 * math.sqrt(1 + 1 / (KEYS - 1)), rounding)

    pair = keys[0] + keys[1]
    plain = attend(pair, keys, values)
    yield Part(
        "b.ii", "the sum of two keys alone gives each a weight of", float(plain.weights[0]), (1 - leak_of_pair(1)) / 2, rounding
    )
    beta = beta_for(1e-3)
    long = attend(beta * pair, keys, values)
    yield Part("b.ii", f"scaled by {beta:.2f} it leaks only", float(long.leak([0, 1])), 1e-3, rounding)

    size = 5.0
    u_a, u_b, u_c, u_d = size * np.eye(4)
    context = SelfAttention()(np.stack([u_d + u_b, u_a, u_c + u_b])).contexts[1]
    away = 2 / (math.exp(size**2) + 2)
    yield Part(
        "e.i", "without K, Q, V token 2 reads itself: weight elsewhere", 1 - float(context @ u_a) / size**2, away, rounding
    )
