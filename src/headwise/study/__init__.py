"""The guided exploration of the attention exercise."""

from headwise.study.part import Finding, Part, Proof
from headwise.study.run import Study, run

__all__ = ["Finding", "Part", "Proof", "Study", "run"]
