"""No local update: a client plays the last shared model until the next (variant 1)."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import (
    HessianState,
    HessianUpdate,
    LocalState,
    LocalUpdate,
    adopt_matrix,
)
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


@kernel
def change_nothing(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Leave everything as it is."""
    return 0


@dataclass
class FrozenState(LocalState):
    """State of a client that learns by global updates only; the centre is θ_t."""


@dataclass(frozen=True)
class Frozen(LocalUpdate[FrozenState]):
    """Keep θ and A as the last global update left them.

    Li and Wang (2022), Algorithm 4 (FedGLB-UCB₁); docs/theory.md, section 2.2.
    """

    stored_name = "Frozen"

    state_type = FrozenState
    step = staticmethod(change_nothing)
    tracks_gain = False
    learns = False

    def adopt(self, setting: Setting, state: FrozenState, model: SharedModel) -> None:
        """Take over θ_t and A_t; the centre is θ_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta


@dataclass
class FrozenHessianState(HessianState):
    """State of a client that learns by global updates only; the centre is θ_t."""


@dataclass(frozen=True)
class FrozenHessian(HessianUpdate[FrozenHessianState]):
    """Play the last shared model until the next; its matrix is H + λI.

    A reward changes no later choice of the client before the next shared model. With privacy this
    is what protects the users of one client from each other, too.

    The noise of privacy is in θ_t, but not in the widths of arms: they are for exploring, and
    playing an arm does not make that noise smaller.

    docs/privacy.md; docs/theory.md, section 10.
    """

    stored_name = "FrozenHessian"

    state_type = FrozenHessianState
    step = staticmethod(change_nothing)
    tracks_gain = False
    learns = False

    def adopt(self, setting: Setting, state: FrozenHessianState, model: SharedModel) -> None:
        """Take over θ_t and the matrix; the centre is θ_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta
