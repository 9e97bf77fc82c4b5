"""The value matrix of a layer: V must send what each position reads to what it shall get, a linear system."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from flint import fmpz_mat
from jaxtyping import Float

from headwise.design import exact
from headwise.design.certificates import Dependency

_ROUNDING = 1e-11


def value_map(
    tokens: Float[np.ndarray, "n d"], reads: Mapping[int, Mapping[int, float]], targets: Mapping[int, Float[np.ndarray, " v"]]
) -> tuple[Float[np.ndarray, "v d"], float] | Dependency:
    """Return the least V and how far it leaves the targets, relative to them, or the dependency that no V can satisfy.

    A dependency that only the rounding of the targets violates is none.
    """
    places = list(targets)
    mixtures = [reads[place] for place in places]
    read = np.stack([sum(weight * tokens[j] for j, weight in mixture.items()) for mixture in mixtures])
    wanted = np.stack([targets[place] for place in places])
    size = float(np.abs(wanted).max()) or 1.0
    found = np.linalg.lstsq(read, wanted / size, rcond=1e-13)[0].T
    missed = float(np.abs(read @ found.T - wanted / size).max())
    if missed > _ROUNDING:
        contradiction = _contradiction(tokens, mixtures, [targets[place] for place in places])
        if contradiction is not None:
            return Dependency(tokens, mixtures, [targets[place] for place in places], contradiction)
    return found * size, missed


def _contradiction(tokens: np.ndarray, mixtures: list[Mapping[int, float]], wanted: list[np.ndarray]) -> list[Fraction] | None:
    """Return coefficients that make the mixtures vanish but not their targets, exactly; None if there are none."""
    whole = exact.integers(tokens)
    shares = np.zeros((len(mixtures), len(tokens)))
    for row, mixture in zip(shares, mixtures, strict=True):
        row[list(mixture)] = list(mixture.values())
    read = fmpz_mat(exact.integers(shares)) * fmpz_mat(whole)
    goals = fmpz_mat(exact.integers(np.stack(wanted)))
    null, width = read.transpose().nullspace()
    for column in range(width):
        coefficients = [int(null[i, column]) for i in range(len(mixtures))]
        if any(exact.margins(goals.transpose(), coefficients)):
            return [Fraction(entry) for entry in coefficients]
    return None
