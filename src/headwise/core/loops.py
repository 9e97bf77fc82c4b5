"""Pieces of compiled loops: numba's compiler vectorises these, and no exponential or maximum of floats of its own."""

import numpy as np
from numba import njit

F, I = np.float32, np.int32
LOWEST = I(-0x80000000)
# Adding and subtracting this rounds a float32 to a whole number.
ROUND = F(12582912.0)


@njit(inline="always")
def ordered(bits):  # type: ignore[no-untyped-def]
    """Return the bits of a float32 as a whole number of the same order, and back."""
    return I(bits ^ I(I(bits >> I(31)) & I(0x7FFFFFFF)))


@njit(nogil=True)
def largest(x):  # type: ignore[no-untyped-def]
    """Return the largest of some float32 as a whole number of the same order."""
    bits = x.view(I)
    top = LOWEST
    for i in range(len(bits)):
        key = ordered(bits[i])
        top = key if key > top else top
    return top


@njit(inline="always")
def exponential(y):  # type: ignore[no-untyped-def]
    """Return two factors of e^y for -87 <= y <= 0: a number between 0.7 and 1.5, and the bits of a power of two."""
    k = (y * F(1.44269504) + ROUND) - ROUND
    r = (y - k * F(0.693359375)) + k * F(2.12194440e-4)
    v = F(1.9875691500e-4)
    v = v * r + F(1.3981999507e-3)
    v = v * r + F(8.3334519073e-3)
    v = v * r + F(4.1665795894e-2)
    v = v * r + F(1.6666665459e-1)
    v = v * r + F(5.0000001201e-1)
    return v * r * r + r + F(1), (I(k) + I(127)) << I(23)
