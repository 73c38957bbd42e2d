"""Simulation: two engines, and the results of a run."""

from fedglb.simulation.results import Run
from fedglb.simulation.run_file import load_run
from fedglb.simulation.simulate import ENGINES, EngineName, compare, simulate
from fedglb.simulation.to_gymnasium import to_gymnasium

__all__ = ["ENGINES", "EngineName", "Run", "compare", "load_run", "simulate", "to_gymnasium"]
