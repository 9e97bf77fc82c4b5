"""Pieces of compiled loops: numba's compiler vectorises these, and no exponential or maximum of floats of its own."""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

F, I = np.float32, np.int32
LOWEST = I(-0x80000000)
# Adding and subtracting this rounds a float32 to a whole number.
ROUND = F(12582912.0)


def _same_bits(source: Any, goal: Any) -> Any:
    def generate(context, builder, _, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(arguments[0], context.get_value_type(goal))

    return goal(source), generate


@intrinsic
def as_word(_, number):  # type: ignore[no-untyped-def]
    """Return the bits of a float32 as an int32."""
    return _same_bits(types.float32, types.int32) if number == types.float32 else None


@intrinsic
def as_number(_, word):  # type: ignore[no-untyped-def]
    """Return the float32 that an int32 has the bits of."""
    return _same_bits(types.int32, types.float32) if word == types.int32 else None


@njit(inline="always")
def ordered(bits):  # type: ignore[no-untyped-def]
    """Return the bits of a float32 as a whole number of the same order, and back."""
    return I(bits ^ I(I(bits >> I(31)) & I(0x7FFFFFFF)))


@njit(nogil=True)
def largest(x):  # type: ignore[no-untyped-def]
    """Return the largest of some float32, compared as whole numbers of the same order."""
    top = LOWEST
    for i in range(len(x)):
        key = ordered(as_word(x[i]))
        top = key if key > top else top
    return as_number(ordered(top))


@njit(inline="always")
def exponential(y):  # type: ignore[no-untyped-def]
    """Return e^y for -87 <= y <= 0: a polynomial, and a power of two added to its exponent; not for loose arithmetic."""
    shifted = y * F(1.44269504) + ROUND
    k = shifted - ROUND
    r = (y - k * F(0.693359375)) + k * F(2.12194440e-4)
    v = F(1.9875691500e-4)
    v = v * r + F(1.3981999507e-3)
    v = v * r + F(8.3334519073e-3)
    v = v * r + F(4.1665795894e-2)
    v = v * r + F(1.6666665459e-1)
    v = v * r + F(5.0000001201e-1)
    return as_number(I(as_word(v * r * r + r + F(1)) + I(as_word(shifted) << I(23))))
