"""Simulation: engines, and what a run leaves."""

from fedglb.simulation.lockstep import lockstep
from fedglb.simulation.results import Run
from fedglb.simulation.simulate import ENGINES, simulate

__all__ = ["ENGINES", "Run", "lockstep", "simulate"]
