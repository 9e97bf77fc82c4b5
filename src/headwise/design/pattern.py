"""Where each position of a self-attention layer shall look: the least B = K^T Q that makes it so, or a proof that none does.

The score of token j for position i is x_j^T B x_i, linear in B. For position i that shall read the set S_i, all members
must score alike and at least 1 above every other token. The least-norm B is found in the dual, whose Gram products are
products of n-by-n matrices; no vector of length d^2 is formed. Where that fails, the rows (x_p - x_j) x_i^T go to the
one question behind all of `design`, which decides exactly.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from flint import fmpz_mat
from jaxtyping import Bool, Float, Int

from headwise.design import exact
from headwise.design.separate import UNIT, Mixture, Question, Separation, Undecided, power_of_two, scaled, separate

Product: TypeAlias = Callable[[np.ndarray], np.ndarray]

_MOST, _SETTLE, _TOLERANCE = 3000, 50, 1e-10
# The exact question is asked first while its float rows hold this many numbers at most, and at all up to the second.
_CHEAP, _EXPLICIT = 5_000_000, 20_000_000


@dataclass(frozen=True)
class Pattern:
    """Rows of tokens that look somewhere, and whom they look at."""

    tokens: Float[np.ndarray, "n d"]
    positions: Int[np.ndarray, " p"]
    members: Bool[np.ndarray, "p n"]

    @property
    def leaders(self) -> Int[np.ndarray, " p"]:
        """The first member of each position's set; the others are compared with it."""
        return self.members.argmax(axis=1)

    def gaps(self, matrix: Float[np.ndarray, "d d"]) -> tuple[Float[np.ndarray, "p n"], Float[np.ndarray, "p n"]]:
        """Return how far each token scores below the lowest member, and a bound on the rounding of that."""
        looking = self.tokens[self.positions]
        scores = looking @ matrix.T @ self.tokens.T
        terms = (2 * self.tokens.shape[1] + 6) * UNIT
        slack = terms / (1 - terms) * (np.abs(looking) @ np.abs(matrix).T @ np.abs(self.tokens).T)
        return self._below(scores, slack)

    def factored_gaps(
        self, key: Float[np.ndarray, "r d"], query: Float[np.ndarray, "r d"]
    ) -> tuple[Float[np.ndarray, "p n"], Float[np.ndarray, "p n"]]:
        """Return the same for scores (K x_j) . (Q x_i), as the layer computes them."""
        keys, queries = self.tokens @ key.T, self.tokens[self.positions] @ query.T
        terms = (2 * self.tokens.shape[1] + len(key) + 6) * UNIT
        sizes = np.abs(self.tokens) @ np.abs(key).T, np.abs(self.tokens[self.positions]) @ np.abs(query).T
        return self._below(queries @ keys.T, terms / (1 - terms) * (sizes[1] @ sizes[0].T))

    def _below(self, scores: np.ndarray, slack: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lowest = np.where(self.members, scores, np.inf).min(axis=1, keepdims=True)
        return lowest - scores, slack + slack.max(axis=1, keepdims=True)


def solve(pattern: Pattern, *, seconds: float) -> Float[np.ndarray, "d d"] | Mixture | Undecided:
    """Return the least B with margins of at least 1, a proof that there is none, or the reason why neither was found."""
    if not len(pattern.positions) or pattern.members.all():
        return np.zeros((pattern.tokens.shape[1],) * 2)
    count = int((~pattern.members).sum())
    tokens, width = pattern.tokens.shape
    # More tokens than coordinates often leave no solution, and few coordinates make the explicit rows cheap.
    explicit = tokens > width and count * width**2 <= _CHEAP
    deadline = time.monotonic() + seconds
    matrix = None if explicit else _dual(pattern, deadline)
    if matrix is not None:
        return matrix
    late = time.monotonic() > deadline
    if late or count * width**2 > _EXPLICIT:
        why = f" within {seconds:g} s" if late else f", and the exact question has {count} rows of length {width**2}"
        return Undecided(f"no margin was found{why}")
    answer = separate(question(pattern), seconds=deadline - time.monotonic())
    if not isinstance(answer, Separation):
        return answer
    matrix = answer.direction.reshape(width, width)
    smallest = float(pattern.gaps(matrix)[0][~pattern.members].min())
    if smallest <= 0:
        return Undecided("the pattern is possible by rounding only: float64 scores cannot show the margin")
    return matrix / smallest


def _dual(pattern: Pattern, deadline: float) -> Float[np.ndarray, "d d"] | None:
    """Solve the dual by accelerated projected gradients and, once the active set settles, conjugate gradients."""
    tokens, positions = pattern.tokens, pattern.positions
    unit = float(np.abs(tokens).max())
    if unit == 0:
        return None
    tokens = tokens / unit
    gram = tokens @ tokens.T
    among = gram[np.ix_(positions, positions)]
    rows, leaders = np.arange(len(positions)), pattern.leaders
    live = np.ones(pattern.members.shape, dtype=bool)
    live[rows, leaders] = False
    # Members are held level with their leader (free sign, wanted difference 0), others below it (sign, difference 1).
    level = pattern.members & live
    wanted = (live & ~level).astype(np.float64)

    def spread(duals: np.ndarray) -> np.ndarray:
        moved = -duals
        moved[rows, leaders] += duals.sum(axis=1)
        return moved

    def product(duals: np.ndarray) -> np.ndarray:
        scores = among @ spread(duals) @ gram
        return (scores[rows, leaders][:, None] - scores) * live

    duals = _ascended(product, wanted, live, level, deadline)
    if duals is None:
        return None
    matrix = tokens.T @ spread(duals).T @ tokens[positions] / unit**2
    gaps, _ = pattern.gaps(matrix)
    smallest = float(gaps[~pattern.members].min())
    # A sign pattern alone proves nothing: it also closes on some infeasible cases.
    return matrix / smallest if smallest > 0.999 else None


def _ascended(product: Product, wanted: np.ndarray, live: np.ndarray, level: np.ndarray, deadline: float) -> np.ndarray | None:
    """Maximise wanted . u - u . product(u) / 2 over u that are not negative, except where `level`; None if it does not end."""
    trial = np.random.default_rng(0).random(wanted.shape) * live
    for _ in range(30):
        grown = product(trial)
        steepest = float(np.linalg.norm(grown)) / float(np.linalg.norm(trial))
        if not steepest > 0:  # tokens of zeros score alike whatever B is
            return None
        trial = grown / steepest
    step = 1 / (1.05 * steepest)
    duals, ahead, pace = np.zeros(wanted.shape), np.zeros(wanted.shape), 1.0
    for turn in range(1, _MOST + 1):
        moved = ahead + step * (wanted - product(ahead))
        moved = np.where(level, moved, np.maximum(moved, 0.0))
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        if ((ahead - moved) * (moved - duals)).sum() > 0:  # past the top: start again from here
            faster, ahead = 1.0, moved
        else:
            ahead = moved + (pace - 1) / faster * (moved - duals)
        duals, pace = moved, faster
        if time.monotonic() > deadline:
            return None
        if turn % _SETTLE == 0:
            found = _settled(product, duals, wanted, live, level)
            if found is not None:
                return found
    return None


def _settled(product: Product, duals: np.ndarray, wanted: np.ndarray, live: np.ndarray, level: np.ndarray) -> np.ndarray | None:
    """Solve for the duals that are in use, and move those with the wrong sign in or out until all signs are right."""
    free = level | (duals > 1e-9 * duals.max(initial=0.0))
    found = np.where(free, duals, 0.0)
    for _ in range(20):
        found = _conjugate(product, found, wanted, free)
        wrong = free & ~level & (found < 0)
        missing = live & ~free & (product(found) - wanted < -_TOLERANCE)
        if not wrong.any() and not missing.any():
            return found
        free = (free & ~wrong) | missing
        found = np.where(free, found, 0.0)
    return None


def _conjugate(product: Product, start: np.ndarray, wanted: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Solve product(u) = wanted on the free entries by conjugate gradients."""
    found = start
    rest = (wanted - product(found)) * free
    heading, size = rest, float((rest * rest).sum())
    enough = (1e-2 * _TOLERANCE) ** 2 * wanted.size
    for _ in range(500):
        if size <= enough:
            break
        moved = product(heading) * free
        curve = float((heading * moved).sum())
        if curve <= 0:
            break
        length = size / curve
        found = found + length * heading
        rest = rest - length * moved
        smaller = float((rest * rest).sum())
        heading, size = rest + smaller / size * heading, smaller
    return found


def level_map(pattern: Pattern, weights: list[list[float]]) -> Float[np.ndarray, "d d"] | None:
    """Return the least B that gives the members of each set the wanted ratios of weights; None if they contradict."""
    tokens = pattern.tokens
    level = pattern.members.copy()
    level[np.arange(len(level)), pattern.leaders] = False
    rows, others = np.nonzero(level)
    shares = np.array(weights, dtype=np.float64).reshape(level.shape)
    ratios = np.log(shares[rows, others] / shares[rows, pattern.leaders[rows]])
    if not len(rows) or not ratios.any():
        return np.zeros((tokens.shape[1],) * 2)
    differences, looking = tokens[others] - tokens[pattern.leaders[rows]], tokens[pattern.positions[rows]]
    gram = (differences @ differences.T) * (looking @ looking.T)
    solved = np.linalg.lstsq(gram, ratios, rcond=1e-12)[0]
    if np.abs(gram @ solved - ratios).max() > 1e-9 * np.abs(ratios).max():
        return None
    return np.einsum("m,ma,mb->ab", solved, differences, looking)


def question(pattern: Pattern) -> Question:
    """Write the pattern as rows (x_p - x_j) x_i^T that B must score above zero, and a span that it must score zero."""
    tokens, positions, leaders = pattern.tokens, pattern.positions, pattern.leaders
    width = tokens.shape[1]
    small = scaled(tokens, power_of_two(tokens))
    outside = np.argwhere(~pattern.members)
    level = pattern.members.copy()
    level[np.arange(len(positions)), leaders] = False
    inside = np.argwhere(level)
    whole = None

    def floats(pairs: Int[np.ndarray, "m 2"]) -> np.ndarray:
        first, other = small[leaders[pairs[:, 0]]], small[pairs[:, 1]]
        return np.einsum("ma,mb->mab", first - other, small[positions[pairs[:, 0]]]).reshape(len(pairs), width * width)

    def exactly(pairs: Int[np.ndarray, "m 2"]) -> fmpz_mat:
        nonlocal whole
        whole = exact.integers(tokens) if whole is None else whole
        entries = []
        for place, other in pairs.tolist():
            difference = [a - b for a, b in zip(whole[leaders[place]], whole[other], strict=True)]
            entries += [a * b for a in difference for b in whole[positions[place]]]
        return fmpz_mat(len(pairs), width * width, entries)

    return Question(
        floats(outside), lambda places: exactly(outside[list(places)]), -floats(inside), lambda: exactly(inside), roundings=3
    )
