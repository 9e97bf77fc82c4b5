"""Queries of least expected squared error when the keys are random: sections by sampling, verdicts by the exact law."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.random_keys import RandomKeys
from headwise.design.certificates import Certificate
from headwise.design.door import check_count, check_vector
from headwise.design.queries import average
from headwise.design.result import Design
from headwise.errors import OptionError, ShapeError
from headwise.stress.curve import best_scale
from headwise.stress.law import check_seed, law

_SPACE = 1 << 22
_MOST_DRAWS = 2048
_STEPS = 300


@dataclass(frozen=True)
class Steadier(Certificate):
    """Queries whose expected squared error is at most a bound, by the law of their output."""

    queries: np.ndarray
    random_keys: RandomKeys
    values: np.ndarray
    target: np.ndarray
    bound: float

    def check(self) -> bool:
        """Compute the law again, ten times as accurately."""
        found = law(self.queries, self.random_keys, self.values, tolerance=1e-4, seed=1).mean_squared_error(self.target)
        return found.value + found.error <= self.bound

    def describe(self) -> str:
        """Say what is known."""
        return f"the law of these queries gives an expected squared error of at most {self.bound:.4g}"


def robust(
    random_keys: RandomKeys | Given,
    values: Float[Array, "k v"] | Given,
    target: Float[Array, " v"] | Given,
    *,
    heads: int = 1,
    seed: int | Given = 0,
    progress: Callable[[int, int, str], object] | None = None,
) -> Design:
    """Find queries whose averaged output is closest to a target in the mean square, when keys are random.

    Starts from the plain designs (the keys whose values mix to the target, split over the heads, at their best scale) and from
    smaller changes of them, and descends on a fixed sample of keys. The result is a local optimum, and compared with the plain
    design by the exact law: `numbers` holds both errors.

    Examples
    --------
    >>> import headwise as hw
    >>> e = np.eye(6)
    >>> noisy = hw.RandomKeys(e, isotropic=1e-4, along_mean={0: 0.5})
    >>> found = robust(noisy, e, (e[0] + e[1]) / 2, heads=1)
    >>> found.numbers["mean_squared_error"] < found.numbers["plain_error"]
    True
    """
    known, goal = _checked(random_keys, values, target)
    count = check_count("robust", "heads", heads)
    check_seed("robust", seed)
    plain = _plain(random_keys, known, goal, count)
    scale = best_scale(plain, random_keys, known, goal, seed=seed, progress=progress).scale
    base = law(scale * plain, random_keys, known, seed=seed).mean_squared_error(goal)
    plain_error = base.value
    size = int(np.clip(_SPACE // (random_keys.count * random_keys.width), 64, _MOST_DRAWS))
    sample = random_keys.sample(size, seed=np.random.default_rng([seed, 5]))
    rng = np.random.default_rng([seed, 6])
    starts = [scale * plain, *(scale * plain * (1 + 0.3 * rng.standard_normal(plain.shape)) for _ in range(2))]
    best, best_error, error_error = scale * plain, plain_error, base.error
    # When a descent ends does not depend on the size of the values.
    unit = float(max(np.abs(known).max(), np.abs(goal).max())) or 1.0
    for number, start in enumerate(starts):

        def told(step: int, number: int = number) -> None:
            if progress is not None:
                progress(step, _STEPS, f"descent {number + 1} of {len(starts)}")

        queries = _descended(start, (sample, known / unit, goal / unit), told)
        found = law(queries, random_keys, known, seed=seed).mean_squared_error(goal)
        if found.value < best_error:
            best, best_error, error_error = queries, found.value, found.error
    better = best_error < plain_error * (1 - 1e-6)
    reason = (
        "a local optimum, better than the plain design at its best scale"
        if better
        else "the plain design at its best scale, which no descent improved; a local optimum"
    )
    bound = best_error + 2 * error_error
    return Design(
        "robust",
        "possible",
        reason,
        best,
        certificate=Steadier(best, random_keys, known, goal, bound * (1 + 1e-9)),
        numbers={
            "mean_squared_error": best_error,
            "error_of_that": error_error,
            "plain_error": plain_error,
            "plain_scale": scale,
        },
    )


def _checked(random_keys: object, values: object, target: object) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(random_keys, RandomKeys):
        raise OptionError("robust", f"random_keys must be RandomKeys, but it is a {type(random_keys).__name__}")
    known = arrays.float64("robust", "values", values)
    if known.ndim != 2:
        raise ShapeError("robust", f"values must have shape (k, v), but its shape is {known.shape}")
    arrays.check_agree("robust", "k", {"values": len(known), "means": random_keys.count})
    return known, check_vector("robust", "target", target, "v", {"values": known.shape[1]})


def _plain(random_keys: RandomKeys, values: np.ndarray, target: np.ndarray, heads: int) -> Float[np.ndarray, "h d"]:
    """Return the queries of the design without noise: the keys whose values mix to the target, split over the heads."""
    from scipy.optimize import nnls  # noqa: PLC0415  slow to load

    size = float(np.abs(values).max()) or 1.0
    shares, _ = nnls(np.vstack([values.T, np.full(len(values), size)]), np.append(target, size))
    chosen = np.flatnonzero(shares > 1e-3 * shares.max(initial=1.0))
    means = np.asarray(random_keys.means, dtype=np.float64)
    designed = average(means, chosen, leak=0.05, heads=min(heads, len(chosen))).queries if len(chosen) else None
    if designed is None:
        wanted = np.zeros((len(means), 1))
        wanted[chosen if len(chosen) else slice(None)] = 5.0
        designed = np.linalg.lstsq(means, wanted)[0].T
    return designed[np.arange(heads) % len(designed)]


def _descended(
    start: np.ndarray, given: tuple[np.ndarray, np.ndarray, np.ndarray], told: Callable[[int], object]
) -> Float[np.ndarray, "h d"]:
    """Follow the gradient of the mean squared error, on a sample of keys with values and a target, to where it vanishes."""
    from scipy.optimize import minimize  # noqa: PLC0415

    heads, (sample, values, target), steps = len(start), given, itertools.count(1)

    def cost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        queries = flat.reshape(start.shape)
        scores = sample @ queries.T
        scores -= scores.max(axis=1, keepdims=True)
        weights = np.exp(scores)
        weights /= weights.sum(axis=1, keepdims=True)
        contexts = np.einsum("nkh,kv->nhv", weights, values, optimize=True)
        away = contexts.mean(axis=1) - target
        pull = (values @ away.T).T[:, :, None] - np.einsum("nhv,nv->nh", contexts, away)[:, None, :]
        slopes = 2 / heads * weights * pull / len(sample)
        return float((away**2).sum(axis=1).mean()), np.einsum("nkh,nkd->hd", slopes, sample, optimize=True).ravel()

    def stepped(_: np.ndarray) -> None:
        told(next(steps))

    found: Any = minimize(  # type: ignore[call-overload]  # it wants the callback's argument by another name for each method
        cost, start.ravel(), jac=True, method="L-BFGS-B", callback=stepped, options={"maxiter": _STEPS}
    )
    return np.asarray(found.x).reshape(start.shape)
