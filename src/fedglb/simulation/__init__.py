"""Simulation: two engines, and the results of a run."""

from fedglb.simulation.lockstep import lockstep
from fedglb.simulation.results import Run
from fedglb.simulation.simulate import ENGINES, EngineName, simulate

__all__ = ["ENGINES", "EngineName", "Run", "lockstep", "simulate"]
