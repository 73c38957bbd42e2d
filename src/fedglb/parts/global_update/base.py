"""How all clients fit one model: the interface of the solvers, and the running solve.

A solver is a generator: it yields the point at which it needs the sums over all clients, is sent
those sums, and returns its solution. It knows nothing of messages. The sums that a running solve
got are its whole state: a new solve that gets the same sums yields the same next query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias, TypeVar

from fedglb.kernels.linalg import log_det
from fedglb.model import SharedModel
from fedglb.parts.effects import ArmSums
from fedglb.parts.local_update import LocalState, LocalUpdate
from fedglb.setting import Setting
from fedglb.typing import FloatArray

Id = TypeVar("Id", bound=int | str)


@dataclass(frozen=True)
class Query:
    """A request for sums over all clients' samples at θ: the gradient, and more if asked."""

    theta: FloatArray  # where to evaluate, shape (d,)
    hessian: bool = False  # whether clients send Σ μ′ x xᵀ too
    loss: bool = False  # and Σ l


@dataclass(frozen=True)
class Sums:
    """The answers of all clients to a query, summed; the solver adds the regulariser itself."""

    gradient: FloatArray  # Σ x(μ(xᵀθ) − y), shape (d,)
    #: Σ μ′(xᵀθ) x xᵀ, shape (d, d), or None if not in the query
    hessian: FloatArray | None = None
    loss: float | None = None  # Σ l(xᵀθ, y), or None if not in the query
    arms: ArmSums | None = None  # of arms with effects, in the first sums; None: they have none


@dataclass(frozen=True)
class Passed:
    """What a one-pass fit knows after one of its updates."""

    number: int  # the update's number
    clients: int  # number of participants, which added noise if there is privacy
    #: the model in force before it, at which the samples of its batch were linearised
    theta: FloatArray
    #: Σ v and Σ μ′ x xᵀ over all samples up to this update, shapes (d,) and (d, d), with noise
    v: FloatArray
    H: FloatArray


@dataclass(frozen=True)
class OnePassSums:
    """What clients have sent in all one-pass updates so far, summed."""

    #: Σ v and Σ μ′ x xᵀ, each sample at the model of its update, shapes (d,) and (d, d)
    v: FloatArray
    H: FloatArray
    #: σ_v and σ_H: the standard deviations of the noise of privacy in v and in H
    noise: tuple[float, float] = (0.0, 0.0)
    #: all updates up to this one, in order, where the radius needs them
    path: tuple[Passed, ...] = ()


@dataclass(frozen=True)
class Objective:
    """What a solver is to fit: F(θ) = (1/n)[Σ l(xᵀθ, y) + (λ/2)‖θ‖²], the paper's Eq. (2)."""

    setting: Setting  # the problem, N, T, λ and δ
    samples: int  # n, the number of samples in the sums
    #: M = Σ x xᵀ over those samples, shape (d, d); None where clients send `at_model` or `one_pass`
    #: instead
    covariance: FloatArray | None
    #: A (or V), the ellipsoid's matrix after the update, shape (d, d): what A starts from, and the
    #: covariance or, where clients send none, the Hessian that they send
    matrix: FloatArray
    start: FloatArray  # where a solve begins, shape (d,): at θ_last, zero before the first update
    previous: SharedModel | None = None  # the last shared model, None before the first
    #: Σ x y, shape (d,), where the local update shares it; else None
    moment: FloatArray | None = None
    #: gradient and Hessian at `start`, where clients answer the request for an update with them
    at_model: Sums | None = None
    one_pass: OnePassSums | None = None  # the sums of one-pass updates
    left_out: int = 0  # number of clients ever asked for sums that do not take part in this update


@dataclass(frozen=True)
class Solution:
    """What a solver returns."""

    theta: FloatArray  # the model, shape (d,)
    gradient: FloatArray  # n∇F at `theta`, regulariser included, shape (d,)
    multiplier: float = 0.0  # ν of the constraint ‖θ‖ ≤ S, 0 if it is not active
    gap: float = float("nan")  # a proven bound on F(θ) − min F (or nan)
    projected: bool = False  # whether the constraint was active
    b: FloatArray | None = None  # further contents of this solver's shared model
    gradient_matrix: FloatArray | None = None
    extras: tuple[float, ...] = ()
    #: Σ μ′ x xᵀ, shape (d, d), at `theta`, or where the last sums were taken; None: not known
    hessian: FloatArray | None = None
    #: if `theta` was not evaluated: a bound on ‖n∇F + νθ‖ in the norm of `hessian`⁻¹; `gradient` is
    #: then not a number
    residual_bound: float = 0.0
    drift: float = 0.0  # q: the Hessian at `theta` lies between e^{∓q} times `hessian`
    effects: FloatArray | None = None  # u of the arms in the sums, where arms have effects
    #: what was fitted, where a rule chose λ: the objective with this λ; None: the one given
    fitted: Objective | None = None

    @property
    def ridge(self) -> float | None:
        """λ of this fit, where a rule chose it; None: the setting's."""
        return None if self.fitted is None else self.fitted.setting.ridge


@dataclass(frozen=True)
class Holding:
    """What a client has of A, λI + Σ x xᵀ over all that it uploaded or was sent; its log det."""

    matrix: FloatArray
    log_det: float

    @classmethod
    def of(cls, matrix: FloatArray) -> Holding:
        """Return the holding with this matrix."""
        return cls(matrix, log_det(matrix))


class Course:
    """Which clients take part in a global update, and which get its model: here, all of them."""

    def check(self, trigger: Any, confidence: Any) -> None:
        """Raise `InvalidInput` if these parts of an algorithm do not fit the course."""

    def begins(self, held: int, newest: int) -> bool:
        """Return whether a request begins an update; `held` is its client's model.

        By default not where a newer model is on its way, which covers the client's samples.
        """
        return held >= newest

    def participants(self, clients: Iterable[Id], asked_by: Id | None) -> list[Id]:
        """Return the participants; `asked_by` is None on a schedule."""
        return list(clients)

    def uploaded(self, local: LocalUpdate[Any], states: Iterable[LocalState]) -> None:
        """Note that participants have sent their samples; by default a model follows."""

    def recipients(
        self,
        clients: Iterable[Id],
        participants: Iterable[Id],
        objective: Objective,
        prior: float,
        held: dict[Id, Holding],
    ) -> list[Id]:
        """Return the recipients, and update `held`; a client begins at prior·I."""
        return list(clients)


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
    #: Contents of its shared model besides A.
    model_fields: ClassVar[frozenset[str]] = frozenset({"theta"})
    #: Whether its models lie in the ball ‖θ‖ ≤ S.
    in_ball: bool = True
    #: Whether clients answer the request for an update with their sums at the last model, and not
    #: with a covariance.
    starts_at_model: ClassVar[bool] = False
    #: Whether clients send each sample's part once, in whole numbers (`protocol.one_pass`): sums
    #: over all clients are all that is ever needed.
    one_pass: ClassVar[bool] = False

    @property
    def course(self) -> Course:
        """Which clients take part in an update, and which get its model: all, by default."""
        return Course()

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
    """A running solve: answer `query` by `tell`, until `solution` is there."""

    solver: GlobalUpdate  # how to solve
    objective: Objective  # what to solve
    #: the sums so far; pass those of an interrupted solve to resume it
    transcript: list[Sums] = field(default_factory=list)
    #: the current query; None when the solve has ended
    query: Query | None = field(init=False, default=None)
    #: the result; None until the solve has ended
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
