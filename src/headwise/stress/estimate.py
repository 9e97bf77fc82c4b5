"""A number with its error."""

import math
from dataclasses import dataclass
from typing import Any

from headwise.shown import Shown, Summary, number


@dataclass(frozen=True)
class Estimate(Shown):
    """A number and the error that it is within, in 95 of 100 cases where it was sampled and always where it was not.

    `log` is the natural logarithm where the number is a probability, which may be too small for a float.

    >>> print(Estimate(0.25, 0.001))
    0.25 ± 0.001
    """

    value: float
    error: float
    log: float | None = None

    def __float__(self) -> float:
        """Return the number alone."""
        return self.value

    def __str__(self) -> str:
        """Return number and error."""
        if self.log is not None and self.value == 0 and math.isfinite(self.log):
            return f"exp({number(self.log)})"
        return f"{number(self.value)} ± {number(self.error)}"

    def summary(self) -> Summary:
        """Describe it in one line."""
        return Summary(str(self), [], [])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"value": self.value, "error": self.error} | ({} if self.log is None else {"log": self.log})
