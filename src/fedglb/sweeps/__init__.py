"""Sweeps: algorithms × parameter grids × seeds, on all cores or a cluster, kept as they finish."""

from fedglb.sweeps.experiment import Experiment, read_experiment
from fedglb.sweeps.pareto import pareto_front
from fedglb.sweeps.progress import Finished, Status
from fedglb.sweeps.store import SweepResult, load
from fedglb.sweeps.sweep import SweepFailed, sweep

__all__ = [
    "Experiment", "Finished", "Status", "SweepFailed", "SweepResult", "load", "pareto_front",
    "read_experiment", "sweep",
]  # fmt: skip
