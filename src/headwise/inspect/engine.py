"""Which code finds the statistics: GPU programs or compiled loops where there are some for the task, torch blocks otherwise."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

from headwise.errors import HeadwiseError
from headwise.inspect import blocks, checks, compiled
from headwise.inspect.task import Rows, Task

_SMALLEST = 1 << 12


class MemoryShortError(HeadwiseError, MemoryError):
    """Not enough memory even for small blocks."""


def rows(task: Task, function: str, layer: int | None = None) -> Rows:
    """Return the statistics of every query; where memory runs out, smaller blocks are tried before giving up.

    `layer` is told in sentences about numbers that are none.
    """
    checks.check_given(task, function, layer)
    found = _tried(task, function)
    checks.check_found(task, found, function, layer)
    return found


def _tried(task: Task, function: str) -> Rows:
    held = 0
    for size, way in _ways(task):
        held = size
        try:
            found = way(task)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            continue
        if found is not None:
            return found
    raise MemoryShortError(
        function,
        f"{task.queries.shape[2]} queries on {task.keys.shape[2]} keys must fit in memory, but blocks of {held} scores do not",
        "Give fewer rows, fewer heads or a smaller batch at a time.",
    )


def _ways(task: Task) -> Iterator[tuple[int, Callable[[Task], Rows | None]]]:
    """Return what can be tried, the fastest first, and how many scores it holds at one time."""
    size = blocks.BLOCK
    if task.queries.is_cuda and find_spec("triton") is not None:
        from headwise.inspect.gpu import launch  # noqa: PLC0415  triton is not everywhere

        yield size, launch.rows
    else:
        yield size, compiled.rows
    while True:
        yield size, partial(blocks.rows, block=size)
        size //= 4
        if size < _SMALLEST:
            return


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error of torch means that memory ran out."""
    said = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "not enough memory" in said
        or "can't allocate memory" in said
    )
