"""The guided exploration of the attention exercise."""

from headwise.study.parts import Part
from headwise.study.run import Study, run

__all__ = ["Part", "Study", "run"]
