"""Rows that the user names: whole numbers that point at a key."""

from collections.abc import Iterable
from operator import index

import numpy as np

from headwise.arrays import Given
from headwise.errors import ArrayTypeError, RowError


def check_rows(function: str, indices: int | Iterable[int] | Given, count: int, name: str = "index") -> np.ndarray:
    """Return the named rows as an integer array, or refuse what is not the row of one of `count` keys.

    >>> check_rows("leak", [3, 1], 10)
    array([3, 1])
    >>> check_rows("copy", 12, 10)
    Traceback (most recent call last):
      ...
    headwise.errors.RowError: copy(): index must be a key's row, 0 to 9, but got 12.
    """
    found = []
    single = not isinstance(indices, Iterable) or getattr(indices, "ndim", 1) == 0
    every: Given = [indices] if single else indices
    for given in every:
        try:
            row = index(given)
        except TypeError:
            raise ArrayTypeError(function, f"{name} must be a whole number, but got {given!r}") from None
        if isinstance(given, (bool, np.bool_)):
            raise ArrayTypeError(function, f"{name} must be a whole number, but got {given!r}")
        if not 0 <= row < count:
            raise RowError(function, f"{name} must be a key's row, 0 to {count - 1}, but got {row}")
        found.append(row)
    return np.asarray(found, dtype=np.intp)
