"""The sampler in compiled loops: random bits, normals, scores and softmax in one pass over blocks that stay in cache.

numba is not needed: without it the same numbers come from NumPy, more slowly. Polynomials stand in for logarithm and sine
because the compiler vectorises nothing else.
"""

import math

import numpy as np
from numba import njit

from headwise.core.loops import F, I, as_number, as_word, exponential, largest
from headwise.stress.random_bits import BLOCK

_STRICT = {"contract"}
_LOOSE = {"contract", "reassoc", "nnan", "nsz"}
U = np.uint32


@njit(inline="always")
def _turned(x, turn):  # type: ignore[no-untyped-def]
    return U(U(x << U(turn)) | U(x >> U(32 - turn)))


@njit(inline="always")
def _four(x, y, a, b, c, d):  # type: ignore[no-untyped-def]
    x = U(x + y)
    y = U(_turned(y, a) ^ x)
    x = U(x + y)
    y = U(_turned(y, b) ^ x)
    x = U(x + y)
    y = U(_turned(y, c) ^ x)
    x = U(x + y)
    y = U(_turned(y, d) ^ x)
    return x, y


@njit(fastmath=_STRICT)
def _bits(key, first, second, a, b):  # type: ignore[no-untyped-def]
    k0, k1 = key
    k2 = U(k0 ^ k1 ^ U(0x1BD11BDA))
    for i in range(len(a)):
        x, y = U(U(first + i) + k0), U(second + k1)
        x, y = _four(x, y, 13, 15, 26, 6)
        x, y = U(x + k1), U(y + k2 + U(1))
        x, y = _four(x, y, 17, 29, 16, 24)
        x, y = U(x + k2), U(y + k0 + U(2))
        x, y = _four(x, y, 13, 15, 26, 6)
        x, y = U(x + k0), U(y + k1 + U(3))
        a[i] = U(x + y)
        b[i] = U(_turned(y, 17) ^ U(x + y))


@njit(inline="always")
def _log(u):  # type: ignore[no-untyped-def]
    """Return the logarithm of a positive number, from its exponent and a mantissa between 0.7 and 1.4."""
    word = as_word(u)
    power = I(I(word - I(0x3F3504F3)) >> I(23))
    x = as_number(I(word - I(power << I(23)))) - F(1)
    y = F(7.0376836292e-2)
    y = y * x - F(1.1514610310e-1)
    y = y * x + F(1.1676998740e-1)
    y = y * x - F(1.2420140846e-1)
    y = y * x + F(1.4249322787e-1)
    y = y * x - F(1.6668057665e-1)
    y = y * x + F(2.0000714765e-1)
    y = y * x - F(2.4999993993e-1)
    y = y * x + F(3.3333331174e-1)
    square = x * x
    return x + (y * x * square - F(0.5) * square) + F(power) * F(0.693147182)


@njit(fastmath=_STRICT)
def _normals(a, b, p, q):  # type: ignore[no-untyped-def]
    """Box and Muller: a radius, and sine and cosine from the quarter of the circle and the rest, with signs set as bits."""
    for i in range(len(a)):
        uniform = F(I(a[i] >> U(1))) * F(2.0**-31) + F(2.0**-32)
        radius = math.sqrt(max(F(-2) * _log(uniform), F(0)))
        shifted = U(b[i] + U(0x20000000))
        quarter = I(shifted >> U(30))
        d = F(I(shifted & U(0x3FFFFFFF)) - I(0x20000000)) * F(1.4629180792671596e-09)
        d2 = d * d
        sine = d + d * d2 * (F(-1.6666654611e-1) + d2 * (F(8.3321608736e-3) + d2 * F(-1.9515295891e-4)))
        cosine = F(1) - F(0.5) * d2 + d2 * d2 * (F(4.1666646e-2) + d2 * (F(-1.3887316e-3) + d2 * F(2.4433157e-5)))
        odd = (quarter & I(1)) != 0
        across = cosine if odd else sine
        along = sine if odd else cosine
        back = I(I(quarter << I(30)) & I(-0x80000000))
        q[i] = as_number(I(as_word(radius * across) ^ back))
        p[i] = as_number(I(as_word(radius * along) ^ I(I(quarter << I(31)) ^ back)))


@njit(fastmath=_STRICT)
def _exponentials(x, top):  # type: ignore[no-untyped-def]
    """Replace scores by exp(score - top)."""
    for i in range(len(x)):
        x[i] = exponential(max(x[i] - top, F(-87.0)))


@njit(fastmath=_LOOSE)
def _total(x):  # type: ignore[no-untyped-def]
    total = F(0)
    for i in range(len(x)):
        total += x[i]
    return total


@njit(fastmath=_STRICT)
def _own_scores(z, own, start, mean, x):  # type: ignore[no-untyped-def]
    """Mix normals into the scores of one head by each key's own root."""
    for i in range(len(x)):
        x[i] = mean[i]
    for g in range(len(own)):
        row = own[g, start : start + len(x)]
        for i in range(len(x)):
            x[i] += row[i] * z[g, i]


@njit(fastmath=_STRICT)
def _start(mean, a, y, b, z, x):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        x[i] = mean[i] + (a * y[i] + b * z[i])


@njit(fastmath=_STRICT)
def _more(a, y, b, z, x):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        x[i] += a * y[i] + b * z[i]


@njit
def _shared_scores(z, root, mean, x):  # type: ignore[no-untyped-def]
    """Mix normals into the scores of one head by a row of the root that all keys share, which ends with its own place."""
    size = len(x)
    _start(mean, root[0], z[0, :size], root[1], z[1, :size], x)
    for g in range(2, len(root), 2):
        if root[g] != 0 or root[g + 1] != 0:
            _more(root[g], z[g, :size], root[g + 1], z[g + 1, :size], x)


@njit
def _noise(key, draw, start, size, heads, z, words, spare):  # type: ignore[no-untyped-def]
    """Fill `z` (heads or one more, keys of a block) with normals; one head takes both numbers of a pair for two keys."""
    a, b = words
    if heads == 1:
        half = (size + 1) // 2
        _bits(key, U(start // 2), U(draw), a[:half], b[:half])
        _normals(a[:half], b[:half], z[0, :half], spare[:half])
        z[0, half:size] = spare[: size - half]
        return
    pairs = (heads + 1) // 2
    for pair in range(pairs):
        _bits(key, U(start), U(draw * pairs + pair), a[:size], b[:size])
        _normals(a[:size], b[:size], z[2 * pair, :size], z[2 * pair + 1, :size])


@njit
def _mix(z, mean, roots, start, x):  # type: ignore[no-untyped-def]
    """Fill `x` (heads, keys of a block) with scores: by the root that all share, by each key's own, or for special keys."""
    shared, own, special, theirs = roots
    heads, size = len(x), min(BLOCK, mean.shape[1] - start)
    stop = start + size
    if own.shape[0]:
        for h in range(heads):
            _own_scores(z, own[h], start, mean[h, start:stop], x[h, :size])
        return
    for h in range(heads):
        _shared_scores(z, shared[h], mean[h, start:stop], x[h, :size])
    for place in range(len(special)):
        i = special[place] - start
        if 0 <= i < size:
            for h in range(heads):
                score = mean[h, special[place]]
                for g in range(heads):
                    score += theirs[place, h, g] * z[g, i]
                x[h, i] = score


@njit
def weights(key, first, mean, roots, out):  # type: ignore[no-untyped-def]
    """Fill `out` (draws, keys) with weights, averaged over heads; `roots` is (shared, own, special, roots of the special)."""
    heads, count = mean.shape
    blocks = (count + BLOCK - 1) // BLOCK
    words, spare = (np.empty(BLOCK, U), np.empty(BLOCK, U)), np.empty(BLOCK, F)
    z = np.zeros((heads + heads % 2, BLOCK), F)
    x, tops = np.empty((blocks, heads, BLOCK), F), np.empty((heads, blocks), F)
    for draw in range(out.shape[0]):
        total, top = np.zeros(heads), np.full(heads, -np.inf, F)
        for block in range(blocks):
            size = min(BLOCK, count - block * BLOCK)
            _noise(key, first + draw, block * BLOCK, size, heads, z, words, spare)
            _mix(z, mean, roots, block * BLOCK, x[block])
            for h in range(heads):
                found = x[block, h, :size]
                higher = max(top[h], largest(found))
                total[h] *= math.exp(top[h] - higher)
                top[h] = tops[h, block] = higher
                _exponentials(found, higher)
                total[h] += _total(found)
        for block in range(blocks):
            goal = out[draw, block * BLOCK : (block + 1) * BLOCK]
            goal[:] = 0
            for h in range(heads):
                factor = F(math.exp(tops[h, block] - top[h]) / (total[h] * heads))
                _add(factor, x[block, h], goal)


@njit(fastmath=_STRICT)
def _add(factor, row, goal):  # type: ignore[no-untyped-def]
    for i in range(len(goal)):
        goal[i] += factor * row[i]
