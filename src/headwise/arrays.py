"""The door for arrays: which library they come from, whether they may enter, and which dtype computes.

Nothing here knows about attention. A function of the library calls `admit` on what the user gave and gets back arrays
of one library, all real floating point. Array type in, array type out: NumPy, PyTorch, JAX, CuPy and every other
library that speaks the array API standard.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
)

from headwise.errors import ArrayTypeError, NotFiniteError, ShapeError

# An array of any library. Shapes are written in annotations (jaxtyping) and checked in the tests.
Array: TypeAlias = Any
Namespace: TypeAlias = Any
# What a user hands in: such an array, a list, or a mistake. The door tells which.
Given: TypeAlias = Any

# In this order: the namespace of JAX is called jax.numpy.
_NAMES = {"jax": "JAX", "torch": "PyTorch", "cupy": "CuPy", "array_api_strict": "array-api-strict", "numpy": "NumPy"}


def library(array: Array) -> str:
    """Name the library that `array` comes from.

    >>> library(np.zeros(3))
    'NumPy'
    """
    parts = array_namespace(array).__name__.split(".")
    return next((name for key, name in _NAMES.items() if key in parts), parts[0])


def admit(function: str, **given: object) -> tuple[Namespace, dict[str, Array]]:
    """Return the namespace of the given arrays and the arrays, or raise the sentence that says why not.

    Lists and tuples of numbers become NumPy float64. Everything else must already be a real floating-point array, all
    of one library and on one device. Memory-mapped arrays pass as they are.
    """
    arrays = {name: _one(function, name, value) for name, value in given.items()}
    (first, reference), *others = arrays.items()
    for name, array in others:
        if library(array) != library(reference):
            raise ArrayTypeError(
                function,
                f"all arrays must come from one library, but {first} is {library(reference)} and {name} is {library(array)}",
                "Convert one of them.",
            )
        if device(array) != device(reference):
            raise ArrayTypeError(
                function,
                f"all arrays must be on one device, but {first} is on {device(reference)} and {name} is on {device(array)}",
                "Move one of them.",
            )
    return array_namespace(reference), arrays


def _one(function: str, name: str, value: object) -> Array:
    if isinstance(value, (list, tuple)):
        value = _from_list(function, name, value)
    if isinstance(value, np.ma.MaskedArray):
        raise ArrayTypeError(function, f"{name} must be a plain array, but it is masked", "Pass the mask as allowed=.")
    if not is_array_api_obj(value):
        raise ArrayTypeError(function, f"{name} must be an array or a list of numbers, but it is a {type(value).__name__}")
    array: Array = value
    if not array_namespace(array).isdtype(array.dtype, "real floating"):
        raise ArrayTypeError(
            function,
            f"{name} must be a real floating-point array, but its dtype is {dtype_name(array.dtype)}",
            "Convert it first.",
        )
    return array


def _from_list(function: str, name: str, value: Sequence[object]) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(function, f"{name} must have rows of equal length, but they differ") from None
    if array.dtype.kind not in "iuf":
        kind = "empty" if array.size == 0 else f"a list of {dtype_name(array.dtype)}"
        raise ArrayTypeError(function, f"{name} must be an array or a list of numbers, but it is {kind}")
    return array.astype(np.float64)


def dtype_name(dtype: object) -> str:
    """Name a dtype the same way for every library: float64, not torch.float64.

    >>> dtype_name(np.dtype("float32"))
    'float32'
    """
    return str(dtype).rsplit(".", maxsplit=1)[-1]


def float64(function: str, name: str, value: object) -> np.ndarray:
    """Bring one array of any library to NumPy float64, for the parts that are mathematics; refuse what is not finite.

    Whole numbers are taken too.

    >>> float64("law", "means", [[1, 2]])
    array([[1., 2.]])
    """
    if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.integer):
        value = value.astype(np.float64)
    array = host(_one(function, name, value))
    check_finite(function, name, array)
    return np.asarray(array, dtype=np.float64)


def host(array: Array) -> np.ndarray:
    """Return the NumPy array that holds the same numbers, in memory that the CPU can read.

    >>> host(np.ones(2))
    array([1., 1.])
    """
    if is_numpy_array(array):
        return np.asanyarray(array)
    if is_torch_array(array):
        detached = array.detach().cpu()
        # NumPy has no bfloat16; float32 holds each of its numbers.
        return np.asarray(detached.float() if detached.dtype.itemsize < 4 and detached.is_floating_point() else detached)
    if hasattr(array, "get"):  # CuPy
        return np.asarray(array.get())
    xp = array_namespace(array)
    small = xp.isdtype(array.dtype, "real floating") and xp.finfo(array.dtype).bits < 32
    return np.asarray(xp.astype(array, xp.float32) if small else array)


def is_mapped(array: Array) -> bool:
    """Say whether the array lives in a file and should be read block by block, once.

    >>> is_mapped(np.zeros(3))
    False
    """
    return isinstance(array, np.memmap)


def check_finite(function: str, name: str, array: Array, *, first_row: int = 0) -> float:
    """Return the largest absolute value, or raise the sentence that names the first NaN or infinity.

    `first_row` is where this block of rows stands in the whole array, so that the position told is the user's.
    """
    xp = array_namespace(array)
    if 0 in array.shape:
        return 0.0
    plain = array.detach() if is_torch_array(array) else array
    # Largest and smallest need no temporary array, and NaN passes through both.
    highest, lowest = float(xp.max(plain)), float(xp.min(plain))
    if np.isfinite(highest) and np.isfinite(lowest):
        return max(abs(highest), abs(lowest))
    bad = np.argwhere(~np.isfinite(host(plain)))[0]
    value = float(plain[tuple(int(i) for i in bad)])
    if first_row:
        bad[-2] += first_row
    place = f"[{', '.join(map(str, bad))}]" if len(bad) else ""
    raise NotFiniteError(function, f"{name} must be finite, but {name}{place} is {value}")


def computing_dtype(xp: Namespace, *arrays: Array) -> object:
    """Return the dtype to compute in: the common one, but at least float32."""
    common = xp.result_type(*arrays)
    return common if xp.finfo(common).bits >= 32 else xp.float32


def check_agree(function: str, axis: str, sizes: Mapping[str, int]) -> None:
    """Refuse arrays that disagree on the size of an axis, naming both.

    >>> check_agree("attend", "d", {"queries": 4, "keys": 6})
    Traceback (most recent call last):
      ...
    headwise.errors.ShapeError: attend(): queries and keys must agree on axis d, but queries has d=4 and keys has d=6.
    """
    (one, size), (other, other_size) = sizes.items()
    if size != other_size:
        raise ShapeError(
            function,
            f"{one} and {other} must agree on axis {axis}, but {one} has {axis}={size} and {other} has {axis}={other_size}",
        )


def check_rank(function: str, name: str, array: Array, rank: int, shape: str) -> None:
    """Refuse an array with fewer than `rank` axes; `shape` says in words what it should look like.

    >>> check_rank("attend", "keys", np.zeros(4), 2, "(..., k, d)")
    Traceback (most recent call last):
      ...
    headwise.errors.ShapeError: attend(): keys must have shape (..., k, d), but its shape is (4,).
    """
    if array.ndim < rank:
        raise ShapeError(function, f"{name} must have shape {shape}, but its shape is {tuple(array.shape)}")
