"""Keys that are random: independent Gaussians, each with a diagonal plus a few directions of noise.

Only scores matter to attention, so the law that counts is that of the scores. It is found from products with the
queries; no width-by-width matrix is ever formed, except by `RandomKeys.covariance` for one key.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.core.rows import check_rows
from headwise.errors import CovarianceError, OptionError, ScoreOverflowError, ShapeError
from headwise.shown import MOST_ROWS, Shown, Summary, number

_BLOCK = 1 << 20
# How far below zero a variance may round when it is zero in exact arithmetic.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False, eq=False)
class ScoreLaw(Shown):
    """The law of the scores: those of key i over the heads are Gaussian, and keys are independent of each other."""

    mean: Float[np.ndarray, "k h"]
    covariance: Float[np.ndarray, "k h h"]

    def to_dict(self) -> dict[str, Any]:
        """Return means and covariances as plain data."""
        return {"kind": "score law", "mean": self.mean.tolist(), "covariance": self.covariance.tolist()}

    def summary(self) -> Summary:
        """Describe the first few keys by mean and standard deviation of their score in each head."""
        count, heads = self.mean.shape
        spread = np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))
        rows = [
            [str(i), *(f"{number(self.mean[i, h])} ± {number(spread[i, h])}" for h in range(heads))]
            for i in range(min(count, MOST_ROWS))
        ]
        notes = ["score ± its standard deviation", *([f"{count - MOST_ROWS} more keys"] if count > MOST_ROWS else [])]
        return Summary(
            f"Law of the scores of {count} keys in {heads} heads", ["key", *(f"head {h}" for h in range(heads))], rows, notes
        )

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<ScoreLaw of {self.mean.shape[0]} keys in {self.mean.shape[1]} heads>"


class RandomKeys(Shown):
    """Independent Gaussian keys k_i ~ N(mu_i, Sigma_i).

    Sigma_i is the sum of the parts given: ``isotropic`` I, a ``diagonal``, ``F F^T`` for ``factors``, and ``tau mu mu^T``
    for ``along_mean`` (the length of the key varies, its direction does not).

    Parameters
    ----------
    means
        ``(k, d)``; may be a memory-mapped array.
    isotropic
        Variance of every coordinate, one number or one per key.
    diagonal
        Variances of the coordinates, ``(d,)`` for all keys or ``(k, d)``.
    factors
        ``{row: (d, rank)}``.
    along_mean
        ``{row: tau}``. tau is a variance, relative to the squared length of the mean; it may be negative as long as
        Sigma stays positive semidefinite, which is checked.

    Examples
    --------
    Ten keys, tiny noise, and one whose length varies:

    >>> means = np.eye(10)
    >>> keys = RandomKeys(means, isotropic=1e-6, along_mean={0: 0.5})
    >>> law = keys.score_law(5 * (means[0] + means[1]))
    >>> float(law.mean[0, 0]), float(law.covariance[0, 0, 0].round(6))
    (5.0, 12.50005)
    >>> keys.sample(3).shape
    (3, 10, 10)
    """

    def __init__(
        self,
        means: Float[Array, "k d"] | Given,
        *,
        isotropic: float | Float[Array, " k"] | Given = 0.0,
        diagonal: Float[Array, "*_ d"] | Given = None,
        factors: Mapping[int, Float[Array, "d rank"]] | Given = None,
        along_mean: Mapping[int, float] | Given = None,
    ) -> None:
        """Check every part and that each covariance is positive semidefinite."""
        self.means = means if arrays.is_mapped(means) else arrays.float64("RandomKeys", "means", means)
        if self.means.ndim != 2 or 0 in self.means.shape:
            raise ShapeError("RandomKeys", f"means must have shape (k, d), but its shape is {self.means.shape}")
        self.isotropic = self._variances("isotropic", isotropic, (), (self.count,))
        self.diagonal = None if diagonal is None else self._variances("diagonal", diagonal, (self.width,), self.means.shape)
        self.factors = {row: self._factor(row, given) for row, given in self._by_row("factors", factors)}
        self.along_mean = {row: self._tau(row, given) for row, given in self._by_row("along_mean", along_mean)}
        self._shrinking = {row: self._shrinkage(row) for row, tau in self.along_mean.items() if tau < 0}

    @property
    def count(self) -> int:
        """How many keys."""
        return int(self.means.shape[0])

    @property
    def width(self) -> int:
        """How many coordinates."""
        return int(self.means.shape[1])

    def score_law(self, queries: Float[Array, "*h d"] | Given) -> ScoreLaw:
        """Return the exact law of the scores for queries ``(h, d)``, one per head; ``(d,)`` counts as one head."""
        parts = list(self.score_blocks(queries))
        return ScoreLaw(np.concatenate([mean for _, mean, _ in parts]), np.concatenate([cov for _, _, cov in parts]))

    def score_blocks(self, queries: Float[Array, "*h d"] | Given) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield rows, means ``(k, h)`` and covariances ``(k, h, h)`` of the scores block by block, in bounded memory."""
        heads = np.atleast_2d(arrays.float64("score_law", "queries", queries))
        if heads.ndim != 2:
            raise ShapeError("score_law", f"queries must have shape (d,) or (h, d), but its shape is {heads.shape}")
        arrays.check_agree("score_law", "d", {"queries": heads.shape[1], "means": self.width})
        size = max(1, _BLOCK // max(self.width, len(heads) ** 2))
        for start in range(0, self.count, size):
            rows = slice(start, min(start + size, self.count))
            with np.errstate(over="ignore", invalid="ignore"):
                mean = self._means(rows) @ heads.T
                covariance = self._score_covariances(rows, mean, heads)
            if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
                raise ScoreOverflowError(
                    "score_law",
                    "scores must fit float64, but their mean or variance is larger than 1.8e+308",
                    "Divide queries.",
                )
            yield rows, mean, covariance

    def _score_covariances(self, rows: slice, mean: np.ndarray, heads: np.ndarray) -> Float[np.ndarray, "k h h"]:
        isotropic = np.broadcast_to(self.isotropic, (self.count,))[rows]
        found = isotropic[:, None, None] * (heads @ heads.T)
        if self.diagonal is not None:
            variances = self.diagonal if self.diagonal.ndim == 1 else self.diagonal[rows, None, :]
            found += (heads * variances) @ heads.T
        for row, factor in self.factors.items():
            if rows.start <= row < rows.stop:
                reach = heads @ factor
                found[row - rows.start] += reach @ reach.T
        for row, tau in self.along_mean.items():
            if rows.start <= row < rows.stop:
                found[row - rows.start] += tau * np.outer(mean[row - rows.start], mean[row - rows.start])
        return found

    def sample(self, draws: int, *, seed: int | np.random.Generator = 0) -> Float[np.ndarray, "draws k d"]:
        """Draw whole keys; the same seed gives the same keys."""
        if not isinstance(draws, (int, np.integer)) or isinstance(draws, bool) or draws < 1:
            raise OptionError("sample", f"draws must be a whole number of at least 1, but got {draws!r}")
        rng = np.random.default_rng(seed)
        keys = rng.standard_normal((draws, self.count, self.width))
        keys *= np.sqrt(self._coordinate_variances(slice(0, self.count)))
        for row, factor in sorted(self.factors.items()):
            keys[:, row] += rng.standard_normal((draws, factor.shape[1])) @ factor.T
        for row, tau in sorted(self.along_mean.items()):
            if tau >= 0:
                length = np.sqrt(tau) * rng.standard_normal(draws)
            else:
                solved, share = self._shrinking[row]
                length = share * (keys[:, row] @ solved)
            keys[:, row] += length[:, None] * self._mean(row)
        keys += self._means(slice(0, self.count))
        return keys

    def covariance(self, row: int) -> Float[np.ndarray, "d d"]:
        """Return the covariance matrix of one key; for looking at, nothing else uses it."""
        (row,) = check_rows("covariance", row, self.count, "row").tolist()
        factor, mean = self._factor_of(row), self._mean(row)
        matrix = np.diag(self._row_variances(row)) + factor @ factor.T
        return matrix + self.along_mean.get(row, 0.0) * np.outer(mean, mean)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as plain data."""
        return {
            "kind": "random keys",
            "means": np.asarray(self.means).tolist(),
            "isotropic": self.isotropic.tolist(),
            "diagonal": None if self.diagonal is None else self.diagonal.tolist(),
            "factors": {str(row): factor.tolist() for row, factor in self.factors.items()},
            "along_mean": {str(row): tau for row, tau in self.along_mean.items()},
        }

    def summary(self) -> Summary:
        """Describe the first few keys: length of the mean, total variance, variance along the mean."""
        rows = []
        for row in range(min(self.count, MOST_ROWS)):
            mean, factor, variances = self._mean(row), self._factor_of(row), self._row_variances(row)
            length = float(np.linalg.norm(mean))
            unit = mean / length if length else mean
            lengthwise = self.along_mean.get(row, 0.0) * length**2
            total = variances.sum() + (factor**2).sum() + lengthwise
            along = variances @ unit**2 + ((unit @ factor) ** 2).sum() + lengthwise
            rows.append([str(row), number(length), number(total), number(along)])
        notes = [f"{self.count - MOST_ROWS} more keys"] if self.count > MOST_ROWS else []
        title = f"{self.count} random keys of width {self.width}"
        return Summary(title, ["key", "length of mean", "total variance", "variance along mean"], rows, notes)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<RandomKeys: {self.count} keys of width {self.width}>"

    def _means(self, rows: slice) -> Float[np.ndarray, "k d"]:
        block = np.asarray(self.means[rows], dtype=np.float64)
        if arrays.is_mapped(self.means):
            arrays.check_finite("RandomKeys", "means", block, first_row=rows.start)
        return block

    def _mean(self, row: int) -> Float[np.ndarray, " d"]:
        return self._means(slice(row, row + 1))[0]

    def _factor_of(self, row: int) -> Float[np.ndarray, "d rank"]:
        return self.factors.get(row, np.zeros((self.width, 0)))

    def _coordinate_variances(self, rows: slice) -> Float[np.ndarray, "k d"]:
        """Return the variance of each coordinate from the isotropic and diagonal parts."""
        isotropic = np.broadcast_to(self.isotropic, (self.count,))[rows, None]
        diagonal = 0.0 if self.diagonal is None else np.broadcast_to(self.diagonal, self.means.shape)[rows]
        return np.broadcast_to(isotropic + diagonal, (rows.stop - rows.start, self.width))

    def _row_variances(self, row: int) -> Float[np.ndarray, " d"]:
        return self._coordinate_variances(slice(row, row + 1))[0]

    def _variances(self, name: str, given: object, *shapes: tuple[int, ...]) -> np.ndarray:
        """Check variances that may have one of some shapes: finite and not negative."""
        if isinstance(given, (int, float)):
            given = np.float64(given)
        found = arrays.float64("RandomKeys", name, given)
        if found.shape not in shapes:
            wanted = " or ".join(str(shape) if shape else "one number" for shape in shapes)
            raise ShapeError("RandomKeys", f"{name} must be {wanted}, but its shape is {found.shape}")
        if found.min() < 0:
            raise CovarianceError("RandomKeys", f"{name} holds variances, at least 0, but the smallest is {found.min()}")
        return found

    def _by_row(self, name: str, given: Given) -> list[tuple[int, Any]]:
        if given is None:
            return []
        if not isinstance(given, Mapping):
            raise OptionError("RandomKeys", f"{name} must be a dictionary from rows, but it is a {type(given).__name__}")
        rows = check_rows("RandomKeys", given, self.count, f"{name} row").tolist()
        return list(zip(rows, given.values(), strict=True))

    def _factor(self, row: int, given: object) -> Float[np.ndarray, "d rank"]:
        factor = arrays.float64("RandomKeys", f"factors[{row}]", given)
        if factor.ndim != 2 or factor.shape[0] != self.width:
            raise ShapeError(
                "RandomKeys", f"factors[{row}] must have shape ({self.width}, rank), but its shape is {factor.shape}"
            )
        return factor

    def _tau(self, row: int, given: object) -> float:
        if not isinstance(given, Real) or not math.isfinite(given):
            raise OptionError("RandomKeys", f"along_mean[{row}] must be a finite number, but got {given!r}")
        return float(given)

    def _shrinkage(self, row: int) -> tuple[Float[np.ndarray, " d"], float]:
        """Return what takes variance away along the mean, for negative tau, or refuse a covariance that has none to give.

        With S the covariance without tau and u = S^-1 mu, the noise s + c (u.s) mu has covariance
        S + (2 c + c^2 mu.u) mu mu^T, so c solves 2 c + c^2 mu.u = tau; that needs 1 + tau mu.u >= 0.
        """
        mean, factor, variances, tau = self._mean(row), self._factor_of(row), self._row_variances(row), self.along_mean[row]
        if not mean.any():
            return np.zeros(self.width), 0.0
        if variances.min() <= 0:
            raise CovarianceError(
                "RandomKeys",
                f"along_mean[{row}] may be negative only where every coordinate has noise, but coordinate "
                f"{variances.argmin()} of key {row} has none",
                "Give it isotropic or diagonal noise.",
            )
        # Woodbury: S^-1 mu = D^-1 (mu - F y), with y the solution of a small least-squares problem.
        root = np.sqrt(variances)[:, None]
        stacked = np.vstack([factor / root, np.eye(factor.shape[1])])
        wanted = np.concatenate([mean / root[:, 0], np.zeros(factor.shape[1])])
        weights = np.linalg.lstsq(stacked, wanted)[0]
        solved = (mean - factor @ weights) / variances
        left = 1 + tau * float(mean @ solved)
        if left < -_ROUNDING:
            raise CovarianceError(
                "RandomKeys",
                f"the covariance of key {row} must be positive semidefinite, but along_mean[{row}]={tau:.12g} takes away more "
                f"than the variance that is there",
                f"The lowest it can be is {-1 / float(mean @ solved):.12g}.",
            )
        return solved, (math.sqrt(max(left, 0.0)) - 1) / float(mean @ solved)
