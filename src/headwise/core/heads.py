"""Several heads: queries on shared keys whose contexts are averaged, and projected heads as in Transformers."""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device
from jaxtyping import Bool, Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.attend import attend
from headwise.core.attention import Attention
from headwise.core.masks import Mask, Table, as_mask
from headwise.core.setting import prepare
from headwise.errors import OptionError, ShapeError
from headwise.shown import Shown, Summary, number

# A matrix, or a matrix and the vector added after it.
Projection: TypeAlias = Any


class HeadsAttention(Shown):
    """What several heads read together.

    ``contexts`` is the joint result, ``heads`` the `Attention` of the single heads, with the head axis in front of
    the query axis; ``weights`` are theirs.
    """

    def __init__(self, heads: Attention, contexts: Float[Array, "*_ v"], *, axis: int, joined: str) -> None:
        """Keep the single heads and their joint result; `axis` is the head axis of one number per query."""
        self.heads = heads
        self.contexts = contexts
        self._axis = axis
        self._joined = joined

    @property
    def weights(self) -> Float[Array, "*_ k"]:
        """The weights of every head."""
        return self.heads.weights

    @cached_property
    def mean_weights(self) -> Float[Array, "*_ k"]:
        """The weights averaged over the heads, as ``nn.MultiheadAttention`` reports them."""
        return array_namespace(self.weights).mean(self.weights, axis=self._axis - (self._axis < 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the joint contexts and each head as plain data."""
        return {
            "kind": "heads",
            "joined": self._joined,
            "contexts": arrays.host(self.contexts).tolist(),
            "heads": self.heads.to_dict(),
        }

    def summary(self) -> Summary:
        """Describe each head by its mean over the queries."""
        names = ("top_weight", "margin", "effective_keys", "entropy")
        numbers = {name: arrays.host(getattr(self.heads, name)) for name in names}
        count = numbers["entropy"].shape[self._axis]
        means = {name: np.moveaxis(array, self._axis, 0).reshape(count, -1).mean(axis=1) for name, array in numbers.items()}
        rows = [[str(head), *(number(means[name][head]) for name in names)] for head in range(count)]
        return Summary(
            f"{count} heads, contexts {self._joined}, shape {tuple(self.contexts.shape)}",
            ["head", *(name.replace("_", " ") for name in names)],
            rows,
            ["means over queries"] if numbers["entropy"].size > count else [],
        )

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<HeadsAttention, contexts {self._joined}: {self.heads!r}>"


def average_heads(
    queries: Float[Array, "h *q d"] | Given,
    keys: Float[Array, "k d"] | Given,
    values: Float[Array, "k v"] | Given,
    *,
    scale: float = 1.0,
    allowed: Bool[Array, "*_ q k"] | Mask | Given = None,
    empty: str = "error",
) -> HeadsAttention:
    """Let several heads read the same keys and values, and average what they read.

    Parameters
    ----------
    queries
        One query per head, ``(h, d)``, or ``(h, q, d)`` for q positions.
    keys, values
        ``(k, d)`` and ``(k, v)``, shared by the heads.
    scale, allowed, empty
        As in `attend`.

    Returns
    -------
    HeadsAttention
        ``contexts`` is the average, ``(v,)`` or ``(q, v)``; ``heads`` holds what each head read.

    Examples
    --------
    >>> import numpy as np
    >>> keys = values = np.eye(4)
    >>> average_heads(20 * keys[:2], keys, values).contexts.round(6)
    array([0.5, 0.5, 0. , 0. ])
    """
    given = {"queries": queries, "keys": keys, "values": values}
    xp, found = arrays.admit("average_heads", **given)
    for name, rank, shape in (("queries", (2, 3), "(h, d) or (h, q, d)"), ("keys", (2,), "(k, d)"), ("values", (2,), "(k, v)")):
        if found[name].ndim not in rank:
            raise ShapeError("average_heads", f"{name} must have shape {shape}, but its shape is {tuple(found[name].shape)}")
    if not found["queries"].shape[0]:
        raise ShapeError("average_heads", "there must be at least one head, but queries has h=0")
    heads = Attention(prepare("average_heads", given, scale=scale, allowed=allowed, empty=empty))
    return HeadsAttention(heads, xp.mean(heads.contexts, axis=0), axis=0, joined="averaged")


class MultiHeadAttention:
    """Projected heads as in Transformers: each head has its own part of W_Q, W_K and W_V, and W_O joins them.

    Parameters
    ----------
    query, key, value
        Matrices ``(h * d, width)`` whose rows are cut into h heads, applied as ``tokens @ matrix.T``; or pairs
        ``(matrix, bias)``.
    output
        Matrix ``(out, h * v)`` that maps the concatenated contexts, or ``(matrix, bias)``; None leaves them as they are.
    heads
        How many heads.
    scale
        Factor on every score; ``d ** -0.5`` unless given.
    extra
        Keys and values, ``(m, h * d)`` and ``(m, h * v)``, that are there for every query besides those from the input
        (``bias_k`` and ``add_zero_attn`` of torch, learned sinks).

    Examples
    --------
    Four tokens, two heads: each head sees half of the coordinates, and averages where it sees nothing.

    >>> import numpy as np
    >>> tokens = np.eye(4)
    >>> layer = MultiHeadAttention(10 * np.eye(4), 10 * np.eye(4), np.eye(4), heads=2)
    >>> layer(tokens).contexts.round(3)
    array([[1.  , 0.  , 0.25, 0.25],
           [0.  , 1.  , 0.25, 0.25],
           [0.25, 0.25, 1.  , 0.  ],
           [0.25, 0.25, 0.  , 1.  ]])
    """

    def __init__(
        self,
        query: Projection,
        key: Projection,
        value: Projection,
        output: Projection | None = None,
        *,
        heads: int,
        scale: float | None = None,
        extra: tuple[Array, Array] | None = None,
    ) -> None:
        """Check that the matrices fit together."""
        if not isinstance(heads, (int, np.integer)) or heads < 1:
            raise OptionError("MultiHeadAttention", f"heads must be a whole number of at least 1, but got {heads!r}")
        self.heads = int(heads)
        named = {"query": query, "key": key, "value": value, "output": output}
        self._maps = {name: _matrix_and_bias(name, given) for name, given in named.items() if given is not None}
        sizes = {name: int(matrix.shape[0]) for name, (matrix, _) in self._maps.items()}
        for name in ("query", "key", "value"):
            if sizes[name] % self.heads:
                raise ShapeError(
                    "MultiHeadAttention",
                    f"{name} must have a multiple of heads={self.heads} rows, but it has {sizes[name]}",
                )
        arrays.check_agree("MultiHeadAttention", "h * d", {"query": sizes["query"], "key": sizes["key"]})
        if output is not None:
            joined = {"output": int(self._maps["output"][0].shape[1]), "value": sizes["value"]}
            arrays.check_agree("MultiHeadAttention", "h * v", joined)
        self.scale = (sizes["query"] // self.heads) ** -0.5 if scale is None else scale
        self.extra = None if extra is None else _extra_rows(extra, sizes)

    @classmethod
    def from_torch(cls, module: object) -> "MultiHeadAttention":
        """Take the parameters of an ``nn.MultiheadAttention``: packed or separate projections, biases, extra rows.

        Inputs are ``(..., position, width)`` whatever the module's ``batch_first`` says, and masks say who *may* look.
        """
        from headwise.core.with_torch import parameters  # noqa: PLC0415  loads torch

        return cls(**parameters(module))

    def __call__(
        self,
        queries: Float[Array, "*_ q width"] | Given,
        keys: Float[Array, "*_ k width"] | Given = None,
        values: Float[Array, "*_ k width"] | Given = None,
        *,
        allowed: Bool[Array, "*_ q k"] | Mask | Given = None,
        empty: str = "error",
    ) -> HeadsAttention:
        """Attend from tokens to tokens; keys default to the queries and values to the keys.

        `allowed` broadcasts to ``(..., h, q, k)``: a table ``(q, k)`` serves all heads, a padding mask of a batch is
        ``(n, 1, 1, k)``. Extra keys are always allowed.
        """
        keys = queries if keys is None else keys
        values = keys if values is None else values
        tokens = {"queries": queries, "keys": keys, "values": values}
        xp, found = arrays.admit("MultiHeadAttention", **tokens, query=self._maps["query"][0])
        del found["query"]
        parts = {}
        for (name, array), map_name in zip(found.items(), ("query", "key", "value"), strict=True):
            matrix, bias = self._maps[map_name]
            arrays.check_rank("MultiHeadAttention", name, array, 2, "(..., position, width)")
            arrays.check_agree("MultiHeadAttention", "width", {name: array.shape[-1], map_name: matrix.shape[1]})
            parts[name] = array @ matrix.T if bias is None else array @ matrix.T + bias
        if self.extra is not None:
            for name, rows in zip(("keys", "values"), self.extra, strict=True):
                shape = (*parts[name].shape[:-2], *rows.shape)
                parts[name] = xp.concat([parts[name], xp.broadcast_to(rows, shape)], axis=-2)
            allowed = None if allowed is None else self._widened(xp, allowed, parts["keys"])
        split = {name: self._split(xp, array) for name, array in parts.items()}
        heads = attend(**split, scale=self.scale, allowed=allowed, empty=empty)
        joined = xp.moveaxis(heads.contexts, -3, -2)
        joined = xp.reshape(joined, (*joined.shape[:-2], -1))
        if "output" in self._maps:
            matrix, bias = self._maps["output"]
            joined = joined @ matrix.T if bias is None else joined @ matrix.T + bias
        return HeadsAttention(heads, joined, axis=-2, joined="projected")

    def _split(self, xp: Any, array: Array) -> Array:  # noqa: ANN401
        """Cut the last axis into heads and put the head axis in front of the positions."""
        return xp.moveaxis(xp.reshape(array, (*array.shape[:-1], self.heads, -1)), -2, -3)

    def _widened(self, xp: Any, allowed: object, keys: Array) -> Mask:  # noqa: ANN401
        """Let every query look at the extra keys."""
        table = as_mask("MultiHeadAttention", allowed).table(xp, device(keys))
        count = self.extra[0].shape[0] if self.extra else 0
        table = xp.broadcast_to(table, (*table.shape[:-1], keys.shape[-2] - count))
        return Table(xp.concat([table, xp.ones((*table.shape[:-1], count), dtype=xp.bool, device=device(keys))], axis=-1))


def _matrix_and_bias(name: str, given: Projection) -> tuple[Array, Array | None]:
    function = "MultiHeadAttention"
    matrix, bias = given if isinstance(given, tuple) else (given, None)
    _, found = arrays.admit(function, **{name: matrix})
    matrix = found[name]
    if matrix.ndim != 2:
        raise ShapeError(function, f"{name} must be a matrix, but its shape is {tuple(matrix.shape)}")
    arrays.check_finite(function, name, matrix)
    if bias is not None:
        _, found = arrays.admit(function, **{name: matrix, f"{name} bias": bias})
        bias = found[f"{name} bias"]
        if tuple(bias.shape) != (matrix.shape[0],):
            raise ShapeError(
                function, f"{name} bias must have shape ({matrix.shape[0]},), but its shape is {tuple(bias.shape)}"
            )
    return matrix, bias


def _extra_rows(extra: tuple[Array, Array], sizes: dict[str, int]) -> tuple[Array, Array]:
    keys, values = extra
    function = "MultiHeadAttention"
    arrays.check_agree(function, "m", {"extra keys": keys.shape[0], "extra values": values.shape[0]})
    arrays.check_agree(function, "h * d", {"extra keys": keys.shape[1], "key": sizes["key"]})
    arrays.check_agree(function, "h * v", {"extra values": values.shape[1], "value": sizes["value"]})
    return keys, values
