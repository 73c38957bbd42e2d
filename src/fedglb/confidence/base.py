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
    """A radius α with ‖centre − θ*‖_A ≤ α. Subclasses are frozen dataclasses.

    The inequality fails with probability at most δ for all clients and steps together, where the
    subclass does not say otherwise (`caveats`). The formula is a kernel, so that both engines
    round alike; CONTRIBUTING.md says how to add one.
    """

    #: The states that the lemma is about: those of this class and of its subclasses.
    state_type: ClassVar[type[LocalState]]
    #: The kernel that computes the radius, with the signature `kernels.pointers.RADIUS`.
    formula: ClassVar[Callable[..., float]]
    #: Whether `exploration` multiplies the radius.
    scalable: ClassVar[bool] = True

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return the numbers that the coordinator sends with a model, for the clients' radii.

        Parameters
        ----------
        setting
            The setting of the run.
        objective
            What was fitted.
        solution
            The fit.

        Returns
        -------
        tuple of float
            `formula` gets them as `radius_terms`; empty before the first model. None by default.
        """
        return ()

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not proven of this radius for a problem, one sentence each.

        Parameters
        ----------
        problem
            What is known of the rewards.

        Returns
        -------
        tuple of str
            None by default: all is proven.
        """
        return ()

    @abstractmethod
    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that `formula` needs and that no sample changes.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        tuple of float
            In the order in which `formula` reads them.
        """

    def radius(self, setting: Setting, state: State) -> float:
        """Return α for a client in this state.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            The client's state.

        Returns
        -------
        float
            α, before `exploration` multiplies it.
        """
        constants = np.array(self.constants(setting), dtype=float)
        return self.formula(state.vectors, state.counters, state.radius_terms, constants)
