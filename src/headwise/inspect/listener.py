"""What is heard while a model runs: each layer's statistics are summed up as it computes, then its rows are forgotten."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from headwise.arrays import Array
from headwise.core.masks import Table
from headwise.errors import HeadwiseError, OptionError
from headwise.inspect import capture, engine
from headwise.inspect.calls import Calls
from headwise.inspect.geometry import Moments, hooked, places
from headwise.inspect.rules import Rule, Spans
from headwise.inspect.sampled import MOST_ROWS, Sample, chosen_rows
from headwise.inspect.task import Rows, Task
from headwise.inspect.texts import Batch

WHO = "model"
SUMMED = (
    "entropy",
    "effective_keys",
    "collision_keys",
    "top_weight",
    "margin",
    "first_weight",
    "self_weight",
    "previous_weight",
    "gain",
    "sensitivity",
    "context_square",
)
# A text of at most this many tokens is kept whole, to be shown.
SHORT = 64
Progress = Callable[[int, int, str], object]


def layer_count(model: Any) -> int | None:  # noqa: ANN401  a model
    """Return how many layers a model says it has, None if it does not."""
    config: Any = getattr(model, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    found = getattr(config, "num_hidden_layers", None)
    return found if isinstance(found, int) and found > 0 else None


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of an error, without what ends it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].split(". ")[0].strip().rstrip(".!")


class Layer:
    """What is known of a layer so far."""

    def __init__(self, name: str, queries: Array, keys: Array, texts: int, near: int) -> None:
        """Start with no row."""
        self.name, self.heads, self.groups = name, queries.shape[1], keys.shape[1]
        self.width, self.tokens = queries.shape[3], np.zeros(texts)
        self.sums = {name: np.zeros((self.heads, texts)) for name in SUMMED}
        self.margins = np.zeros((self.heads, texts))  # rows whose margin is finite
        self.sample = Sample(self.heads, near)
        self.moments: dict[str, Moments] = {}
        self.window: int | None = None
        self.short: np.ndarray | None = None  # weights of the first text, if it is short

    def take(self, torch: Any, rows: Rows, batch: Batch, heard: dict[str, Array]) -> None:  # noqa: ANN401  a module
        """Add the rows of a batch to the sums of their texts."""
        device, texts = rows.entropy.device, len(self.tokens)
        labels = torch.from_numpy(np.where(batch.counted, batch.texts, texts).reshape(-1)).to(device)
        self.tokens += np.bincount(labels.cpu().numpy(), minlength=texts + 1)[:texts]
        finite = rows.second_score > -torch.inf
        columns = {
            "effective_keys": torch.where(rows.top_index < 0, 0.0, rows.entropy.exp()),
            "collision_keys": torch.where(rows.purity > 0, 1 / rows.purity.clamp(min=1e-38), 0.0),
            "margin": torch.where(finite, rows.top_score - rows.second_score, 0.0),
            "sensitivity": rows.sensitivity,
            "context_square": None if rows.context is None else rows.context.square().sum(-1, dtype=torch.float64),
        }

        def summed(column: Array) -> np.ndarray:
            flat = column.double().transpose(0, 1).reshape(self.heads, -1)
            found = torch.zeros(self.heads, texts + 1, dtype=torch.float64, device=device)
            return found.index_add_(1, labels, flat)[:, :texts].cpu().numpy()

        for name in SUMMED:
            column = columns.get(name, getattr(rows, name, None))
            if column is not None:
                self.sums[name] += summed(column)
        self.margins += summed(finite)
        counted = torch.from_numpy(batch.counted).to(device)
        for place, keys in heard.items():
            moments = self.moments.setdefault(place, Moments(self.groups, keys.shape[-1]))
            moments.add(keys.transpose(0, 1)[:, counted])


class Listener:
    """The attention and mask function of one run, and all that they heard."""

    function = WHO  # who complains

    def __init__(
        self,
        torch: Any,  # noqa: ANN401  a module
        model: Any,  # noqa: ANN401  a model
        texts: int,
        *,
        layers: Iterable[int] | None = None,
        near: int = 8,
        sensitivity: bool = True,
        keep_short: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Prepare to listen; nothing is heard before `run`. With `keep_short`, weights of a short first text are kept."""
        self.keep_short = keep_short
        self.torch, self.model, self.texts, self.near, self.sensitivity = torch, model, texts, near, sensitivity
        self.wanted, self.progress = None if layers is None else set(layers), progress
        self.names = {id(module): name for name, module in model.named_modules()}
        self.total, self.calls = layer_count(model) or 0, Calls(model)
        self.layers: dict[int, Layer] = {}
        self.heard: dict[int, dict[str, Array]] = {}
        self.batch: Batch | None = None
        self.fault: Exception | None = None
        self.spans: dict[tuple[int, int], Spans] = {}

    @property
    def done(self) -> dict[int, Layer]:
        """The layers of which something is known."""
        return {number: layer for number, layer in self.layers.items() if layer.tokens.any()}

    def run(self, batches: Iterable[Batch], forward: Callable[[Batch], object]) -> None:
        """Let the model read every batch."""
        ours = capture.mask_function(self.function, self._spans)
        with self._hooks(), capture.listening(self.function, self.model, self.attend, ours):
            for batch in batches:
                self.batch, self.spans, self.fault = batch, {}, None
                self.calls.start()
                with self._told():
                    forward(batch)
                self._check_met()

    def _check_met(self) -> None:
        """Refuse a model that attended nowhere, and layers that do not attend."""
        known = self.calls.known
        if not known:
            raise capture.unseen(self.function, type(self.model).__name__)
        missing = sorted((self.wanted or set()) - set(known))
        if missing:
            told = ", ".join(map(str, known))
            raise OptionError(self.function, f"layers must be numbers of layers that attend ({told}), but got {missing[0]}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say in a sentence that a model does not run on token ids, or does not leave masks to us."""
        try:
            yield
        except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
            if error is self.fault or isinstance(error, HeadwiseError):
                raise
            name = type(self.model).__name__
            if capture.ModelRule.__name__ in str(error):
                rule = f"masks must be left to the attention function, but {name} changes them"
            else:
                rule = f"model must run on token ids alone, but {name} says: {first_sentence(error)}"
            raise capture.UnsupportedModelError(self.function, rule) from error

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        with ExitStack() as undo:
            for module in self.model.modules():
                undo.callback(module.register_forward_pre_hook(self.calls.enter).remove)
                for handle in hooked(module, self._noted(id(module))):
                    undo.callback(handle.remove)
            yield

    def _noted(self, owner: int) -> Callable[[str, Array], None]:
        return lambda place, found: self.heard.setdefault(owner, {}).__setitem__(place, found)

    def attend(self, *named: Any, **given: Any) -> tuple[Array, None]:  # noqa: ANN401  as transformers calls it
        """Compute attention as the model would, and keep what it did."""
        try:
            return self._attended(*named, **given)
        except Exception as error:
            self.fault = error  # ours, or that of whoever hears of progress: not the model's
            raise

    def _attended(
        self,
        module: Any,  # noqa: ANN401  a torch module
        query: Array,
        key: Array,
        value: Array,
        attention_mask: Any = None,  # noqa: ANN401  a rule, a tensor or nothing
        **given: Any,  # noqa: ANN401  what the model says of its scores
    ) -> tuple[Array, None]:
        number = self.calls.number(self.function, module)
        chosen = self.wanted is None or number in self.wanted
        self._check_known(given)
        task = Task(
            self.torch,
            query,
            key,
            value,
            self._rule(module, attention_mask, query, key, given),
            query.shape[-1] ** -0.5 if given.get("scaling") is None else float(given["scaling"]),
            given.get("softcap"),
            given.get("s_aux"),
            sensitivity=chosen and self.sensitivity,
            tick=self._tick(number),
        )
        found = engine.rows(task, self.function, number)
        heard = self.heard.pop(id(module), {})
        context: Array = found.context
        if chosen:
            self._keep(number, module, task, found, heard)
        return context.transpose(1, 2).to(query.dtype).contiguous(), None

    def _keep(self, number: int, module: Any, task: Task, found: Rows, heard: dict[str, Array]) -> None:  # noqa: ANN401
        assert self.batch is not None  # noqa: S101  for the type checker
        if number not in self.layers:
            name = self.names.get(id(module), type(module).__name__)
            self.layers[number] = Layer(name, task.queries, task.keys, self.texts, self.near)
        layer, batch = self.layers[number], self.batch
        known = places(self.torch, heard, task.queries.shape[1], task.keys)
        for entry in range(len(batch.ids)):
            counted = self.torch.from_numpy(batch.counted[entry]).to(task.queries.device)
            short = (
                self.keep_short
                and layer.short is None
                and not layer.sample.rows
                and batch.segments is None
                and int(batch.real[entry].sum()) <= SHORT
            )
            several = len(np.unique(batch.texts[entry][batch.counted[entry]]))
            chosen = chosen_rows(task, counted, SHORT if short else MOST_ROWS * several)
            if len(chosen):
                weights = layer.sample.add(task, entry, chosen, found)
                if short and len(chosen) == int(counted.sum()):
                    layer.short = weights[:, :, : len(chosen)].float().cpu().numpy()
        # Last, so that a layer that was interrupted shows no rows.
        layer.take(self.torch, found, batch, known or {"attended": task.keys})

    def _tick(self, number: int) -> Callable[[int, int], object] | None:
        if self.progress is None:
            return None
        stage = f"layer {number + 1} of {self.total}" if self.total else f"layer {number + 1}"
        progress = self.progress
        return lambda done, total: progress(done, total, stage)

    def _check_known(self, given: dict[str, Any]) -> None:
        """Refuse what changes scores in a way that is not understood here."""
        if given.get("position_bias") is not None or given.get("head_mask") is not None:
            what = "adds a bias to its scores" if given.get("position_bias") is not None else "masks whole heads"
            raise capture.UnsupportedModelError(
                self.function, f"scores must be products of queries and keys, but {type(self.model).__name__} {what}"
            )

    def _spans(self, queries: int, keys: int, device: Any) -> Spans:  # noqa: ANN401  a device
        """Return the rule of padding and segments of the batch at hand."""
        from array_api_compat import torch as xp  # noqa: PLC0415

        assert self.batch is not None  # noqa: S101  for the type checker
        if (queries, keys) not in self.spans:
            torch, batch = self.torch, self.batch
            padding = None if batch.real.all() else Table(torch.from_numpy(batch.real)[:, None, None, :].to(device))
            segments = None if batch.segments is None else torch.from_numpy(batch.segments).to(device)
            self.spans[queries, keys] = Spans(torch, xp, device, queries, keys, segments=segments, table=padding)
        return self.spans[queries, keys]

    def _rule(self, module: Any, mask: Any, query: Array, key: Array, given: dict[str, Any]) -> Rule:  # noqa: ANN401
        """Return which keys may be looked at: what our own mask function made, or what the model brought itself."""
        if isinstance(mask, Rule):
            return mask
        spans = self._spans(query.shape[2], key.shape[2], query.device)
        if mask is None:
            causal = given.get("is_causal")
            causal = getattr(module, "is_causal", False) if causal is None else causal
            lines = Spans(self.torch, spans.xp, spans.device, spans.queries, spans.keys, causal=bool(causal))
        else:
            table = self._table(mask)
            lines = Spans(self.torch, spans.xp, spans.device, spans.queries, spans.keys, table=Table(table))

        def ask(batch: int, rows: slice, columns: slice) -> Array:
            found = lines.block(batch, rows, columns)
            whole = (rows.stop - rows.start, columns.stop - columns.start)
            return (
                self.torch.full(whole, found, device=query.device)
                if isinstance(found, bool)
                else found.expand(*found.shape[:-2], *whole)
            )

        return capture.ModelRule(spans, ask)

    def _table(self, mask: Array) -> Array:
        """Return a table of booleans for a mask that is one or is added to scores."""
        torch = self.torch
        if mask.dtype == torch.bool:
            return mask
        allowed = mask == 0
        if not bool((allowed | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
            raise capture.UnsupportedModelError(
                self.function, f"masks must allow or forbid, but {type(self.model).__name__} adds other numbers to its scores"
            )
        return allowed
