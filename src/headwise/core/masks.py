"""Which query may look at which key, without building the table unless someone asks for it.

A mask answers for one block of queries and keys at a time, so a causal mask over a million keys costs nothing.
True means "may look".
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj
from jaxtyping import Bool

from headwise.arrays import Array, Namespace, dtype_name, host
from headwise.errors import ArrayTypeError, OptionError, ShapeError, check_option

# How many entries of a table are looked at in one go.
_BLOCK = 1 << 20


class Mask(ABC):
    """A rule that says which query may look at which key."""

    # NumPy leaves `array & mask` to the mask.
    __array_ufunc__ = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the table that the rule stands for: (..., q, k)."""

    @abstractmethod
    def block(self, xp: Namespace, device: object, rows: slice, columns: slice) -> Bool[Array, "*batch q k"]:
        """Return the table for some rows (queries) and columns (keys)."""

    @abstractmethod
    def any_per_query(self, xp: Namespace, device: object) -> Bool[Array, "*batch q"]:
        """Say for each query whether it may look at anything at all."""

    def table(self, xp: Namespace = np, device: object = None) -> Bool[Array, "*batch q k"]:
        """Return the whole table, in the array library `xp`."""
        return self.block(xp, device, slice(0, self.shape[-2]), slice(0, self.shape[-1]))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001  NumPy's protocol
        """Let NumPy read the mask as a table of booleans."""
        return np.array(self.table(), dtype=dtype, copy=True if copy is None else copy)

    def __and__(self, other: object) -> "Mask":
        """Allow only what both masks allow; `other` may be a mask or a boolean array."""
        return Both(self, as_mask("causal", other))

    __rand__ = __and__


@dataclass(frozen=True)
class Causal(Mask):
    """Query i may look at keys 0 to i + offset; made by `causal`."""

    queries: int
    keys: int
    offset: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (queries, keys)."""
        return self.queries, self.keys

    def block(self, xp: Namespace, device: object, rows: slice, columns: slice) -> Bool[Array, "q k"]:
        """Return the table for some rows (queries) and columns (keys)."""
        row = xp.arange(rows.start, rows.stop, device=device)
        column = xp.arange(columns.start, columns.stop, device=device)
        return column[None, :] <= row[:, None] + self.offset

    def any_per_query(self, xp: Namespace, device: object) -> Bool[Array, " q"]:
        """Say for each query whether it may look at anything at all."""
        return xp.arange(self.queries, device=device) + self.offset >= 0


@dataclass(frozen=True, eq=False)
class Table(Mask):
    """A mask given as a boolean array."""

    allowed: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array; axes of size 1 broadcast."""
        return tuple(self.allowed.shape)

    def block(self, xp: Namespace, device: object, rows: slice, columns: slice) -> Bool[Array, "*batch q k"]:
        """Return the table for some rows (queries) and columns (keys); axes of size 1 stay so."""
        whole = slice(None)
        return _moved(
            self.allowed[..., rows if self.shape[-2] > 1 else whole, columns if self.shape[-1] > 1 else whole], xp, device
        )

    def any_per_query(self, xp: Namespace, device: object) -> Bool[Array, "*batch q"]:
        """Say for each query whether it may look at anything at all."""
        return _moved(array_namespace(self.allowed).any(self.allowed, axis=-1), xp, device)


def _moved(table: Array, xp: Namespace, device: object) -> Array:
    return table if array_namespace(table) is xp else xp.asarray(host(table), device=device)


@dataclass(frozen=True)
class Both(Mask):
    """What two masks both allow."""

    one: Mask
    other: Mask

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape after broadcasting."""
        return np.broadcast_shapes(self.one.shape, self.other.shape)

    def block(self, xp: Namespace, device: object, rows: slice, columns: slice) -> Bool[Array, "*batch q k"]:
        """Return the table for some rows (queries) and columns (keys)."""
        return self.one.block(xp, device, rows, columns) & self.other.block(xp, device, rows, columns)

    def any_per_query(self, xp: Namespace, device: object) -> Bool[Array, "*batch q"]:
        """Say for each query whether it may look at anything at all; in blocks of rows, so that memory stays small."""
        queries, keys = self.shape[-2:]
        step = max(1, _BLOCK // keys)
        parts = [slice(start, min(start + step, queries)) for start in range(0, queries, step)]
        return xp.concat([xp.any(self.block(xp, device, rows, slice(0, keys)), axis=-1) for rows in parts], axis=-1)


def causal(queries: int, keys: int, *, align: str = "end") -> Causal:
    """Let each query look only at keys that are not in its future.

    When there are fewer queries than keys the alignment matters, and libraries differ. ``align="end"`` puts the last
    query at the last key (decoding with a cache); ``align="start"`` puts the first query at the first key (what
    PyTorch's ``is_causal=True`` does). 1 marks a key that may be looked at::

        causal(2, 5, align="end")    causal(2, 5, align="start")    causal(5, 2, align="end")
            1 1 1 1 0                    1 0 0 0 0                      0 0
            1 1 1 1 1                    1 1 0 0 0                      0 0
                                                                        0 0
                                                                        1 0
                                                                        1 1

    Parameters
    ----------
    queries, keys
        How many of each, at least 1.
    align
        "end" or "start"; the same when the numbers are equal.

    Returns
    -------
    Causal
        A mask for ``allowed=``. It builds no table; ``numpy.asarray(mask)`` does, and ``mask & table`` combines.

    Examples
    --------
    >>> import numpy as np
    >>> np.asarray(causal(2, 5, align="start")).astype(int)
    array([[1, 0, 0, 0, 0],
           [1, 1, 0, 0, 0]])
    """
    check_option("causal", "align", align, ("end", "start"))
    for name, count in (("queries", queries), ("keys", keys)):
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
            raise OptionError("causal", f"{name} must be a whole number of at least 1, but got {count!r}")
    return Causal(int(queries), int(keys), int(keys - queries) if align == "end" else 0)


def as_mask(function: str, allowed: object) -> Mask:
    """Turn what the user gave as `allowed` into a mask, or refuse it."""
    if isinstance(allowed, Mask):
        return allowed
    if isinstance(allowed, (list, tuple)):
        allowed = np.asarray(allowed)
    if not is_array_api_obj(allowed):
        raise ArrayTypeError(function, f"allowed must be a boolean array or a mask, but it is a {type(allowed).__name__}")
    table: Array = allowed
    if not array_namespace(table).isdtype(table.dtype, "bool"):
        raise ArrayTypeError(
            function,
            f"allowed must be boolean, but its dtype is {dtype_name(table.dtype)}",
            "True means that the query may look at the key.",
        )
    if table.ndim == 0:
        raise ShapeError(function, "allowed must have shape (k,) or (..., q, k), but it is a single value")
    return Table(table[None, :] if table.ndim == 1 else table)
