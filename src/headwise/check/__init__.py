"""Marks written answers by what they do, and shows a counterexample."""

from headwise.check.answers import answer, answers
from headwise.check.folder import Gradebook, folder
from headwise.check.marks import Marks
from headwise.check.sheet import Problem, Sheet, load
from headwise.check.verdict import Counterexample, Verdict

__all__ = ["Counterexample", "Gradebook", "Marks", "Problem", "Sheet", "Verdict", "answer", "answers", "folder", "load"]
