"""Settings whose answer is known in closed form, used by many tests."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """One query on some keys, and the weights that pencil and paper give."""

    name: str
    query: np.ndarray
    keys: np.ndarray
    weights: np.ndarray


def _pair(beta: float, count: int) -> Case:
    """The sum of two orthonormal keys, times beta: weight e^beta / (2 e^beta + n - 2) on each of the two."""
    keys = np.eye(count)
    away = 1 / (2 * math.exp(beta) + count - 2)
    weights = np.full(count, away)
    weights[:2] = math.exp(beta) * away
    return Case(f"pair at beta {beta}", beta * (keys[0] + keys[1]), keys, weights)


CASES = [
    _pair(1.0, 10),
    _pair(7.0, 10),
    _pair(-3.0, 5),
    Case("one key", np.array([2.0, 3.0]), np.array([[1.0, -4.0]]), np.array([1.0])),
    Case("equal keys", np.array([5.0]), np.full((7, 1), 3.0), np.full(7, 1 / 7)),
    Case("odds 1:2:3:4", np.array([1.0]), np.log([[1.0], [2.0], [3.0], [4.0]]), np.array([0.1, 0.2, 0.3, 0.4])),
    Case("scores of 1e300", np.array([1e150]), np.array([[1e150], [1e150], [-1e150]]), np.array([0.5, 0.5, 0.0])),
    Case("scores of -1e300", np.array([-1e150]), np.array([[1e150], [1e150]]), np.array([0.5, 0.5])),
    Case("scores of 1e4", np.array([1e4]), np.array([[1.0], [1.0 - math.log(3) / 1e4]]), np.array([0.75, 0.25])),
]
