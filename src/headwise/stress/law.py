"""The law of the output: its mean and covariance with their errors, and further questions about it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.core.rows import check_rows
from headwise.errors import OptionError, ShapeError, check_option
from headwise.shown import Shown, Summary, number
from headwise.stress import flips, projections
from headwise.stress.assemble import Found, Tick
from headwise.stress.choose import METHODS, solved
from headwise.stress.estimate import Estimate
from headwise.stress.sampling import contexts
from headwise.stress.scores import Scores

# Squares of values, and sums of them, stay far inside the range of floats.
_SMALLEST, _LARGEST = 1e-70, 1e70
# Single precision holds no more.
_LARGEST_SCORE = 1e30


def check_seed(function: str, given: object) -> int:
    """Refuse what is no seed."""
    if not isinstance(given, (int, np.integer)) or isinstance(given, bool) or given < 0:
        raise OptionError(function, f"seed must be a whole number of at least 0, but got {given!r}")
    return int(given)


@dataclass(frozen=True, repr=False, eq=False)
class Law(Shown):
    """The law of the averaged output of some heads on random keys.

    Attributes
    ----------
    mean_error, covariance_error, variance_error
        Stated errors, 95% where it was sampled: of the mean (length), of the covariance (Frobenius norm), of its trace.
    method, reason
        How it was computed, and why so.
    evaluations
        Nodes, points or draws.
    weights_sum
        A check: what the expected weights sum to.
    heads, cross, cross_error
        With ``per_head=True``: the law of each head, the ``(h, h, v, v)`` covariances between them and the ``(h, h)`` errors
        of those (Frobenius norm).
    """

    scores: Scores
    found: Found
    method: str
    reason: str
    tolerance: float
    seed: int
    turn: Float[np.ndarray, "v c"] | None = None
    heads: "tuple[Law, ...] | None" = None
    cross: Float[np.ndarray, "h h v v"] | None = field(default=None)
    cross_error: Float[np.ndarray, "h h"] | None = field(default=None)

    @property
    def mean(self) -> Float[np.ndarray, " v"]:
        """Expected output."""
        return self.found.mean if self.turn is None else self.turn @ self.found.mean

    @cached_property
    def covariance(self) -> Float[np.ndarray, "v v"]:
        """Covariance of the output; ``apply`` and ``covariance_in`` do without the whole matrix."""
        return self.found.covariance if self.turn is None else self.turn @ self.found.covariance @ self.turn.T

    @property
    def variance(self) -> float:
        """Trace of the covariance."""
        return max(float(np.trace(self.found.covariance)), 0.0)

    mean_error = property(lambda self: self.found.mean_error)
    covariance_error = property(lambda self: self.found.covariance_error)
    variance_error = property(lambda self: self.found.variance_error)
    evaluations = property(lambda self: self.found.evaluations)
    weights_sum = property(lambda self: self.found.mass)

    @property
    def error(self) -> float:
        """Error of the covariance relative to its size."""
        size = float(np.linalg.norm(self.found.covariance))
        if size > 0:
            return self.covariance_error / size
        nothing = max(1e-14 * self.scores.length**2, (1e-14 * self.scores.largest) ** 2)
        return 0.0 if self.covariance_error <= nothing else np.inf

    @property
    def interrupted(self) -> bool:
        """Whether sampling was ended early by Ctrl-C."""
        return self.reason.startswith("interrupted")

    @property
    def met(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance

    def apply(self, vectors: Float[Array, "*n v"] | Given) -> Float[np.ndarray, "*n v"]:
        """Multiply vectors by the covariance, without forming it if the values are wider than there are keys."""
        given = self._vector("apply", "vectors", vectors, last=True)
        if self.turn is None:
            return given @ self.found.covariance
        return given @ self.turn @ self.found.covariance @ self.turn.T

    def covariance_in(self, basis: Float[Array, "b v"] | Given) -> Float[np.ndarray, "b b"]:
        """Return the covariance of the output's products with some vectors."""
        given = np.atleast_2d(self._vector("covariance_in", "basis", basis, last=True))
        if given.ndim != 2:
            raise ShapeError("covariance_in", f"basis must have shape (b, v), but its shape is {given.shape}")
        return self.apply(given) @ given.T

    def mean_squared_error(self, target: Float[Array, " v"] | Given) -> Estimate:
        """Return the expected squared distance of the output from a target."""
        away = self.mean - self._vector("mean_squared_error", "target", target)
        far = float(np.linalg.norm(away))
        error = self.variance_error + 2 * far * self.mean_error + self.mean_error**2
        return Estimate(self.variance + far**2, error)

    def flip_probability(
        self, key: int, *, against: int | None = None, head: int | Given = 0, progress: Tick | None = None
    ) -> Estimate:
        """Return the probability that a key scores strictly above all others in a head, or above one other key.

        `log` of the answer holds it where it is too small for a float. A million keys take seconds, up to a minute;
        `progress`, here and in the questions below, is called with the work done, the work to do and the name of the stage.
        """
        (row,) = check_rows("flip_probability", [key], self.scores.count, "key").tolist()
        if not isinstance(head, (int, np.integer)) or not 0 <= head < self.scores.heads:
            raise OptionError("flip_probability", f"head must be one of 0 to {self.scores.heads - 1}, but got {head!r}")
        place = int(head)
        mean, deviation = self.scores.mean[:, place], self.scores.deviation[:, place]
        if against is None:
            return flips.flip(mean, deviation, row, progress)
        (other,) = check_rows("flip_probability", [against], self.scores.count, "against").tolist()
        if other == row:
            raise OptionError("flip_probability", f"against must be another key, but both are {row}")
        return flips.pair_flip(mean, deviation, row, other)

    def cdf(
        self,
        direction: Float[Array, " v"] | Given,
        at: float | Given,
        *,
        seed: int | Given = None,
        progress: Tick | None = None,
    ) -> Estimate:
        """Return the probability that the output along a direction is at most `at`."""
        way = self._direction("cdf", direction)
        if not isinstance(at, (int, float, np.number)) or not np.isfinite(at):
            raise OptionError("cdf", f"at must be a finite number, but got {at!r}")
        return projections.distribution(self.scores, way, float(at), self._seed("cdf", seed), progress)

    def quantile(
        self,
        direction: Float[Array, " v"] | Given,
        p: float | Given,
        *,
        seed: int | Given = None,
        progress: Tick | None = None,
    ) -> Estimate:
        """Return the number that the output along a direction is below with probability p."""
        if not isinstance(p, (int, float, np.number)) or not 0 < p < 1:
            raise OptionError("quantile", f"p must lie strictly between 0 and 1, but got {p!r}")
        way = self._direction("quantile", direction)
        return projections.quantile(self.scores, way, float(p), self._seed("quantile", seed), progress)

    def probability_within(
        self,
        target: Float[Array, " v"] | Given,
        radius: float | Given,
        *,
        seed: int | Given = None,
        progress: Tick | None = None,
    ) -> Estimate:
        """Return the probability that the output is within a distance of a target."""
        if not isinstance(radius, (int, float, np.number)) or not 0 < radius < np.inf:
            raise OptionError("probability_within", f"radius must be positive, but got {radius!r}")
        goal = self._vector("probability_within", "target", target)
        away = 0.0
        if self.turn is not None:
            inside = self.turn.T @ goal
            away, goal = float(np.linalg.norm(goal - self.turn @ inside)), inside
        if away > radius:
            return Estimate(0.0, 0.0)
        left = float(np.sqrt((radius - away) * (radius + away)))
        return projections.within(self.scores, goal, left, self._seed("probability_within", seed), progress)

    def sample(self, draws: int | Given, *, seed: int | Given = None) -> Float[np.ndarray, "draws v"]:
        """Draw outputs."""
        if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 1:
            raise OptionError("sample", f"draws must be a whole number of at least 1, but got {draws!r}")
        rng = np.random.default_rng(self._seed("sample", seed))
        size = max(1, (1 << 22) // (self.scores.count * self.scores.heads))
        parts = [contexts(self.scores, min(size, draws - start), rng).mean(axis=1) for start in range(0, draws, size)]
        found = np.concatenate(parts) + self.scores.centre
        return found if self.turn is None else found @ self.turn.T

    def to_dict(self) -> dict[str, Any]:
        """Return the law as plain data."""
        return {
            "kind": "law",
            "heads": self.scores.heads,
            "keys": self.scores.count,
            "mean": self.mean.tolist(),
            "mean_error": self.mean_error,
            "covariance": self.covariance.tolist(),
            "covariance_error": self.covariance_error,
            "variance": self.variance,
            "variance_error": self.variance_error,
            "method": self.method,
            "reason": self.reason,
            "evaluations": self.evaluations,
            "weights_sum": self.weights_sum,
            "tolerance": self.tolerance,
            "met": self.met,
        }

    def summary(self) -> Summary:
        """Describe the spread of the output and how it was found."""
        size = float(np.linalg.norm(self.mean))
        rows = [
            ["variance of the output", number(self.variance), number(self.variance_error)],
            ["covariance, Frobenius norm", number(np.linalg.norm(self.found.covariance)), number(self.covariance_error)],
            ["length of the mean", number(size), number(self.mean_error)],
            ["expected weights sum to", number(self.weights_sum), ""],
        ]
        heads = "one head" if self.scores.heads == 1 else f"{self.scores.heads} averaged heads"
        title = f"Law of the output: {heads}, {self.scores.count} keys"
        return Summary(title, ["", "", "error"], rows, [f"{self.method}, {self.evaluations} evaluations: {self.reason}"])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Law: variance {number(self.variance)} ± {number(self.variance_error)}, {self.method}>"

    def _vector(self, function: str, name: str, given: object, *, last: bool = False) -> np.ndarray:
        found = arrays.float64(function, name, given)
        width = self.scores.given.shape[1] if self.turn is None else len(self.turn)
        if (found.ndim != 1 and not last) or found.ndim == 0:
            raise ShapeError(function, f"{name} must have shape (v,), but its shape is {found.shape}")
        arrays.check_agree(function, "v", {name: found.shape[-1], "values": width})
        return found

    def _seed(self, function: str, given: int | Given) -> int:
        return self.seed if given is None else check_seed(function, given)

    def _direction(self, function: str, given: object) -> np.ndarray:
        found = self._vector(function, "direction", given)
        if not found.any():
            raise OptionError(function, "direction must not be zero, but all its entries are")
        return found if self.turn is None else found @ self.turn


def law(
    queries: Float[Array, "*h d"] | Given,
    random_keys: RandomKeys | Given,
    values: Float[Array, "k v"] | Given,
    *,
    method: str = "auto",
    tolerance: float | Given = 1e-3,
    seed: int | Given = 0,
    per_head: bool = False,
    progress: Callable[[int, int, str], object] | None = None,
) -> Law:
    """Find the law of the output of one head, or of the mean of several, when keys are random.

    Parameters
    ----------
    queries
        ``(d,)`` for one head or ``(h, d)`` for the mean over several.
    values
        ``(k, v)``.
    method
        "auto", or by name: "laplace" (one head or independent heads) and "pairs" (any heads) integrate, "hybrid" and
        "montecarlo" sample, "delta" is for tiny noise.
    tolerance
        Wanted error of the covariance, relative to its Frobenius norm.
    seed
        For what is sampled; the same seed gives the same law.
    per_head
        Also find the law of every head and their cross-covariances.
    progress
        Called with the work done, the work to do and the name of the stage. Ctrl-C ends sampling early, with the law so far.

    Examples
    --------
    The length of one key varies. One head that averages two keys jumps between them; two heads that copy one each do not:

    >>> import headwise as hw
    >>> keys = hw.RandomKeys(np.eye(10), isotropic=1e-6, along_mean={0: 0.5})
    >>> one = law(10 * (np.eye(10)[0] + np.eye(10)[1]), keys, np.eye(10))
    >>> two = law(10 * np.eye(10)[:2], keys, np.eye(10))
    >>> round(one.variance, 2), round(two.variance, 3)
    (0.39, 0.025)
    """
    heads, small, turn = _checked(queries, random_keys, values)
    check_option("law", "method", method, ("auto", *METHODS))
    if not (isinstance(tolerance, (int, float, np.number)) and not isinstance(tolerance, bool) and 0 < tolerance < np.inf):
        raise OptionError("law", f"tolerance must be positive, but got {tolerance!r}")
    check_seed("law", seed)
    scores = Scores(heads, random_keys, small)
    largest = float(max(np.abs(scores.mean).max(), scores.deviation.max()))
    if not largest < _LARGEST_SCORE:
        raise OptionError(
            "law",
            f"scores must be below {_LARGEST_SCORE:g}, but the largest is {largest:.3g}",
            "Divide the queries by a number.",
        )
    answer = solved(scores, method, float(tolerance), int(seed), progress)
    made: dict[str, Any] = {}
    if per_head:
        made = _per_head(scores, answer.method, float(tolerance), int(seed), progress, turn)
    return Law(scores, answer.found, answer.method, answer.reason, float(tolerance), int(seed), turn, **made)


def _checked(queries: object, random_keys: object, values: object) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Check everything that comes in; values wider than there are keys are turned into as many coordinates as keys."""
    if not isinstance(random_keys, RandomKeys):
        raise OptionError("law", f"random_keys must be RandomKeys, but it is a {type(random_keys).__name__}")
    heads = np.atleast_2d(arrays.float64("law", "queries", queries))
    if heads.ndim != 2 or 0 in heads.shape:
        raise ShapeError("law", f"queries must have shape (d,) or (h, d), but its shape is {heads.shape}")
    arrays.check_agree("law", "d", {"queries": heads.shape[1], "means": random_keys.width})
    found = arrays.float64("law", "values", values)
    if found.ndim != 2 or found.shape[1] == 0:
        raise ShapeError("law", f"values must have shape (k, v), but its shape is {found.shape}")
    arrays.check_agree("law", "k", {"values": len(found), "means": random_keys.count})
    size = max(float(found.max()), -float(found.min()))
    if size and not _SMALLEST < size < _LARGEST:
        problem = f"the largest value must be between {_SMALLEST:g} and {_LARGEST:g} in size, but it is {size:g}"
        raise OptionError("law", problem, "Scale values.")
    if found.shape[1] <= max(len(found), 64):
        return heads, found, None
    turn = np.linalg.qr(found.T)[0]
    return heads, found @ turn, turn


def _per_head(
    scores: Scores, method: str, tolerance: float, seed: int, progress: Tick | None, turn: np.ndarray | None
) -> dict[str, Any]:
    """Return the law of each head, and the covariances between heads."""
    count, width = scores.heads, scores.given.shape[1]
    blocks, errors = np.zeros((count, count, width, width)), np.zeros((count, count))
    laws = []
    for h in range(count):
        own = Scores(scores.queries[h : h + 1], scores.keys, scores.given)
        answer = solved(own, "auto" if method == "pairs" else method, tolerance, seed, progress)
        laws.append(Law(own, answer.found, answer.method, answer.reason, tolerance, seed, turn))
        blocks[h, h], errors[h, h] = answer.found.covariance, answer.found.covariance_error
        for g in range(h + 1, count):
            if scores.coupled[h, g]:
                two = Scores(scores.queries[[h, g]], scores.keys, scores.given)
                found = solved(two, method, tolerance, seed, progress, block=(0, 1)).found
                blocks[h, g], errors[h, g] = found.covariance, found.covariance_error
                blocks[g, h], errors[g, h] = blocks[h, g].T, errors[h, g]
    if turn is not None:
        blocks = np.einsum("vc,hgcd,xd->hgvx", turn, blocks, turn, optimize=True)
    return {"heads": tuple(laws), "cross": blocks, "cross_error": errors}
