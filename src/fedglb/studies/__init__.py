"""Studies: sweeps on all cores or a cluster, searches for parameters, reports; all can resume."""

from fedglb.studies.results.card import pareto_front
from fedglb.studies.results.store import SweepResult, load
from fedglb.studies.run.progress import Finished, SweepStatus
from fedglb.studies.run.sweep import SweepFailed, sweep
from fedglb.studies.spec.experiment import Experiment, read_experiment

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
