"""What a client does with its own sample: the interface, and the state every family keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np

from fedglb.kernels.layout import CENTRE, EPOCH, INVERSE, LOG_GAIN, MATRIX, THETA, UPDATES
from fedglb.kernels.linalg import invert, matvec
from fedglb.kernels.play import replay
from fedglb.kernels.pointers import STEP, address_of
from fedglb.local_update.fields import Count, Counter, Matrix, Vector, size
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass
class LocalState:
    """The ellipsoid that a client chooses by, and what it was last given.

    Three arrays, which kernels change in place, and the last shared model. The names below are
    places in them; a family adds its own.

    Parameters
    ----------
    vectors, matrices, counters
        Shapes (·, d), (·, d, d) and (·,).
    base
        The last shared model, or None before the first.

    Attributes
    ----------
    theta
        θ, the current model, shape (d,).
    matrix, inverse
        A and A⁻¹ (V for the lazy family), shape (d, d).
    centre
        Centre of the ellipsoid, shape (d,).
    log_gain
        log(det A / det(A − ΔA)), the running sum of log(1 + xᵀA⁻¹x) since the last model.
    updates
        Rank-one updates of `inverse` since it was computed from a matrix that was given.
    epoch
        e: 1 before the first model, 2 after it, …
    """

    vectors: FloatArray
    matrices: FloatArray
    counters: FloatArray
    base: SharedModel | None

    theta = Vector(THETA)
    centre = Vector(CENTRE)
    matrix = Matrix(MATRIX)
    inverse = Matrix(INVERSE)
    log_gain = Counter(LOG_GAIN)
    updates = Count(UPDATES)
    epoch = Count(EPOCH)

    @property
    def t_last(self) -> int:
        """The step of the last shared model, 0 before the first."""
        return 0 if self.base is None else self.base.t

    @property
    def radius_terms(self) -> FloatArray:
        """The numbers that the last shared model holds for the radius; empty before the first."""
        return np.empty(0) if self.base is None else self.base.numbers


State = TypeVar("State", bound=LocalState)


class LocalUpdate(ABC, Generic[State]):
    """A family of client states and how one sample changes them.

    Subclasses are frozen dataclasses that hold hyper-parameters only.
    """

    state_type: ClassVar[type[LocalState]]
    #: The kernel that takes in the last row of X, y, with the signature `kernels.pointers.STEP`.
    step: ClassVar[Callable[..., int]]
    #: Whether `log_gain` grows with the client's samples (the event trigger needs it).
    tracks_gain: ClassVar[bool] = True
    #: What a shared model must hold beside A to replace the state; None: no model can.
    model_fields: ClassVar[frozenset[str] | None] = frozenset({"theta"})
    #: Whether the coordinator gathers Σ x y beside Σ x xᵀ.
    shares_moment: ClassVar[bool] = False

    @abstractmethod
    def prior(self, setting: Setting) -> float:
        """Return the multiple of the identity that A starts from."""

    @abstractmethod
    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the numbers that `step` needs."""

    @abstractmethod
    def adopt(self, setting: Setting, state: State, model: SharedModel) -> None:
        """Replace the state by a shared model; samples it does not cover are replayed after.

        What it leaves depends on the shared models so far alone: clients that were given the
        same ones hold the same state.
        """

    def begin(self, setting: Setting) -> State:
        """Return the state before any sample."""
        d, prior, kind = setting.problem.dim, self.prior(setting), self.state_type
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
        """Take in the sample at `index`."""
        n = index + 1
        status = self.step(
            state.vectors, state.matrices, state.counters, samples.X[:n], samples.y[:n],
            setting.problem.link.compiled_functions, np.array(self.constants(setting), dtype=float),
        )  # fmt: skip
        if status != 0:
            raise self.failure(n)

    def replay(self, setting: Setting, state: State, samples: Samples, first: int) -> None:
        """Take in the samples from `first` on, in order: the same as one by one, in one call."""
        if type(self).observe is not LocalUpdate.observe:  # a user's own, in plain Python
            for index in range(first, len(samples)):
                self.observe(setting, state, samples, index)
            return
        failed = replay(
            address_of(self.step, STEP), state.vectors, state.matrices, state.counters,
            samples.X, samples.y, first, setting.problem.link.compiled_functions,
            np.array(self.constants(setting), dtype=float),
        )  # fmt: skip
        if failed:
            raise self.failure(failed)

    def failure(self, n: int) -> Exception:
        """Return what to raise where the step of the n-th sample returned other than 0."""
        return FloatingPointError(f"{self} failed at sample {n}")

    def caveats(self) -> tuple[str, ...]:
        """Return what is not proven with this choice."""
        return ()


def adopt_matrix(state: LocalState, model: SharedModel) -> None:
    """Take over A from a shared model, with a fresh inverse, and begin a new epoch."""
    state.matrix[:] = model.matrix
    invert(state.matrix, state.inverse)
    if model.theta is not None:
        state.theta[:] = model.theta
    state.log_gain = 0.0
    state.updates = 0
    state.epoch += 1
    state.base = model


def recentre(state: LocalState, b: FloatArray) -> None:
    """Set the centre to A⁻¹b."""
    matvec(state.inverse, b, state.centre)
