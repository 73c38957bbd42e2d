"""Sweeps: algorithms × parameter grids × seeds, on all cores or a cluster; they can resume."""

from fedglb.sweeps.execution.progress import Finished, SweepStatus
from fedglb.sweeps.results.pareto import pareto_front
from fedglb.sweeps.results.store import SweepResult, load
from fedglb.sweeps.spec.experiment import Experiment, read_experiment
from fedglb.sweeps.sweep import SweepFailed, sweep

__all__ = [
    "Experiment",
    "Finished",
    "SweepFailed",
    "SweepResult",
    "SweepStatus",
    "load",
    "pareto_front",
    "read_experiment",
    "sweep",
]  # fmt: skip
