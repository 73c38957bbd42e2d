"""What a client does with its own sample: the interface, and the state every family keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import numpy as np

from fedglb.kernels.linalg import invert, matvec
from fedglb.kernels.types import FloatArray
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting


@dataclass
class LocalState:
    """The ellipsoid that a client chooses by, and what it was last given.

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
    base
        The last shared model, or None before the first.
    """

    theta: FloatArray
    matrix: FloatArray
    inverse: FloatArray
    centre: FloatArray
    log_gain: float
    updates: int
    epoch: int
    base: SharedModel | None

    @property
    def t_last(self) -> int:
        """The step of the last shared model, 0 before the first."""
        return 0 if self.base is None else self.base.t


State = TypeVar("State", bound=LocalState)


class LocalUpdate(ABC, Generic[State]):
    """A family of client states and how one sample changes them.

    Subclasses are frozen dataclasses that hold hyper-parameters only.
    """

    state_type: ClassVar[type[LocalState]]
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
    def begin(self, setting: Setting) -> State:
        """Return the state before any sample."""

    @abstractmethod
    def observe(self, setting: Setting, state: State, samples: Samples, index: int) -> None:
        """Take in the sample at `index`."""

    @abstractmethod
    def adopt(self, setting: Setting, state: State, model: SharedModel) -> None:
        """Replace the state by a shared model; samples it does not cover are replayed after."""

    def caveats(self) -> tuple[str, ...]:
        """Return what is not proven with this choice."""
        return ()

    def _begin(self, setting: Setting) -> LocalState:
        d, prior = setting.problem.dim, self.prior(setting)
        return LocalState(
            theta=np.zeros(d),
            matrix=prior * np.eye(d),
            inverse=np.eye(d) / prior,
            centre=np.zeros(d),
            log_gain=0.0,
            updates=0,
            epoch=1,
            base=None,
        )


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
