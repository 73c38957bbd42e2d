"""From a file to a report: choose parameters, run the sweep, measure fixed models, write it."""

from fedglb.studies.reproduce.estimate import Estimate, estimate
from fedglb.studies.reproduce.plan import EXPERIMENTS, Plan, find, read_plan
from fedglb.studies.reproduce.reproduce import Stage, reproduce
from fedglb.studies.reproduce.study import load_study

__all__ = [
    "EXPERIMENTS", "Estimate", "Plan", "Stage", "estimate", "find", "load_study", "read_plan",
    "reproduce",
]  # fmt: skip
