"""Published experiments again: their numbers and claims, each with a verdict that is computed from rows."""

from .experiments import Experiment, find
from .results import Result, evaluate
from .runs import FULL, QUICK, Effort, execute, planned

__all__ = ["FULL", "QUICK", "Effort", "Experiment", "Result", "evaluate", "execute", "find", "planned"]
