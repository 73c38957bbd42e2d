"""Simulation: engines, and what a run leaves."""

from fedglb.simulate.lockstep import lockstep
from fedglb.simulate.results import Run
from fedglb.simulate.simulate import ENGINES, simulate

__all__ = ["ENGINES", "Run", "lockstep", "simulate"]
