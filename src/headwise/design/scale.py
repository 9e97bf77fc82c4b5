"""How long a query must be: the smallest scale at which the weight outside a set is small enough."""

import math

import numpy as np
from jaxtyping import Float


def log_leak(scale: float, gaps: Float[np.ndarray, " k"], inside: int) -> float:
    """Return the log of the weight on keys that are `gaps` below `inside` equal winners, at a scale.

    >>> round(math.exp(log_leak(1.0, np.full(8, 1.0), 2)), 6)  # 8 / (2 e + 8)
    0.59539
    """
    if not len(gaps):
        return -math.inf
    exponents = -scale * gaps
    top = float(exponents.max())
    outside = top + math.log(float(np.exp(exponents - top).sum()))
    return outside - float(np.logaddexp(outside, math.log(inside)))


def smallest_scale(gaps: Float[np.ndarray, " k"], inside: int, leak: float) -> float:
    """Return the smallest scale at which `inside` equal winners leak at most `leak` to keys that lie `gaps` below them.

    The log of the outside mass is convex and falls with the scale, so Newton's method from the left never passes the root;
    it is kept between bounds all the same.

    >>> round(smallest_scale(np.full(8, 1.0), 2, 1e-3), 6)  # log(8 (1 - leak) / (2 leak))
    8.293049
    """
    wanted = math.log(inside) + math.log(leak) - math.log1p(-leak)
    if not len(gaps) or math.log(len(gaps)) <= wanted:
        return 0.0
    smallest = float(gaps.min())
    relative = gaps / smallest
    # The smallest gap alone needs `low`; if all gaps were that small, `high`.
    low, high = max(0.0, -wanted), math.log(len(gaps)) - wanted
    for _ in range(200):
        exponents = -low * relative
        top = float(exponents.max())
        terms = np.exp(exponents - top)
        excess = top + math.log(float(terms.sum())) - wanted
        if excess <= 0:
            break
        step = min(high, low + excess * float(terms.sum()) / float(terms @ relative))
        if step - low <= 4e-16 * step:
            break
        low = step
    return low / smallest
