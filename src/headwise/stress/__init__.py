"""Will it hold? The law of the output when keys are random."""

from headwise.stress.estimate import Estimate
from headwise.stress.law import Law, law

__all__ = ["Estimate", "Law", "law"]
