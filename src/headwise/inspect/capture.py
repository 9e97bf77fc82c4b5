"""Listening to the attention of a transformers model: our own attention and mask function, for as long as the block runs.

transformers calls a registered attention function with queries and keys as they are multiplied (after rotary positions and
QK-norm, key heads not repeated), and a registered mask function with a rule in place of a table. Both are registered here
under a name of their own, and everything is put back afterwards, also after an error.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

from headwise.arrays import Array
from headwise.errors import HeadwiseError
from headwise.inspect import libraries
from headwise.inspect.rules import Answer, Rule, Spans

_NUMBER = count()
# Bytes of tables that a rule keeps for the next layer.
_KEPT = 1 << 26

Attend = Callable[..., tuple[Array, None]]


class UnsupportedModelError(HeadwiseError, ValueError):
    """A model whose attention cannot be seen."""


class ModelRule(Rule):
    """What the model's own mask says, asked block by block, and the padding and segments of this batch."""

    def __init__(self, spans: Spans, ask: Callable[[int, slice, slice], Array]) -> None:
        """`ask` returns the model's table for a batch entry and a block."""
        self.queries, self.keys, self.spans, self.ask = spans.queries, spans.keys, spans, ask
        self._known: dict[tuple[int, ...], Answer] = {}
        self._size = 0

    def block(self, batch: int, rows: slice, columns: slice) -> Answer:
        """Say which keys of a block may be looked at; the answer is kept for the layers that follow."""
        place = (batch, rows.start, rows.stop, columns.start, columns.stop)
        if place in self._known:
            return self._known[place]
        answer = self.spans.block(batch, rows, columns)
        if answer is not False:
            table = self.ask(batch, rows, columns)
            table = table if answer is True else table & answer
            answer = True if bool(table.all()) else table if bool(table.any()) else False
        size = 1 if isinstance(answer, bool) else answer.numel()
        if self._size + size <= _KEPT:
            self._known[place], self._size = answer, self._size + size
        return answer

    def first(self, batch: int) -> Array:
        """Return for each query the first key of its text."""
        return self.spans.first(batch)


def mask_function(function: str, spans: Callable[[int, int, Any], Spans]) -> Callable[..., Rule]:
    """Return what transformers calls to make a mask; `spans` gives padding and segments of the batch at hand."""
    sdpa_mask = libraries.mask_table(function)

    def make(*, q_length: int, kv_length: int, device: Any = "cpu", **given: Any) -> Rule:  # noqa: ANN401
        shared = {name: given[name] for name in ("mask_function", "use_vmap") if name in given}
        offset, key_offset, size = given.get("q_offset", 0), given.get("kv_offset", 0), given["batch_size"]

        def ask(batch: int, rows: slice, columns: slice) -> Array:
            table = sdpa_mask(
                batch_size=size,
                q_length=rows.stop - rows.start,
                kv_length=columns.stop - columns.start,
                q_offset=offset + rows.start,
                kv_offset=key_offset + columns.start,
                allow_is_causal_skip=False,
                device=device,
                **shared,
            )
            return table[batch, 0]

        return ModelRule(spans(q_length, kv_length, device), ask)

    return make


@contextmanager
def listening(function: str, model: Any, attend: Attend, mask: Callable[..., Rule]) -> Iterator[None]:  # noqa: ANN401
    """Let `attend` and `mask` do the attention of a model, in evaluation mode; afterwards all is as it was."""
    check_supported(function, model)
    name = f"headwise_{next(_NUMBER)}"
    with ExitStack() as undo:
        for registry, ours in zip(libraries.registries(function), (attend, mask), strict=True):
            registry.register(name, ours)
            undo.callback(registry._global_mapping.pop, name, None)  # noqa: SLF001  transformers has no way to unregister
        for config in _configs(model):
            before = config._attn_implementation_internal  # noqa: SLF001  the setter would change sub-configs too
            undo.callback(setattr, config, "_attn_implementation_internal", before)
            config._attn_implementation_internal = name  # noqa: SLF001
        for module in [module for module in model.modules() if module.training]:
            undo.callback(setattr, module, "training", module.training)
            module.training = False
        yield


def check_supported(function: str, model: Any) -> None:  # noqa: ANN401  a model
    """Refuse what is no model, is two, reads no tokens, or hides its attention."""
    name, step = type(model).__name__, "Use a model of transformers that has an attn_implementation to choose."
    if not hasattr(model, "config") or not hasattr(model, "_can_set_attn_implementation"):
        raise UnsupportedModelError(function, f"model must be a transformers model, but it is a {name}")
    base = getattr(model, "base_model", model)
    if all(getattr(base, half, None) is not None for half in ("encoder", "decoder")):
        raise UnsupportedModelError(
            function, f"model must be an encoder or a decoder, but {name} is both", "Pass model.get_encoder()."
        )
    if getattr(base, "main_input_name", "input_ids") != "input_ids":
        raise UnsupportedModelError(function, f"model must read token ids, but {name} takes none")
    if not model._can_set_attn_implementation():  # noqa: SLF001
        raise unseen(function, name, step)


def unseen(function: str, name: str, step: str = "") -> UnsupportedModelError:
    """Say that a model computes attention where nobody can listen."""
    return UnsupportedModelError(
        function, f"attention must go through transformers' AttentionInterface, but {name} computes it by itself", step
    )


def _configs(model: Any) -> list[Any]:  # noqa: ANN401  a model
    """Return every configuration that some module of the model reads, once each."""
    found: dict[int, Any] = {}
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    while waiting:
        config = waiting.pop()
        if id(config) not in found and hasattr(config, "_attn_implementation_internal"):
            found[id(config)] = config
            waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(found.values())
