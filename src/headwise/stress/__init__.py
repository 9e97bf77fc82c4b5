"""Will it hold? The law of the output when keys are random, and what would help."""

from headwise.stress.curve import Best, Curve, Series, curve
from headwise.stress.estimate import Estimate
from headwise.stress.law import Law, law
from headwise.stress.remedies import Remedies, Remedy, remedies

__all__ = ["Best", "Curve", "Estimate", "Law", "Remedies", "Remedy", "Series", "curve", "law", "remedies"]
