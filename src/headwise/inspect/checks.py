"""What attention is given and what comes out must be numbers: a NaN or an overflow is told, never averaged."""

from headwise import arrays
from headwise.errors import NotFiniteError, ScoreOverflowError
from headwise.inspect.task import Rows, Task

_NAMES = ("queries", "keys", "values", "sinks")


def check_given(task: Task, function: str, layer: int | None) -> None:
    """Refuse queries, keys and values that are no numbers, and scores whose squares may not fit.

    `layer` is the layer of a model, None for arrays that somebody passed.
    """
    largest = {}
    for name in _NAMES:
        array = getattr(task, name)
        if array is None or not array.numel():
            continue
        least, most = (float(one) for one in task.torch.aminmax(array))
        largest[name] = max(-least, most)
        if not (least > -float("inf") and most < float("inf")):
            whose = "but they are not" if layer is None else f"but those of layer {layer} are not"
            raise NotFiniteError(function, f"{name} must be finite, {whose}", _step(layer, ""))
    # The gain sums squares of scores; sixteen times less leaves room for rounding.
    limit = float(task.torch.finfo(task.dtype).max) ** 0.5 / 16
    bound = largest["queries"] * largest["keys"] * task.queries.shape[-1] * abs(task.scale)
    if not max(bound, largest.get("sinks", 0.0)) < limit:
        whose = "they are" if layer is None else f"those of layer {layer} are"
        rule = f"scores must fit {arrays.dtype_name(task.dtype)}, but {whose} too large"
        raise ScoreOverflowError(function, rule, _step(layer, "Divide queries."))


def check_found(task: Task, found: Rows, function: str, layer: int | None) -> None:
    """Refuse contexts and a sensitivity that overflowed."""
    for name, array in (("contexts", found.context), ("sensitivity", found.sensitivity)):
        if array is not None and not bool(task.torch.isfinite(array).all()):
            whose = "values are" if layer is None else f"the values of layer {layer} are"
            rule = f"{name} must fit {arrays.dtype_name(array.dtype)}, but {whose} too large"
            raise ScoreOverflowError(function, rule, _step(layer, "Divide values."))


def _step(layer: int | None, otherwise: str) -> str:
    return otherwise if layer is None else "Look for NaN and very large numbers in the model's weights."
