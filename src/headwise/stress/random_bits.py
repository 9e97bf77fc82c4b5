"""Random normals that depend on seed and place only: Threefry-2x32 with 13 rounds, then Box and Muller, for NumPy.

`fused` computes the same numbers, up to rounding, in compiled loops.
"""

import numpy as np
from jaxtyping import Float32

# Scores are drawn in blocks of so many keys; which number belongs to which key depends on it.
BLOCK = 2048
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24), (13, 15, 26, 6), (17,))


def bits(key: tuple[int, int], first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two random words for every counter.

    The published test vector for key and counter zero:

    >>> [hex(word[0]) for word in bits((0, 0), np.zeros(1, np.uint32), np.zeros(1, np.uint32))]
    ['0x9d1c5ec6', '0x8bd50731']
    """
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ _PARITY)]
    with np.errstate(over="ignore"):
        x, y = np.broadcast_arrays(first + keys[0], second + keys[1])
        x, y = x.astype(np.uint32), y.astype(np.uint32)
        for group, turns in enumerate(_ROTATIONS):
            for turn in turns:
                x = x + y
                y = ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn))) ^ x
            if len(turns) == 4:  # the keys join after every four rounds
                x, y = x + keys[(group + 1) % 3], y + (keys[(group + 2) % 3] + np.uint32(group + 1))
    return x, y


def normals(key: tuple[int, int], draws: np.ndarray, count: int, heads: int) -> Float32[np.ndarray, "n h k"]:
    """Return independent normals for some draws, heads and keys.

    >>> normals((1, 2), np.arange(3), 5, 2).shape
    (3, 2, 5)
    """
    pairs = -(-heads // 2)
    found = np.empty((len(draws), heads, count), dtype=np.float32)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        place = np.arange(size, dtype=np.uint32)
        if heads == 1:
            half = -(-size // 2)
            x, y = _normal(key, (start // 2 + place[:half]).astype(np.uint32), draws[:, None].astype(np.uint32))
            found[:, 0, start : start + size] = np.concatenate([x, y[:, : size - half]], axis=1)
            continue
        for pair in range(pairs):
            x, y = _normal(key, (start + place).astype(np.uint32), (draws * pairs + pair)[:, None].astype(np.uint32))
            found[:, 2 * pair, start : start + size] = x
            if 2 * pair + 1 < heads:
                found[:, 2 * pair + 1, start : start + size] = y
    return found


def _normal(key: tuple[int, int], first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = bits(key, first, second)
    uniform = (a >> np.uint32(1)).astype(np.float32) * np.float32(2.0**-31) + np.float32(2.0**-32)
    radius = np.sqrt(-2 * np.log(np.minimum(uniform, np.float32(1.0))))
    angle = b.astype(np.int32).astype(np.float64) * (2 * np.pi * 2.0**-32)
    return (radius * np.cos(angle)).astype(np.float32), (radius * np.sin(angle)).astype(np.float32)
