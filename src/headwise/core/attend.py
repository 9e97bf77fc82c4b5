"""The operation: keys, values and queries in, what each query reads out."""

from jaxtyping import Bool, Float

from headwise.arrays import Array, Given
from headwise.core.attention import Attention
from headwise.core.masks import Mask
from headwise.core.setting import prepare


def attend(
    queries: Float[Array, "*_ q d"] | Given,
    keys: Float[Array, "*_ k d"] | Given,
    values: Float[Array, "*_ k v"] | Given,
    *,
    scale: float = 1.0,
    allowed: Bool[Array, "*_ q k"] | Mask | Given = None,
    empty: str = "error",
) -> Attention:
    """Read from values by softmax attention.

    Each query scores every key, ``s = scale * keys @ query``; softmax turns scores into weights; the context is the
    weighted mean of the values. Nothing is computed before it is asked for, and only ``scores`` and ``weights`` build
    a table of queries by keys: everything else streams over blocks of keys, which may live in a memory-mapped file.

    Parameters
    ----------
    queries
        One query ``(d,)`` or many ``(..., q, d)``.
    keys, values
        ``(..., k, d)`` and ``(..., k, v)``. Batch axes broadcast. All three come from one library (NumPy, PyTorch,
        JAX, CuPy, ...) and the answer is of the same kind, on the same device; lists count as NumPy float64.
    scale
        Factor on every score; 1 unless said otherwise, ``d ** -0.5`` in Transformers.
    allowed
        Boolean table, True where a query may look at a key, that broadcasts to ``(..., q, k)``; or a mask such as
        ``causal(q, k)``.
    empty
        What a query does that is allowed no key: ``"error"``, or ``"zero"`` to read zeros.

    Returns
    -------
    Attention
        ``contexts``, ``weights``, ``scores``, ``log_normalizer``, ``entropy``, ``effective_keys``, ``top``,
        ``margin``, ``leak(indices)`` and more.

    Examples
    --------
    Ten orthonormal keys. A query that is the sum of two of them does not average their values, unless it is long:

    >>> import numpy as np
    >>> keys = values = np.eye(10)
    >>> attend(keys[0] + keys[1], keys, values).weights[:3].round(4)
    array([0.2023, 0.2023, 0.0744])
    >>> out = attend(9 * (keys[0] + keys[1]), keys, values)
    >>> out.weights[:3].round(3)
    array([0.5, 0.5, 0. ])
    >>> float(out.leak([0, 1]).round(6))
    0.000493
    """
    given = {"queries": queries, "keys": keys, "values": values}
    return Attention(prepare("attend", given, scale=scale, allowed=allowed, empty=empty))
