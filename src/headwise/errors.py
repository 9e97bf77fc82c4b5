"""One class per kind of mistake, and the one sentence form they all share.

Every message reads ``function(): rule, but what was given. Next step.`` Each class also inherits the built-in that a
caller would reach for, so ``except ValueError`` works as expected.
"""

from collections.abc import Iterable


class HeadwiseError(Exception):
    """A mistake in what was asked for; the base of every error that headwise raises on purpose.

    Parameters
    ----------
    function
        Who complains, without parentheses; empty when the sentence has no function (a file, say).
    rule
        What must hold, and after "but" what was given instead.
    step
        What to do about it, a sentence of its own; may be empty.

    Examples
    --------
    >>> str(HeadwiseError("copy", "index must be a key's row, 0 to 9, but got 12"))
    "copy(): index must be a key's row, 0 to 9, but got 12."
    """

    def __init__(self, function: str, rule: str, step: str = "") -> None:
        """Keep the two halves apart, so that the command line can print them as `error:` and `hint:`."""
        self.problem = f"{function}(): {rule}." if function else f"{rule}."
        self.step = step
        super().__init__(f"{self.problem} {step}" if step else self.problem)


class ShapeError(HeadwiseError, ValueError):
    """Arrays whose shapes disagree, or an array of the wrong rank."""


class ArrayTypeError(HeadwiseError, TypeError):
    """Something that is not a real floating-point array, or arrays of two libraries at once."""


class NotFiniteError(HeadwiseError, ValueError):
    """NaN or infinity where a number is needed."""


class ScoreOverflowError(HeadwiseError, OverflowError):
    """Scores that are larger than the floating-point type can hold."""


class EmptyError(HeadwiseError, ValueError):
    """No key to look at."""


class RowError(HeadwiseError, IndexError):
    """An index that is not the row of a key."""


class OptionError(HeadwiseError, ValueError):
    """A value that an option does not take."""


class CovarianceError(HeadwiseError, ValueError):
    """A covariance that is not positive semidefinite."""


class SubspaceError(HeadwiseError, ValueError):
    """Subspaces that meet; `witness` is a vector in both."""

    def __init__(self, function: str, rule: str, step: str = "", *, witness: object = None) -> None:
        """Keep the vector beside the sentence."""
        super().__init__(function, rule, step)
        self.witness = witness


class FileError(HeadwiseError, ValueError):
    """A file that cannot be read as numbers."""


class MissingExtraError(HeadwiseError, ImportError):
    """A library that this part needs and that is not installed."""


def check_option(function: str, name: str, given: object, options: Iterable[str]) -> None:
    """Refuse a string that is not one of `options`, and guess which one was meant.

    >>> check_option("attend", "empty", "zeros", ("error", "zero"))
    Traceback (most recent call last):
      ...
    headwise.errors.OptionError: attend(): empty must be "error" or "zero", but got "zeros". Did you mean "zero"?
    """
    known = tuple(options)
    if isinstance(given, str) and given in known:
        return
    from difflib import get_close_matches  # noqa: PLC0415  slow to load and only needed here

    shown = f'"{given}"' if isinstance(given, str) else type(given).__name__
    quoted = [f'"{option}"' for option in known]
    near = get_close_matches(given, known, n=1, cutoff=0.5) if isinstance(given, str) else []
    raise OptionError(
        function,
        f"{name} must be {' or '.join([', '.join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)}, but got {shown}",
        f'Did you mean "{near[0]}"?' if near else "",
    )


def missing_extra(function: str, library: str, extra: str) -> MissingExtraError:
    """Say which library `function` lacks and the command that installs it."""
    return MissingExtraError(function, f"needs {library}, but it is not installed", f'Run: pip install "headwise[{extra}]"')
