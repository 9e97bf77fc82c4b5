"""Vectors at right angles: the keys that the textbook assumes."""

import numpy as np
from jaxtyping import Float

from headwise.errors import OptionError


def orthonormal(count: int, width: int, *, seed: int | np.random.Generator = 0) -> Float[np.ndarray, "count width"]:
    """Return random vectors of length 1, each at right angles to all others.

    Parameters
    ----------
    count, width
        How many vectors and how many coordinates; count may not exceed width.
    seed
        Same seed, same vectors.

    Returns
    -------
    array
        ``(count, width)``, float64; uniformly distributed over all such systems.

    Examples
    --------
    >>> keys = orthonormal(3, 5)
    >>> bool(np.allclose(keys @ keys.T, np.eye(3), atol=1e-14))
    True
    """
    for name, size in (("count", count), ("width", width)):
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
            raise OptionError("orthonormal", f"{name} must be a whole number of at least 1, but got {size!r}")
    if count > width:
        raise OptionError(
            "orthonormal", f"count may not exceed width, but {count} vectors do not fit at right angles into width {width}"
        )
    draws = np.random.default_rng(seed).standard_normal((width, count))
    basis, triangle = np.linalg.qr(draws)
    # The sign of the diagonal is the solver's choice; fixing it makes the law uniform and the answer reproducible.
    return np.ascontiguousarray((basis * np.sign(np.diagonal(triangle))).T)
