"""The radius of a client's confidence ellipsoid: the interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

import numpy as np

from fedglb.global_update import Objective, Solution
from fedglb.local_update import LocalState
from fedglb.problem import Problem
from fedglb.setting import Setting

State = TypeVar("State", bound=LocalState, contravariant=True)


class Confidence(ABC, Generic[State]):
    """A radius α such that ‖centre − θ*‖_A ≤ α; subclasses are frozen dataclasses.

    One lemma a file. The total failure probability over all clients and steps is the
    setting's δ. Formulas are compiled functions, so that every engine rounds alike.
    """

    #: The family of states that the lemma speaks of.
    state_type: ClassVar[type[LocalState]]
    #: The kernel that computes the radius, with the signature `kernels.pointers.RADIUS`.
    formula: ClassVar[Callable[..., float]]
    #: Whether `exploration` multiplies the radius.
    scalable: ClassVar[bool] = True

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return the numbers that the coordinator sends with a model, for the clients' radii."""
        return ()

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not proven of this radius for a problem."""
        return ()

    @abstractmethod
    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that `formula` needs."""

    def radius(self, setting: Setting, state: State) -> float:
        """Return α for a client in this state."""
        constants = np.array(self.constants(setting), dtype=float)
        return self.formula(state.vectors, state.counters, state.radius_terms, constants)
