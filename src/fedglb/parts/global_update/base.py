"""How all clients fit one model: the interface of the solvers, and the running solve.

A solver is a generator: it yields the point at which it needs the sums over all clients, is sent
those sums, and returns its solution. It knows nothing of messages. The sums that a running solve
got are its whole state: a new solve that gets the same sums yields the same next query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from fedglb.model import SharedModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Query:
    """A request for sums over all clients' samples at θ: the gradient, and more if asked.

    Parameters
    ----------
    theta
        Where to evaluate, shape (d,).
    hessian, loss
        Whether clients send Σ μ′ x xᵀ, and Σ l, too.
    """

    theta: FloatArray
    hessian: bool = False
    loss: bool = False


@dataclass(frozen=True)
class Sums:
    """The answers of all clients to a query, summed; the solver adds the regulariser itself.

    Parameters
    ----------
    gradient
        Σ x(μ(xᵀθ) − y), shape (d,).
    hessian
        Σ μ′(xᵀθ) x xᵀ, shape (d, d), or None if the query has not asked for it.
    loss
        Σ l(xᵀθ, y), or None if the query has not asked for it.
    """

    gradient: FloatArray
    hessian: FloatArray | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Passed:
    """What a one-pass fit knows after one of its updates.

    Parameters
    ----------
    number
        The update's number.
    clients
        How many clients took part, and added noise where there is privacy.
    theta
        The model in force before it, at which the samples of its batch were linearised.
    v, H
        Σ v and Σ μ′ x xᵀ over all samples up to this update, shapes (d,) and (d, d), with noise.
    """

    number: int
    clients: int
    theta: FloatArray
    v: FloatArray
    H: FloatArray


@dataclass(frozen=True)
class OnePassSums:
    """What clients have sent in all one-pass updates so far, summed.

    Parameters
    ----------
    v, H
        Σ v and Σ μ′ x xᵀ, each sample at the model of its update, shapes (d,) and (d, d).
    noise
        σ_v and σ_H: the standard deviations of the noise of privacy in v and in H.
    path
        All updates up to this one, in order, where the radius needs them.
    """

    v: FloatArray
    H: FloatArray
    noise: tuple[float, float] = (0.0, 0.0)
    path: tuple[Passed, ...] = ()


@dataclass(frozen=True)
class Objective:
    """What a solver is to fit: F(θ) = (1/n)[Σ l(xᵀθ, y) + (λ/2)‖θ‖²], the paper's Eq. (2).

    Parameters
    ----------
    setting
        The problem, N, T, λ and δ.
    samples
        n, the number of samples in the sums.
    covariance
        M = Σ x xᵀ over those samples, shape (d, d); None where clients send `at_model` or
        `one_pass` instead.
    matrix
        A (or V), the ellipsoid's matrix after the update, shape (d, d): what A starts from, and
        the covariance or, where clients send none, the Hessian that they send.
    previous
        The last shared model, None before the first.
    moment
        Σ x y, shape (d,), where the local update shares it; else None.
    at_model
        Gradient and Hessian at `start`, where clients answer the request for an update with them.
    one_pass
        The sums of one-pass updates.
    begin
        Where to begin; None: at the last model.
    """

    setting: Setting
    samples: int
    covariance: FloatArray | None
    matrix: FloatArray
    previous: SharedModel | None = None
    moment: FloatArray | None = None
    at_model: Sums | None = None
    one_pass: OnePassSums | None = None
    begin: FloatArray | None = None

    @property
    def start(self) -> FloatArray:
        """Where a solve begins: at θ_last, zero before the first update."""
        if self.begin is not None:
            return self.begin.copy()
        if self.previous is None or self.previous.theta is None:
            return np.zeros(self.setting.problem.dim)
        return self.previous.theta.copy()

    def with_ridge(self, ridge: float, prior: Callable[[Setting], float]) -> Objective:
        """Return the objective with another λ; `prior` is what A starts from."""
        setting = replace(self.setting, ridge=ridge)
        change = prior(setting) - prior(self.setting)
        matrix = self.matrix + change * np.eye(self.matrix.shape[0])
        return replace(self, setting=setting, matrix=matrix)


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
        What the shared model of this solver holds beyond θ and A.
    hessian
        Σ μ′ x xᵀ, shape (d, d), at `theta`, or where the last sums were taken; None: not known.
    residual_bound
        If `theta` was not evaluated: a bound on ‖n∇F + νθ‖ in the norm of `hessian`⁻¹;
        `gradient` is then not a number.
    drift
        q: the Hessian at `theta` lies between e^{∓q} times `hessian`.
    ridge
        λ of this fit, where a rule chose it; None: the setting's.
    """

    theta: FloatArray
    gradient: FloatArray
    multiplier: float = 0.0
    gap: float = float("nan")
    projected: bool = False
    b: FloatArray | None = None
    gradient_matrix: FloatArray | None = None
    extras: tuple[float, ...] = ()
    hessian: FloatArray | None = None
    residual_bound: float = 0.0
    drift: float = 0.0
    ridge: float | None = None


Steps: TypeAlias = Generator[Query, Sums, Solution]


class GlobalUpdate(ABC):
    """A solver: a way for all clients to fit one model. Subclasses are frozen dataclasses.

    An algorithm has one as its `solver`. Your own solver implements `solve`.

    Examples
    --------
    Ten steps of gradient descent from the last model:

    >>> from dataclasses import dataclass
    >>> import fedglb as fg
    >>> from fedglb.parts.global_update.base import Objective, Query, Solution, Steps
    >>> @dataclass(frozen=True)
    ... class Descent(fg.GlobalUpdate):
    ...     def solve(self, objective: Objective) -> Steps:
    ...         theta, ridge = objective.start, objective.setting.ridge
    ...         for _ in range(10):
    ...             sums = yield Query(theta)
    ...             gradient = sums.gradient + ridge * theta
    ...             theta = theta - gradient / (objective.samples + ridge)
    ...         sums = yield Query(theta)
    ...         return Solution(theta, sums.gradient + ridge * theta)
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> run = fg.simulate(fg.fedglb_ucb(0.1, solver=Descent()), env, horizon=20, seed=1)
    >>> run.rounds == 11 * run.syncs > 0
    True
    """

    #: Whether each update fits all samples again (True), or only those since the last (False).
    refits: ClassVar[bool] = True
    #: What its shared model holds beside A.
    model_fields: ClassVar[frozenset[str]] = frozenset({"theta"})
    #: Whether its models lie in the ball ‖θ‖ ≤ S.
    in_ball: bool = True
    #: Whether clients answer the request for an update with their sums at the last model, and not
    #: with a covariance.
    starts_at_model: ClassVar[bool] = False
    #: Whether only the client that asked takes part. It alone gets the model, unless
    #: `download_level` says otherwise; the other clients keep their models.
    alone: ClassVar[bool] = False
    #: Whether clients send each sample's part once, in whole numbers (`protocol.one_pass`): sums
    #: over all clients are all that is ever needed.
    one_pass: ClassVar[bool] = False

    @property
    def download_level(self) -> float | None:
        """Where updates are `alone`: the log-det gap from which on a client gets the model.

        The gap of client j is log(det A / det A_j), with A_j the sums that it uploaded or was
        sent. None (default): only the client that asked gets the model.
        """
        return None

    @abstractmethod
    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution.

        Parameters
        ----------
        objective
            What is to be fitted.

        Returns
        -------
        Steps
            A generator: it yields a `Query`, is sent the `Sums` over all clients, and so on, and
            returns a `Solution`.
        """


@dataclass
class Solve:
    """A running solve: answer `query` by `tell`, until `solution` is there.

    Parameters
    ----------
    solver
        How to solve.
    objective
        What to solve.
    transcript
        The sums so far; pass those of an interrupted solve to resume it.

    Attributes
    ----------
    query
        What is asked now; None when the solve has ended.
    solution
        The result; None until the solve has ended.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> problem = fg.Problem(dim=1, link=fg.Identity())
    >>> setting = fg.fedglb_ucb(threshold=1.0).setting(problem, clients=1, horizon=None)
    >>> objective = Objective(setting, samples=1, covariance=np.eye(1), matrix=2.0 * np.eye(1))
    >>> solve = Solve(fg.Newton(tolerance=1e-12), objective)
    >>> while solve.query is not None:  # one sample, x = 1 and y = 1
    ...     solve.tell(Sums(gradient=solve.query.theta - 1.0, hessian=np.eye(1)))
    >>> solve.solution.theta
    array([0.5])
    """

    solver: GlobalUpdate
    objective: Objective
    transcript: list[Sums] = field(default_factory=list)
    query: Query | None = field(init=False, default=None)
    solution: Solution | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._steps = self.solver.solve(self.objective)
        earlier, self.transcript = self.transcript, []
        try:
            self.query = next(self._steps)
        except StopIteration as done:
            self.solution = done.value
        for sums in earlier:
            self.tell(sums)

    def tell(self, sums: Sums) -> None:
        """Answer the current query by the sums over all clients."""
        self.transcript.append(sums)
        try:
            self.query = self._steps.send(sums)
        except StopIteration as done:
            self.query, self.solution = None, done.value
