"""Simulation: engines that run an algorithm on an environment, and what they return."""

from fedglb.simulate.results import Run
from fedglb.simulate.simulate import ENGINES, simulate

__all__ = ["ENGINES", "Run", "simulate"]
