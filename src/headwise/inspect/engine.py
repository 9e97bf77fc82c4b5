"""Which code finds the statistics: GPU programs or compiled loops where there are some for the task, torch blocks otherwise."""

from importlib.util import find_spec

from headwise.errors import HeadwiseError
from headwise.inspect import blocks, compiled
from headwise.inspect.task import Rows, Task

_SMALLEST = 1 << 12


class MemoryShortError(HeadwiseError, MemoryError):
    """Not enough memory even for small blocks."""


def rows(task: Task, function: str) -> Rows:
    """Return the statistics of every query; where memory runs out, smaller blocks are tried before giving up."""
    if task.queries.is_cuda and find_spec("triton") is not None:
        from headwise.inspect.gpu import launch  # noqa: PLC0415  triton is not everywhere

        found = launch.rows(task)
    else:
        found = compiled.rows(task)
    if found is not None:
        return found
    size = blocks.BLOCK
    while True:
        try:
            return blocks.rows(task, size)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
        if size // 4 < _SMALLEST:
            raise MemoryShortError(
                function,
                f"{task.queries.shape[2]} queries on {task.keys.shape[2]} keys must fit in memory, but blocks of {size} scores "
                f"do not",
                "Give fewer rows, fewer heads or a smaller batch at a time.",
            )
        size //= 4


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error of torch means that memory ran out."""
    said = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "not enough memory" in said
        or "can't allocate memory" in said
    )
