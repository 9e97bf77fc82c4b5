"""Which keys occur more than once: a hash proposes, a comparison decides."""

import numpy as np
from jaxtyping import Bool, Float, Int

from headwise.design.witnesses import over_blocks

_BLOCK = 512


def distinct(keys: Float[np.ndarray, "k d"], workers: int) -> tuple[Int[np.ndarray, " m"], Bool[np.ndarray, " k"]]:
    """Return the first row of every kind of key, and which keys have an equal."""
    factors = np.random.default_rng(3).integers(0, 2**63, keys.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def hashed(start: int) -> np.ndarray:
        bits = (keys[start : start + _BLOCK] + 0.0).view(np.uint64)  # -0.0 becomes 0.0, which it equals
        bits ^= bits >> np.uint64(29)
        bits *= factors
        bits ^= bits >> np.uint64(32)
        return np.asarray(bits.sum(axis=1))

    hashes = np.concatenate(list(over_blocks(hashed, len(keys), _BLOCK, workers)))
    order = np.argsort(hashes, kind="stable")
    pairs = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    new = np.ones(len(keys), dtype=bool)
    for start in range(0, len(pairs), _BLOCK):
        places = pairs[start : start + _BLOCK]
        new[places + 1] = (keys[order[places]] != keys[order[places + 1]]).any(axis=1)
    # Equal hashes of unequal keys: sort those keys themselves, so that equal ones stand together.
    for start in np.unique(hashes[order[pairs[new[pairs + 1]]]]).tolist():
        places = np.flatnonzero(hashes[order] == start)
        order[places] = order[places][np.lexsort(keys[order[places]].T[::-1])]
        alike = (keys[order[places[1:]]] == keys[order[places[:-1]]]).all(axis=1)
        new[places] = np.append(True, ~alike)
    group = np.cumsum(new) - 1
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[order] = np.bincount(group)[group] > 1
    return np.sort(order[new]), repeated
