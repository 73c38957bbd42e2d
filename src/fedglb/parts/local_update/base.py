"""What a client does with its own sample: the interface, and the state that all choices share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, EPOCH, INVERSE, LOG_GAIN, MATRIX, THETA, UPDATES
from fedglb.kernels.linalg import invert, matvec
from fedglb.kernels.pointers import STEP, address_of, call_step
from fedglb.model import SharedModel
from fedglb.parts.own import Code
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


@kernel
def replay_samples(
    step: int,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    first: int,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Learn from the rows of X and y from `first` on, one by one, by the kernel at address `step`.

    Returns 0, or the number n of the sample (counted from 1) whose step failed.
    """
    for n in range(first, X.shape[0]):
        if call_step(
            step, vectors, matrices, counters, X[: n + 1], y[: n + 1], functions, constants
        ):
            return n + 1
    return 0


# Attributes of a state that stand for places in its arrays: kernels see the arrays only.


@dataclass(frozen=True)
class Vector:
    """A row of `vectors`, shape (d,); `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> FloatArray:
        return cast("FloatArray", self if state is None else state.vectors[self.place])

    def __set__(self, state: Any, value: FloatArray) -> None:
        state.vectors[self.place] = value


@dataclass(frozen=True)
class Matrix:
    """A matrix of `matrices`, shape (d, d); `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> FloatArray:
        return cast("FloatArray", self if state is None else state.matrices[self.place])

    def __set__(self, state: Any, value: FloatArray) -> None:
        state.matrices[self.place] = value


@dataclass(frozen=True)
class Counter:
    """An element of `counters`; `place` is its index."""

    place: int

    def __get__(self, state: Any, kind: type) -> float:
        return cast("float", self) if state is None else float(state.counters[self.place])

    def __set__(self, state: Any, value: float) -> None:
        state.counters[self.place] = value


class Count(Counter):
    """An element of `counters` that is a whole number."""

    def __get__(self, state: Any, kind: type) -> int:
        return cast("int", self) if state is None else int(state.counters[self.place])


@functools.cache  # called for every new state
def size(kind: type, field: type[Vector | Matrix | Counter]) -> int:
    """Return the number of rows (or matrices, or counters) in the states of a class."""
    named = (value for base in kind.__mro__ for value in vars(base).values())
    return 1 + max(value.place for value in named if isinstance(value, field))


#: What the matrix of a local update sums up: x xᵀ, or μ′ x xᵀ at the last shared model.
Metric: TypeAlias = Literal["covariance", "hessian"]


@dataclass
class LocalState:
    """A client's state: the ellipsoid by which it chooses, and the last shared model.

    The numbers are in three arrays, which kernels change in place. The attributes are names for
    places in these arrays; the state of a local update adds its own.
    """

    vectors: FloatArray  # shapes (·, d), (·, d, d) and (·,)
    matrices: FloatArray
    counters: FloatArray
    base: SharedModel | None  # the last shared model, or None before the first

    theta = Vector(THETA)  # θ, the current model, shape (d,)
    centre = Vector(CENTRE)  # centre of the ellipsoid, shape (d,)
    matrix = Matrix(MATRIX)  # A and A⁻¹ (V and V⁻¹ in variant 3), shape (d, d)
    inverse = Matrix(INVERSE)
    #: log(det A / det(A − ΔA)), the running sum of log(1 + xᵀA⁻¹x) since the last model (or the
    #: last upload, where an upload need not bring a model)
    log_gain = Counter(LOG_GAIN)
    #: samples since the last model: the number of rank-one updates applied to `inverse`
    updates = Count(UPDATES)
    #: e: 1 before the first model, then one more than the number of the federation's models so far,
    #: set before `adopt`. Models that the client missed count, too: which ones it misses may depend
    #: on later rewards, and the union over e has to hold for all of them.
    epoch = Count(EPOCH)

    @property
    def t_last(self) -> int:
        """The step of the last shared model, 0 before the first."""
        return 0 if self.base is None else self.base.t

    def copied(self) -> Self:
        """Return a copy; it shares the last model, which nothing changes."""
        return replace(
            self,
            vectors=self.vectors.copy(),
            matrices=self.matrices.copy(),
            counters=self.counters.copy(),
        )


@dataclass
class HessianState(LocalState):
    """A state whose `matrix` is H + ℓI, H = Σ μ′ x xᵀ: `inverse` is a covariance of θ."""


State = TypeVar("State", bound=LocalState)


class LocalUpdate(Generic[State]):
    """How a client learns from its own samples: its state, and its change by a sample.

    Subclasses are frozen dataclasses that hold hyper-parameters only. `step` is a kernel, so that
    both engines round alike; docs/own_parts.md shows how to write one. Where a local update is
    expected, a plain function that returns the next θ is one.

    Examples
    --------
    Online Newton steps that begin with twice the ridge:

    >>> from dataclasses import dataclass, replace
    >>> import fedglb as fg
    >>> from fedglb.parts.local_update import Ons
    >>> from fedglb.setting import Setting
    >>> @dataclass(frozen=True)
    ... class Cautious(Ons):
    ...     def prior(self, setting: Setting) -> float:
    ...         return 2.0 * super().prior(setting)
    >>> algorithm = replace(fg.n_ons_glm(), local_update=Cautious())
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> fg.simulate(algorithm, env, horizon=5).choices.shape
    (5, 2)
    """

    #: The class of its states.
    state_type: ClassVar[type[LocalState]]
    #: The kernel that learns from the last row of X, y, with the signature `kernels.pointers.STEP`.
    step: ClassVar[Callable[..., int]]
    #: Whether `log_gain` grows with the client's samples (the event trigger needs it).
    tracks_gain: ClassVar[bool] = True
    #: Whether a client's own samples change its choices before the next shared model.
    learns: ClassVar[bool] = True
    #: What a shared model must hold beside A for `adopt`; None: it adopts none.
    model_fields: ClassVar[frozenset[str] | None] = frozenset({"theta"})
    #: Whether the coordinator gathers Σ x y beside Σ x xᵀ.
    shares_moment: ClassVar[bool] = False
    #: The number of arms that can have an effect of their own, if they recur.
    effects: int = 0
    #: Whether a client's state after a shared model depends on its own sums, too.
    personal: ClassVar[bool] = False
    #: What the matrix of its states sums up.
    metric: ClassVar[Metric] = "covariance"

    @property
    def why_plain(self) -> str | None:
        """Why only the reference engine learns by it; None: its `step` is a kernel."""
        if type(self).observe is LocalUpdate.observe:
            return None
        return "it overrides `observe` instead of defining a kernel `step`"

    def rehearsal(self, setting: Setting) -> tuple[Code, tuple[Any, ...]] | None:
        """Return a user's function and what it is first called with; None: there is none.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        tuple or None
            The function's code, and the arguments of the kernel around it.
        """
        return None

    def prior(self, setting: Setting) -> float:
        """Return the multiple of the identity that A starts from.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        float
            By default λ/c_μ, for A = (λ/c_μ)I + Σ x xᵀ.
        """
        return setting.ridge / setting.problem.c_mu

    def dispersion(self, setting: Setting) -> float:
        """Return D: D·A⁻¹ is about the covariance of the estimate.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        float
            D; by default the link's dispersion divided by c_μ, as `prior`.
        """
        return setting.problem.dispersion / setting.problem.c_mu

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that `step` needs.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        tuple of float
            In the order in which `step` reads them; none by default.
        """
        return ()

    def adopt(self, setting: Setting, state: State, model: SharedModel) -> None:
        """Replace the state, in place, by that of a shared model.

        The new state may depend on the shared models so far and on nothing else, so that clients
        that were given the same models hold the same state. Samples that the model does not
        cover are replayed afterwards, by the caller.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            The client's state.
        model
            The new shared model.

        Raises
        ------
        InvalidInput
            By default: with `model_fields` = None there are no shared models.
        """
        allowed = f"Never() with the local update {type(self).__name__}()"
        raise InvalidInput("trigger", "one that fires", allowed)

    def uploaded(self, state: State) -> None:
        """Note that the coordinator has all samples so far, where that brings no model.

        Parameters
        ----------
        state
            The client's state, changed in place: the gain restarts, A stays.
        """
        state.log_gain = 0.0

    def counters_in_use(self, state: State) -> int:
        """Return how many of a state's counters matter: those behind them are room.

        Parameters
        ----------
        state
            The client's state.

        Returns
        -------
        int
            All of them, by default.
        """
        return state.counters.size

    def begin(self, setting: Setting) -> State:
        """Return the state before any sample.

        Parameters
        ----------
        setting
            The setting of the run.

        Returns
        -------
        LocalState
            Of the class `state_type`.
        """
        d, prior = setting.problem.dim, self.prior(setting)
        kind: Any = self.state_type  # classes are hashable, though their states are not
        state = kind(
            vectors=np.zeros((size(kind, Vector), d)),
            matrices=np.zeros((size(kind, Matrix), d, d)),
            counters=np.zeros(size(kind, Counter)),
            base=None,
        )
        state.matrix[:] = prior * np.eye(d)
        state.inverse[:] = np.eye(d) / prior
        state.epoch = 1
        return cast("State", state)

    def observe(self, setting: Setting, state: State, samples: Samples, index: int) -> None:
        """Learn from the sample at `index`, in place.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            The client's state.
        samples
            The client's samples up to `index`, or more.
        index
            Which one, counted from 0.

        Raises
        ------
        Exception
            What `failure` returns, where the step failed.
        """
        n = index + 1
        status = self.step(
            state.vectors, state.matrices, state.counters, samples.X[:n], samples.y[:n],
            setting.problem.functions, np.array(self.constants(setting), dtype=float),
        )  # fmt: skip
        if status != 0:
            raise self.failure(n)

    def replay(self, setting: Setting, state: State, samples: Samples, first: int) -> None:
        """Learn from the samples `first`, `first` + 1, …: as `observe` one by one, in one call.

        Parameters
        ----------
        setting
            The setting of the run.
        state
            The client's state.
        samples
            The client's samples.
        first
            The first one to learn from, counted from 0.

        Raises
        ------
        Exception
            What `failure` returns, where a step failed.
        """
        if first >= len(samples):
            return
        if self.why_plain is not None:
            for index in range(first, len(samples)):
                self.observe(setting, state, samples, index)
            return
        failed = replay_samples(
            address_of(self.step, STEP), state.vectors, state.matrices, state.counters,
            samples.X, samples.y, first, setting.problem.functions,
            np.array(self.constants(setting), dtype=float),
        )  # fmt: skip
        if failed:
            raise self.failure(failed)

    def failure(self, n: int) -> Exception:
        """Return the exception to raise if `step` did not return 0.

        Parameters
        ----------
        n
            The number of the sample, counted from 1.

        Returns
        -------
        Exception
            FloatingPointError by default.
        """
        return FloatingPointError(f"the local update {self} failed at sample {n}")


class HessianUpdate(LocalUpdate[State]):
    """Base of local updates with the matrix H + λI, H = Σ μ′ x xᵀ."""

    metric = "hessian"

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def dispersion(self, setting: Setting) -> float:
        """Return the link's: the matrix's inverse is a covariance up to this factor."""
        return setting.problem.dispersion


def adopt_matrix(state: LocalState, model: SharedModel) -> None:
    """Take over A (and θ) from a shared model, and invert A."""
    state.matrix[:] = model.matrix
    invert(state.matrix, state.inverse)
    if model.theta is not None:
        state.theta[:] = model.theta
    state.log_gain = 0.0
    state.updates = 0
    state.base = model


def recentre(state: LocalState, b: FloatArray) -> None:
    """Set the centre to A⁻¹b."""
    matvec(state.inverse, b, state.centre)
