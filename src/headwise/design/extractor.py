"""Taking one vector back out of a sum: the projector along one subspace onto another, and what it costs in noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise import arrays
from headwise.arrays import Array, Given
from headwise.design.door import check_count, check_matrix, check_vector
from headwise.design.separate import UNIT
from headwise.errors import SubspaceError
from headwise.shown import Shown, Summary, number

# Singular values below this part of the largest are rounding.
_RANK = 1e-12


@dataclass(frozen=True, repr=False)
class Extractor(Shown):
    """A matrix M with M v = v on one subspace and M w = 0 on the other; made by `extractor`.

    Attributes
    ----------
    matrix
        ``(d, d)``.
    norm
        The most that M lengthens a vector: 1 for orthogonal subspaces, 1 / sin(angle) in general.
    angle
        The smallest angle between the two subspaces, in radians; a right angle when there is nothing to be against.
    residual
        How far rounding leaves M from doing exactly what it says, on unit vectors of the two subspaces, times the norm.
    """

    matrix: Float[np.ndarray, "d d"]
    norm: float
    angle: float
    residual: float

    def extract(self, total: Float[Array, "*n d"] | Given) -> Float[np.ndarray, "*n d"]:
        """Return the part of a sum, or of many sums in rows, that lies in the subspace."""
        found = arrays.float64("extract", "total", total)
        arrays.check_rank("extract", "total", found, 1, "(d,) or (n, d)")
        arrays.check_agree("extract", "d", {"total": found.shape[-1], "matrix": len(self.matrix)})
        return found @ self.matrix.T

    def from_average(self, context: Float[Array, " d"] | Given, *, parts: int = 2) -> Float[np.ndarray, " d"]:
        """Return the summand out of an average of `parts` values, such as an attention context."""
        count = check_count("from_average", "parts", parts)
        return count * self.extract(check_vector("from_average", "context", context, "d", {"matrix": len(self.matrix)}))

    def error_bound(self, context_error: float, *, size: float, parts: int = 2) -> float:
        """Bound the error of `from_average` when the context is off by at most `context_error` and no longer than `size`."""
        return check_count("error_bound", "parts", parts) * (self.norm * context_error + 2 * self.residual * size)

    def to_dict(self) -> dict[str, Any]:
        """Return the matrix and its numbers as plain data."""
        return {
            "kind": "extractor",
            "matrix": self.matrix.tolist(),
            "norm": self.norm,
            "angle": self.angle,
            "residual": self.residual,
        }

    def summary(self) -> Summary:
        """Describe the matrix by its numbers."""
        rank = round(float(np.trace(self.matrix)))
        rows = [
            ["takes out", f"a subspace of dimension {rank} of {len(self.matrix)}"],
            ["noise grows by at most", number(self.norm)],
            ["smallest angle", f"{number(np.degrees(self.angle))} degrees"],
            ["off by rounding at most", number(self.residual)],
        ]
        return Summary("Extractor", ["", ""], rows)

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Extractor of width {len(self.matrix)}, norm {self.norm:.4g}>"


def extractor(basis: Float[Array, "m d"] | Given, against: Float[Array, "p d"] | Given = None) -> Extractor:
    """Return the matrix that takes v out of v + w, for v in the span of one basis and w in the span of another.

    Parameters
    ----------
    basis
        ``(m, d)``, vectors in rows; they need not be orthonormal, nor independent.
    against
        ``(p, d)``, the same for the other summand; None stands for everything at right angles to the basis, and gives
        the orthogonal projector (A A^T for orthonormal columns A).

    Raises
    ------
    SubspaceError
        If the two subspaces meet: a vector in both could belong to either summand. The error carries one as ``witness``.

    Examples
    --------
    >>> tool = extractor([[1.0, 0.0, 0.0]], against=[[1.0, 1.0, 0.0]])
    >>> tool.extract([5.0, 2.0, 0.0])                # 3 (1, 0, 0) + 2 (1, 1, 0)
    array([3., 0., 0.])
    >>> round(tool.norm, 4), round(np.degrees(tool.angle))
    (1.4142, 45)
    """
    own = _orthonormal(check_matrix("extractor", "basis", basis, "(m, d)"))
    width = own.shape[1]
    if against is None:
        matrix, angle, other = own.T @ own, np.pi / 2, np.zeros((0, width))
    else:
        given = check_matrix("extractor", "against", against, "(p, d)")
        arrays.check_agree("extractor", "d", {"basis": width, "against": given.shape[1]})
        other = _orthonormal(given)
        matrix, angle = _oblique(own, other)
    norm = float(np.linalg.norm(matrix, 2)) if len(own) else 0.0
    # Two summands of a unit vector may each be as long as the norm; the bases themselves are exact to rounding.
    doubt = float(np.linalg.norm(own @ matrix.T - own) + np.linalg.norm(other @ matrix.T)) + 8 * width * UNIT * norm
    return Extractor(matrix, norm, float(angle), doubt * max(norm, 1.0))


def _oblique(own: Float[np.ndarray, "m d"], other: Float[np.ndarray, "p d"]) -> tuple[Float[np.ndarray, "d d"], float]:
    """Return A (P A)^+ with P the projector away from the other subspace, and the smallest principal angle."""
    apart = own - (own @ other.T) @ other
    apart = apart - (apart @ other.T) @ other
    left, sines, right = np.linalg.svd(apart, full_matrices=False)
    if len(sines) and sines[-1] <= _RANK:
        witness = left[:, -1] @ own
        raise SubspaceError(
            "extractor",
            f"the two subspaces must meet only in zero, but to rounding they share a vector (angle {float(sines[-1]):.1e})",
            "It is the witness of this error.",
            witness=witness / np.abs(witness).max(),
        )
    # own = left diag(1) ..., apart = left diag(sines) right, so A (P A)^+ = own^T left diag(1/sines) right.
    matrix = (own.T @ left) @ (right / sines[:, None])
    return matrix, float(np.arcsin(min(1.0, sines[-1]))) if len(sines) else np.pi / 2


def _orthonormal(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "r d"]:
    """Return an orthonormal basis of the span, in rows; the lengths of the rows do not matter."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1.0)
    _, sizes, turned = np.linalg.svd(rows, full_matrices=False)
    return turned[sizes > _RANK * sizes.max()] if sizes.max() > 0 else turned[:0]
