"""Answers about softmax attention, with evidence.

The operation is here (`attend` and its kin); each question has a module of its own. Everything is loaded on first
use, so that ``import headwise`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwise.version import __version__

if TYPE_CHECKING:
    from headwise import check, design, inspect, lab, stress, study
    from headwise.core.attend import attend
    from headwise.core.attention import Attention
    from headwise.core.heads import HeadsAttention, MultiHeadAttention, average_heads
    from headwise.core.masks import causal
    from headwise.core.orthonormal import orthonormal
    from headwise.core.random_keys import RandomKeys, ScoreLaw
    from headwise.core.self_attention import SelfAttention
    from headwise.errors import HeadwiseError

__all__ = [
    "Attention",
    "HeadsAttention",
    "HeadwiseError",
    "MultiHeadAttention",
    "RandomKeys",
    "ScoreLaw",
    "SelfAttention",
    "__version__",
    "attend",
    "average_heads",
    "causal",
    "check",
    "design",
    "inspect",
    "lab",
    "orthonormal",
    "stress",
    "study",
]

_HOME = {
    "Attention": "core.attention",
    "HeadsAttention": "core.heads",
    "HeadwiseError": "errors",
    "MultiHeadAttention": "core.heads",
    "RandomKeys": "core.random_keys",
    "ScoreLaw": "core.random_keys",
    "SelfAttention": "core.self_attention",
    "attend": "core.attend",
    "average_heads": "core.heads",
    "causal": "core.masks",
    "check": "",
    "design": "",
    "inspect": "",
    "lab": "",
    "orthonormal": "core.orthonormal",
    "stress": "",
    "study": "",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  any public name
    if name not in _HOME:
        message = f"module 'headwise' has no attribute {name!r}"
        raise AttributeError(message)
    home = _HOME[name]
    found = getattr(import_module(f"headwise.{home}"), name) if home else import_module(f"headwise.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
