"""What a design says: a verdict, the queries, and the evidence."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from headwise.design.certificates import Certificate
from headwise.design.separate import length
from headwise.shown import Shown, Summary, number


@dataclass(frozen=True, repr=False)
class Design(Shown):
    """The answer to "can a head do this?".

    Attributes
    ----------
    verdict
        "possible", "impossible" or "undecided".
    queries
        ``(h, d)``, one query per head; None if there is none to give. ``query`` is the only one of a single head.
    margin
        Proved lower bound on the margin per unit of query length (for several heads the smallest).
    best_margin
        Upper bound: no query does better than this per unit of length.
    leak
        The weight that ``attend`` puts elsewhere with these queries (for several heads the largest).
    error_bound
        Bound on the distance of the context from what was asked for; None without values.
    certificate
        The proof; ``verify()`` checks it in exact arithmetic, independent of the solver.
    reason
        One sentence on why.
    """

    task: str
    verdict: str
    reason: str
    queries: Float[np.ndarray, "h d"] | None = None
    margin: float | None = None
    best_margin: float | None = None
    leak: float | None = None
    error_bound: float | None = None
    certificate: Certificate | None = None
    rounding_only: bool = False
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def query(self) -> Float[np.ndarray, " d"] | None:
        """The query of a single head; None if there is none, or more than one head."""
        return None if self.queries is None or len(self.queries) != 1 else self.queries[0]

    def verify(self) -> bool:
        """Check the certificate in exact arithmetic; False if there is none."""
        return self.certificate is not None and self.certificate.check()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "kind": "design",
            "task": self.task,
            "verdict": self.verdict,
            "reason": self.reason,
            "queries": None if self.queries is None else self.queries.tolist(),
            "margin": self.margin,
            "best_margin": self.best_margin,
            "leak": self.leak,
            "error_bound": self.error_bound,
            "rounding_only": self.rounding_only,
            **self.numbers,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }

    def summary(self) -> Summary:
        """Describe the verdict and the numbers that go with it."""
        rows = [
            ["margin per unit length", f"{number(self.margin)} to {number(self.best_margin)}"]
            if self.margin is not None and self.best_margin is not None
            else None,
            ["query length", " ".join(number(length(query)) for query in self.queries[:8])]
            if self.queries is not None
            else None,
            ["leak", number(self.leak)] if self.leak is not None else None,
            ["error at most", number(self.error_bound)] if self.error_bound is not None else None,
            *([name.replace("_", " "), number(value)] for name, value in self.numbers.items()),
            ["proof", self.certificate.describe()]
            if self.certificate is not None and self.certificate.describe() != self.reason
            else None,
        ]
        return Summary(f"{self.task}: {self.verdict}", ["", ""], [row for row in rows if row], [self.reason])

    def __repr__(self) -> str:
        """Return one line; `print` shows the table."""
        return f"<Design: {self.task} is {self.verdict}>"


def finite(value: float) -> float | None:
    """Return a number, or None for infinity."""
    return value if math.isfinite(value) else None
