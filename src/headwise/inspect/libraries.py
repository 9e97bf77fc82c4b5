"""The one place of `inspect` that imports torch and transformers, and only on use."""

from typing import Any

from headwise.errors import missing_extra


def torch(function: str) -> Any:  # noqa: ANN401  a module
    """Return torch, or say how to get it."""
    try:
        import torch as module  # noqa: PLC0415
    except ImportError:
        raise missing_extra(function, "torch", "inspect") from None
    return module


def transformers(function: str) -> Any:  # noqa: ANN401  a module
    """Return transformers, or say how to get it."""
    try:
        import transformers as module  # noqa: PLC0415
    except ImportError:
        raise missing_extra(function, "transformers", "inspect") from None
    return module


def registries(function: str) -> tuple[Any, Any]:
    """Return where transformers keeps attention functions and mask functions."""
    module = transformers(function)
    return module.AttentionInterface, module.AttentionMaskInterface


def mask_table(function: str) -> Any:  # noqa: ANN401  a function
    """Return the function of transformers that makes a table of a mask's rule."""
    transformers(function)
    from transformers.masking_utils import sdpa_mask  # noqa: PLC0415

    return sdpa_mask
