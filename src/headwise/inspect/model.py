"""`model`: what every head of a model does on a text."""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headwise.arrays import Given
from headwise.errors import OptionError
from headwise.inspect import capture, engine, libraries, loading, packing, texts
from headwise.inspect.listener import SHORT, WHO, Listener, Progress, layer_count
from headwise.inspect.report import HeadReport, layer_report
from headwise.inspect.verdict import Thresholds


def model(  # noqa: PLR0913  one run, said in one call
    model: Any,  # noqa: ANN401  a transformers model, or its name
    text: str | Iterable[str] | Given,
    tokenizer: Any = None,  # noqa: ANN401  a tokenizer
    *,
    layers: Iterable[int] | int | Given = None,
    batch: int | Given = 8,
    together: str = "padded",
    window: int | None = None,
    device: Any = None,  # noqa: ANN401  a torch device or its name
    sensitivity: bool = True,
    thresholds: Thresholds | Given = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> HeadReport:
    """Tell what every head of a model does on a text: statistics, key geometry, likeness of heads, a verdict each.

    Nothing as large as tokens times tokens is built, so long texts are no trouble. The model computes what it always does;
    afterwards it is as it was, also after an error.

    Parameters
    ----------
    model
        A model of transformers that uses its AttentionInterface, a folder, a name on the hub, or "demo".
    text
        One text, several, or lists of token ids.
    tokenizer
        The model's own, if not given and the model was named or loaded from a folder.
    layers
        Numbers of the layers to look at; all of them if not given.
    batch, together
        How many texts run at once, "padded" to one length or "packed" into one row. The report is the same, but for
        what is sampled.
    window
        Slide over texts that are longer than this many tokens, by half a window at a time; every token counts once.
    device
        Where to run, for example "cuda"; the model goes back afterwards.
    sensitivity
        Whether to tell what noise in key lengths does to outputs.
    thresholds
        From where on a head is called a copy, an average and so on.
    trust_remote_code
        Whether a model folder may run code of its own.
    progress
        Called with work done, work to do and the name of the stage. Ctrl-C ends the run with the layers done.

    Returns
    -------
    HeadReport
    """
    torch = libraries.torch(WHO)
    limits = _limits(thresholds)
    there = None if device is None else loading.on_device(WHO, torch, device)
    size, given = texts.checked_size(WHO, batch, together), texts.listed(text)
    words = any(isinstance(one, str) for one in given)
    name, own = _name(model), loading.opened(WHO, model, tokenizer, words=words, trust_remote_code=trust_remote_code)
    tokenizer, base = own.tokenizer, base_of(WHO, own.model)
    wanted = _layers(base, layers)
    read = texts.read(WHO, given, tokenizer, own.step)
    check_ids(WHO, base, read)
    limit = positions(base, tokenizer)
    pieces = texts.pieces(WHO, read, limit, window)
    how = texts.Packing(size, together, pad_token(base, tokenizer), limit, packing.first_position(base))
    whole = len(read[0]) <= SHORT and len(pieces) >= len(read) and len(pieces[0].ids) == len(read[0])
    listener = Listener(
        torch, base, len(read), layers=wanted, near=limits.near, sensitivity=sensitivity, keep_short=whole, progress=progress
    )
    notes = []
    with _told_if_short(read), _moved(torch, base, there) as here, torch.no_grad():

        def forward(one: texts.Batch) -> Any:  # noqa: ANN401  what the model gives out
            return base(**inputs(torch, base, one, here))

        if together == "packed":
            packing.check_apart(torch, base, pieces, forward)
        try:
            listener.run(texts.batches(pieces, how), forward)
        except KeyboardInterrupt:
            if not listener.done:
                raise
            notes.append(_stopped(listener, sum(map(len, read))))
    shown = None
    if tokenizer is not None and whole and together == "padded":
        shown = [str(word) for word in tokenizer.convert_ids_to_tokens(read[0].tolist())]
    reports = [layer_report(number, listener.done[number], limits) for number in sorted(listener.done)]
    return HeadReport(name, len(read), max(one.rows for one in reports), reports, limits, shown, notes)


def base_of(function: str, model: Any) -> Any:  # noqa: ANN401  a model
    """Return the part of a model that attends; refuse what cannot be looked at."""
    base = getattr(model, "base_model", model)
    capture.check_supported(function, base)
    weights = next(iter(base.parameters()), None)
    if weights is not None and weights.device.type not in ("cpu", "cuda"):
        raise OptionError(function, f"model must lie on cpu or cuda, but it lies on {weights.device.type}")
    return base


def _limits(thresholds: Thresholds | Given) -> Thresholds:
    if thresholds is not None and not isinstance(thresholds, Thresholds):
        raise OptionError(WHO, f"thresholds must be Thresholds(...), but it is a {type(thresholds).__name__}")
    return Thresholds() if thresholds is None else thresholds


def check_ids(function: str, base: Any, read: list[np.ndarray]) -> None:  # noqa: ANN401  a model
    """Refuse tokens that the model has no embedding of."""
    try:
        known = getattr(base.get_input_embeddings(), "num_embeddings", None)
    except (AttributeError, NotImplementedError):  # a model that hides them
        known = None
    least, most = min(int(ids.min()) for ids in read), max(int(ids.max()) for ids in read)
    if least < 0 or (known is not None and most >= known):
        among = "" if known is None else f" to {known - 1}"
        got = least if least < 0 else most
        raise texts.TextError(function, f"token ids must be the model's, 0{among}, but there is {got}")


def _stopped(listener: Listener, tokens: int) -> str:
    """Say how far a run came that was stopped."""
    seen = sorted({int(layer.tokens.sum()) for layer in listener.done.values()})
    said = f"stopped early: {len(listener.done)} of {listener.total or '?'} layers have been looked at"
    if seen == [tokens]:
        return said
    return f"{said}, at {' to '.join(map(str, seen[:: max(1, len(seen) - 1)]))} of {tokens} tokens"


def positions(base: Any, tokenizer: Any) -> int | None:  # noqa: ANN401  a model, a tokenizer
    """Return how many tokens the model can take, None if it does not say."""
    found = []
    config: Any = getattr(base, "config", None)
    if hasattr(config, "get_text_config"):
        config = config.get_text_config()
    given = getattr(config, "max_position_embeddings", None)
    if isinstance(given, int) and given > 0:
        found.append(given)
    told = packing.table_positions(base)
    if told is not None:
        found.append(told)
    most = getattr(tokenizer, "model_max_length", None)
    if isinstance(most, int) and most < 1 << 24:
        found.append(most)
    return min(found) if found else None


def _name(model: Any) -> str:  # noqa: ANN401  a model, or its name
    """Return what to call a model."""
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        return Path(model).name if Path(model).exists() else str(model)
    return Path(getattr(getattr(model, "config", None), "_name_or_path", "")).name or type(model).__name__


def pad_token(base: Any, tokenizer: Any) -> int:  # noqa: ANN401  a model, a tokenizer
    """Return the token that fills rows up."""
    for one in (tokenizer, getattr(base, "config", None)):
        found = getattr(one, "pad_token_id", None)
        if isinstance(found, int) and found >= 0:
            return found
    return 0


def _layers(base: Any, layers: Iterable[int] | int | Given) -> list[int] | None:  # noqa: ANN401  a model
    """Return the numbers of the layers that are asked for; whether each of them attends is seen when the model runs."""
    if layers is None:
        return None
    chosen: list[Any] = list(layers) if isinstance(layers, Iterable) and not isinstance(layers, str) else [layers]
    count = layer_count(base)
    for layer in chosen or ["none"]:
        fine = isinstance(layer, (int, np.integer)) and not isinstance(layer, bool) and layer >= 0
        if not fine or (count is not None and layer >= count):
            among = f", 0 to {count - 1}" if count is not None else ""
            got = repr(layer) if chosen else "none"
            raise OptionError(WHO, f"layers must be numbers of layers{among}, but got {got}")
    return [int(layer) for layer in chosen]


def inputs(torch: Any, base: Any, batch: texts.Batch, device: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what the model is called with."""
    known = inspect.signature(base.forward).parameters
    given = {"input_ids": torch.from_numpy(batch.ids).to(device), "use_cache": False}
    if batch.segments is None:
        given["attention_mask"] = torch.from_numpy(batch.real).long().to(device)
    else:
        if "position_ids" not in known:
            raise OptionError(WHO, f'together="packed" needs a model that takes positions, but {type(base).__name__} does not')
        given["position_ids"] = torch.from_numpy(batch.positions).to(device)
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    return {name: value for name, value in given.items() if name in known or takes_any}


@contextmanager
def _moved(torch: Any, base: Any, there: Any) -> Iterator[Any]:  # noqa: ANN401  a module, a model, a device
    """Run on another device, and bring the model back."""
    weights = next(iter(base.parameters()), None)
    here = torch.device("cpu") if weights is None else weights.device
    if there is None or there == here:
        yield here
        return
    try:
        yield base.to(there).device
    finally:
        base.to(here)


@contextmanager
def _told_if_short(read: list[np.ndarray]) -> Iterator[None]:
    """Say in a sentence that memory ran out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, engine.MemoryShortError) or not engine.out_of_memory(error):
            raise
        longest = max(map(len, read))
        raise engine.MemoryShortError(
            WHO,
            f"the model must fit in memory with its longest text, but {longest} tokens do not",
            "Pass a smaller batch=, or window= to slide over the text.",
        ) from None
