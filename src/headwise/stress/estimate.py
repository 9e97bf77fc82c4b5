"""A number with its error."""

import math
from dataclasses import dataclass
from typing import Any

from headwise.shown import Shown, Summary, at_most, number

_DIGITS = 10


@dataclass(frozen=True)
class Estimate(Shown):
    """A number and the error that it is within, in 95 of 100 cases where it was sampled and always where it was not.

    `log` is the natural logarithm where the number is a probability, which may be too small for a float.

    >>> print(Estimate(0.25, 2.0**-10), "|", Estimate(0.99999914, 1e-13), "|", Estimate(1 / 3, 1e-16))
    0.25 ± 0.00098 | 0.99999914 ± 1.1e-13 | 0.3333333333 ± 3.4e-11
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
        if not (self.error > 0 and math.isfinite(self.error)):
            return f"{number(self.value)} ± {number(self.error)}"
        # As many digits as the error leaves, ten at most; what they leave out is added to it.
        digits = min(max(math.ceil(math.log10(max(abs(self.value), self.error)) - math.log10(self.error)) + 2, 2), _DIGITS)
        shown = number(self.value, digits)
        return f"{shown} ± {at_most(self.error + abs(float(shown) - self.value), 2)}"

    def summary(self) -> Summary:
        """Describe it in one line."""
        return Summary(str(self), [], [])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"value": self.value, "error": self.error} | ({} if self.log is None else {"log": self.log})
