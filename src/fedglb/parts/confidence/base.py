"""The radius of a client's confidence ellipsoid: the interface."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.kernels.decide import ellipsoid_bounds
from fedglb.kernels.pointers import BOUNDS, address_of
from fedglb.model import SharedModel
from fedglb.parts.global_update import Objective, Solution
from fedglb.parts.local_update import LocalState
from fedglb.parts.own import Code
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

State = TypeVar("State", bound=LocalState, contravariant=True)

#: Limits of proofs in a federation (docs/theory.md, sections 7.3 and 2.7). In simulations the first
#: holds by construction: each interaction has its own draw, and updates take no time. The second is
#: for sets whose proof has a single event for all updates, and needs independence nowhere else.
INDEPENDENT = (
    "the proof needs clients' noise to be independent while they exchange no messages (one event "
    "that moves the rewards of several clients breaks this)"
)
ONE_ORDER = (
    f"{INDEPENDENT}; to do without, the radius would need 2 log(p(p+1)) more beside its 2 log(1/δ) "
    "at update p, 18.4 at p = 100, which is not built"
)
ALL_CLIENTS = "nothing is proven after an update that leaves a client out, until one has all again"


class Confidence(ABC, Generic[State]):
    """A radius α with ‖centre − θ*‖_A ≤ α. Subclasses are frozen dataclasses.

    The inequality fails with probability at most δ for all clients and steps together, where the
    subclass does not say otherwise (`caveats`). The formula is a kernel, so that both engines
    round alike; docs/own_parts.md shows how to write one. Where a radius is expected, a plain
    function is one, e.g. ``lambda samples: 0.5 / (1 + samples)``.

    Examples
    --------
    Half of a constant radius, by the formula of another radius:

    >>> from dataclasses import dataclass
    >>> import fedglb as fg
    >>> from fedglb.setting import Setting
    >>> @dataclass(frozen=True)
    ... class Half(fg.Fixed):
    ...     def constants(self, setting: Setting) -> tuple[float, ...]:
    ...         return (0.5 * self.alpha,)
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> fg.simulate(fg.fedglb_ucb(1.0, confidence=Half(0.3)), env, horizon=5).choices.shape
    (5, 2)
    """

    #: The states of the lemma: this class and its subclasses.
    state_type: ClassVar[type[LocalState]]
    #: The kernel that computes the radius, with the signature `kernels.pointers.RADIUS`.
    formula: ClassVar[Callable[..., float]]
    #: The kernel that computes the bounds of arms, with the signature `kernels.pointers.BOUNDS`.
    bounds: ClassVar[Callable[..., int]] = staticmethod(ellipsoid_bounds)
    #: Whether `exploration` multiplies the radius.
    scalable: ClassVar[bool] = True
    #: Whether it holds only around models in the ball ‖θ‖ ≤ S.
    needs_ball: ClassVar[bool] = False
    #: Whether it is for the one-pass update, and needs all of its updates (`OnePassSums.path`).
    needs_path: ClassVar[bool] = False
    #: Whether the radius rests on R and c_μ: then it shares the caveats of the problem.
    sub_gaussian: ClassVar[bool] = True
    #: What limits the proof in a federation, beside `caveats`, one sentence each.
    federation_caveats: ClassVar[tuple[str, ...]] = ()

    @property
    def by_formula(self) -> bool:
        """Whether `formula` has the radius, and not a `radius` that a subclass overrides."""
        return type(self).radius is Confidence.radius

    @property
    def why_plain(self) -> str | None:
        """Why only the reference engine plays by it; None: its `formula` is a kernel."""
        if self.by_formula:
            return None
        return "it overrides `radius` instead of defining a kernel `formula`"

    def rehearsal(self, setting: Setting, state: State) -> tuple[Code, tuple[Any, ...]] | None:
        """Return a user's function and what it is first called with; None: there is none.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            A client's state before any sample.

        Returns
        -------
        tuple or None
            The function's code, and the arguments of the kernel around it.
        """
        return None

    @property
    def bounds_address(self) -> int:
        """The address of `bounds`."""
        return address_of(type(self).bounds, BOUNDS)

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if this radius does not exist for this problem.

        Parameters
        ----------
        problem
            What is known of the rewards.
        """

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
        """Return the limits of this radius's proof for a problem, one sentence each.

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

    def terms(self, setting: Setting, model: SharedModel | None) -> FloatArray:
        """Return a client's terms from a model, for its sets until the next one.

        Parameters
        ----------
        setting
            The setting of the run, with the λ in force.
        model
            The last shared model; None before the first.

        Returns
        -------
        array
            What `formula` gets as `radius_terms`: by default what the model has under this name,
            and no numbers before the first.
        """
        return np.empty(0) if model is None else model.radius_terms

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
        terms = self.terms(setting, state.base)
        return self.formula(state.vectors, state.counters, terms, constants)

    def centre(self, state: State) -> FloatArray:
        """Return where the ellipsoid of a client in this state is centred.

        Parameters
        ----------
        state
            The client's state.

        Returns
        -------
        array
            Shape (d,); the state's `centre` by default.
        """
        return state.centre

    def contains(self, setting: Setting, state: State, alpha: float, parameter: FloatArray) -> bool:
        """Return whether the set of radius α contains a parameter.

        Before any data, a θ* of norm S lies exactly on its boundary, hence the slack for rounding.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            The client's state.
        alpha
            The radius.
        parameter
            θ, shape (d,).

        Returns
        -------
        bool
            Whether ‖centre − θ‖_A ≤ α.
        """
        error = self.centre(state) - parameter
        return bool(np.sqrt(error @ state.matrix @ error) <= alpha * (1.0 + 1e-9))


def check_noise(problem: Problem, *numbers: float) -> None:
    """Raise if R is unknown and so is a number that follows from it."""
    if math.isnan(problem.R) and any(map(math.isnan, numbers)):
        allowed = (
            f"a finite number > 0: the radius needs one, and {problem.link.name} rewards have no "
            "sub-Gaussian parameter, so set one, e.g. noise=1.0"
        )
        raise InvalidInput("noise", None, allowed)


def check_likelihood(problem: Problem, otherwise: str) -> None:
    """Raise unless likelihood ratios can make a set; `otherwise` is what to use instead."""
    link = problem.link
    if not link.likelihood or link.self_concordance(problem.S) is None:
        allowed = f"a link whose loss is a likelihood (logistic, Poisson, identity){otherwise}"
        raise InvalidInput("link", link, allowed)
