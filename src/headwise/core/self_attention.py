"""Self-attention: every token asks, is asked and is read."""

from jaxtyping import Bool, Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.attention import Attention
from headwise.core.masks import Mask
from headwise.core.setting import prepare
from headwise.errors import ShapeError


class SelfAttention:
    """One self-attention head given by its matrices: k_i = K x_i, q_i = Q x_i, v_i = V x_i.

    Parameters
    ----------
    key, query
        Matrices ``(r, d)``, or None for the identity.
    value
        Matrix ``(v, d)``, or None for the identity.
    scale
        Factor on every score.

    Examples
    --------
    Three tokens in which the second reads the first, because Q turns it towards the first:

    >>> import numpy as np
    >>> tokens = np.eye(3)
    >>> turn = np.zeros((3, 3))
    >>> turn[0, 1] = 20.0
    >>> SelfAttention(query=turn)(tokens).contexts[1].round(6)
    array([1., 0., 0.])
    """

    def __init__(
        self,
        *,
        key: Float[Array, "r d"] | Given = None,
        query: Float[Array, "r d"] | Given = None,
        value: Float[Array, "v d"] | Given = None,
        scale: float = 1.0,
    ) -> None:
        """Check that the matrices agree with each other."""
        given = {name: matrix for name, matrix in (("key", key), ("query", query), ("value", value)) if matrix is not None}
        found = arrays.admit("SelfAttention", **given)[1] if given else {}
        for name, matrix in found.items():
            if matrix.ndim != 2:
                raise ShapeError("SelfAttention", f"{name} must be a matrix, but its shape is {tuple(matrix.shape)}")
            arrays.check_finite("SelfAttention", name, matrix)
        self.key, self.query, self.value = (found.get(name) for name in ("key", "query", "value"))
        self.scale = scale

    def __call__(
        self,
        tokens: Float[Array, "*_ n d"] | Given,
        *,
        allowed: Bool[Array, "*_ n n"] | Mask | Given = None,
        empty: str = "error",
    ) -> Attention:
        """Let every token read every token; `allowed` and `empty` as in `attend`."""
        maps = {"queries": ("query", self.query), "keys": ("key", self.key), "values": ("value", self.value)}
        named = {name: matrix for name, matrix in maps.values() if matrix is not None}
        _, found = arrays.admit("SelfAttention", tokens=tokens, **named)
        tokens = found["tokens"]
        arrays.check_rank("SelfAttention", "tokens", tokens, 2, "(..., n, d)")
        for name, matrix in named.items():
            arrays.check_agree("SelfAttention", "d", {"tokens": tokens.shape[-1], name: matrix.shape[1]})
        given = {part: tokens if matrix is None else tokens @ matrix.T for part, (_, matrix) in maps.items()}
        rows = {name: given[part].shape[-1] for part, name in (("queries", "query"), ("keys", "key"))}
        arrays.check_agree("SelfAttention", "r", rows)
        return Attention(prepare("SelfAttention", given, scale=self.scale, allowed=allowed, empty=empty))
