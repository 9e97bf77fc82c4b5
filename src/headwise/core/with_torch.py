"""What `core` does with torch: contexts by its fused kernel, and the parameters of its multi-head module.

The only place of `core` that imports torch, and only on use.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwise.arrays import Array
from headwise.core.masks import Causal
from headwise.core.setting import Setting
from headwise.errors import ArrayTypeError, OptionError, missing_extra

_SDPA_RANK = 4


def contexts(setting: Setting) -> Array:
    """Return the contexts in the dtype of the answer, zero for a query that sees nothing."""
    from torch.nn.functional import scaled_dot_product_attention  # noqa: PLC0415

    xp, mask = setting.xp, setting.mask
    batch = np.broadcast_shapes(setting.batch, setting.values.shape[:-2])
    given = (setting.queries, setting.keys, setting.values)
    queries, keys, values = (_four_axes(xp.astype(array, setting.dtype, copy=False), batch) for array in given)
    # torch's own flag means that the first query stands at the first key.
    causal = isinstance(mask, Causal) and mask.offset == 0
    table = None if mask is None or causal else mask.table(xp, setting.device)
    mixed = scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=None if table is None else _four_axes(table, batch),
        is_causal=causal,
        scale=setting.scale,
    )
    mixed = mixed.reshape((*batch, *mixed.shape[-2:]))
    return mixed if table is None else xp.where(xp.any(table, axis=-1)[..., None], mixed, 0.0)


def _four_axes(array: Array, batch: tuple[int, ...]) -> Array:
    """Bring an array to (n, h, length, width), which the fused kernels ask for."""
    array = array.expand(*batch, -1, -1)
    missing = _SDPA_RANK - array.ndim
    return array.flatten(0, -4) if missing < 0 else array[(None,) * missing]


def parameters(module: object) -> dict[str, Any]:
    """Read what `MultiHeadAttention` needs out of an ``nn.MultiheadAttention``."""
    torch = _torch("from_torch")
    if not isinstance(module, torch.nn.MultiheadAttention):
        raise ArrayTypeError("from_torch", f"module must be a torch.nn.MultiheadAttention, but it is a {type(module).__name__}")
    if module.training and module.dropout > 0:
        raise OptionError(
            "from_torch",
            f"module must not drop weights at random, but it is in training mode with dropout {module.dropout}",
            "Call module.eval() first.",
        )

    def plain(tensor: Any) -> Any:  # noqa: ANN401
        return None if tensor is None else tensor.detach()

    packed = module.in_proj_weight
    weights = packed.chunk(3) if packed is not None else (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    projections = [
        (plain(weight), plain(bias))
        for weight, bias in zip((*weights, module.out_proj.weight), (*biases, module.out_proj.bias), strict=True)
    ]
    zero = module.out_proj.weight.new_zeros(1, module.embed_dim)
    rows = [(module.bias_k, module.bias_v)] if module.bias_k is not None else []
    rows += [(zero, zero)] if module.add_zero_attn else []
    extra = [torch.cat([plain(pair[side]).reshape(1, -1) for pair in rows]) for side in (0, 1)] if rows else None
    return {
        **dict(zip(("query", "key", "value", "output"), projections, strict=True)),
        "heads": module.num_heads,
        "extra": extra and tuple(extra),
    }


def linear_maps(matrices: Mapping[str, np.ndarray]) -> Any:  # noqa: ANN401  a torch module
    """Return a ``ModuleDict`` of linear maps without bias, one per matrix."""
    torch = _torch("to_torch")
    maps = torch.nn.ModuleDict()
    for name, matrix in matrices.items():
        rows, columns = matrix.shape
        maps[name] = torch.nn.Linear(columns, rows, bias=False, dtype=torch.float64)
        with torch.no_grad():
            maps[name].weight.copy_(torch.from_numpy(matrix))
    return maps


def multi_head(maps: Mapping[str, np.ndarray], tokens: np.ndarray, heads: int) -> np.ndarray:
    """Return what ``nn.MultiheadAttention`` with square maps and no bias makes of tokens, in double precision."""
    torch = _torch("multi_head")
    module = torch.nn.MultiheadAttention(tokens.shape[1], heads, bias=False, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.from_numpy(np.concatenate([maps[name] for name in ("query", "key", "value")])))
        module.out_proj.weight.copy_(torch.from_numpy(maps["output"]))
        given = torch.from_numpy(tokens)
        return np.asarray(module(given, given, given)[0].numpy())


def _torch(function: str) -> Any:  # noqa: ANN401  a module
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise missing_extra(function, "torch", "inspect") from None
    return torch
