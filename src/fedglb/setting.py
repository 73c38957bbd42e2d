"""What all sides of one federation agree on, beyond the problem."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.problem import Problem


@dataclass(frozen=True)
class Setting:
    """The numbers of a run that every part may use.

    Parameters
    ----------
    problem
        The problem.
    clients
        N in δ/N: how many clients there are (at most) over the life of the federation.
    horizon
        T, the number of steps, or None where it is not known in advance.
    ridge
        λ.
    delta
        δ, the probability with which some confidence set may fail.
    """

    problem: Problem
    clients: int
    horizon: int | None
    ridge: float
    delta: float

    @property
    def prior_width(self) -> float:
        """√(λ/c)·S, the radius before any data."""
        return math.sqrt(self.ridge / self.problem.c_mu) * self.problem.S
