"""How all clients fit one model: the interface of the solvers, and the running solve.

A solver is written as a generator: it yields the point at which it wants the sums over all
clients, is sent those sums, and returns its solution. Nothing of a protocol is in it. What a
running solve has been told is its whole state: told the same again, it stands where it stood.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np

from fedglb.model import SharedModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Query:
    """A request for sums over all clients' samples at θ: always the gradient.

    Parameters
    ----------
    theta
        Where to evaluate, shape (d,).
    hessian, loss
        Whether to send Σ μ′ x xᵀ, and Σ l, too.
    """

    theta: FloatArray
    hessian: bool = False
    loss: bool = False


@dataclass(frozen=True)
class Sums:
    """What all clients together answer: sums without the regulariser, which is the solver's."""

    gradient: FloatArray
    hessian: FloatArray | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Objective:
    """What is to be fitted.

    Parameters
    ----------
    setting
        Problem, N, T, λ, δ.
    samples
        n, the number of samples in the sums.
    covariance
        M = Σ x xᵀ over those samples, shape (d, d).
    matrix
        A (or V), the ellipsoid's matrix after the update, shape (d, d).
    previous
        The last shared model, None before the first.
    moment
        Σ x y, where the family shares it.
    """

    setting: Setting
    samples: int
    covariance: FloatArray
    matrix: FloatArray
    previous: SharedModel | None = None
    moment: FloatArray | None = None

    @property
    def start(self) -> FloatArray:
        """θ_last, zero before the first update."""
        if self.previous is None or self.previous.theta is None:
            return np.zeros(self.setting.problem.dim)
        return self.previous.theta.copy()


@dataclass(frozen=True)
class Solution:
    """What a solver returns.

    Parameters
    ----------
    theta
        The model, shape (d,).
    gradient
        n∇F at `theta`, regulariser included, shape (d,).
    multiplier
        ν of the constraint ‖θ‖ ≤ S, 0 if it is not active.
    gap
        A proven bound on F(θ) − min F (nan where there is none).
    projected
        Whether the constraint was active.
    b, gradient_matrix, extras
        What the family's shared model needs beyond θ and A.
    """

    theta: FloatArray
    gradient: FloatArray
    multiplier: float = 0.0
    gap: float = float("nan")
    projected: bool = False
    b: FloatArray | None = None
    gradient_matrix: FloatArray | None = None
    extras: tuple[float, ...] = ()


Steps: TypeAlias = Generator[Query, Sums, Solution]


class GlobalUpdate(ABC):
    """A way for all clients to fit one model; subclasses are frozen dataclasses."""

    #: Whether each update fits all samples anew (True), or only those since the last (False).
    refits: ClassVar[bool] = True
    #: What its shared model holds beside A.
    model_fields: ClassVar[frozenset[str]] = frozenset({"theta"})

    @abstractmethod
    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""


@dataclass
class Solve:
    """A running solve: ask `query`, `tell` the sums, until `solution` is there."""

    solver: GlobalUpdate
    objective: Objective
    transcript: list[Sums] = field(default_factory=list)
    query: Query | None = field(init=False, default=None)
    solution: Solution | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._steps = self.solver.solve(self.objective)
        told, self.transcript = self.transcript, []
        try:
            self.query = next(self._steps)
        except StopIteration as done:
            self.solution = done.value
        for sums in told:
            self.tell(sums)

    def tell(self, sums: Sums) -> None:
        """Answer the current query."""
        self.transcript.append(sums)
        try:
            self.query = self._steps.send(sums)
        except StopIteration as done:
            self.query, self.solution = None, done.value
