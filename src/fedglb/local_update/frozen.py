"""No local update: a client plays the last shared model until the next (variant 1)."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.local_update.base import LocalState, LocalUpdate, adopt_matrix
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting


@dataclass
class FrozenState(LocalState):
    """State of a client that only learns by global updates; the centre is θ_t."""


@dataclass(frozen=True)
class Frozen(LocalUpdate[FrozenState]):
    """Keep θ and A as they were after the last global update."""

    state_type = FrozenState
    tracks_gain = False

    def prior(self, setting: Setting) -> float:
        """Return λ/c."""
        return setting.ridge / setting.problem.c_mu

    def begin(self, setting: Setting) -> FrozenState:
        """Return the state before any sample."""
        return FrozenState(**vars(self._begin(setting)))

    def observe(self, setting: Setting, state: FrozenState, samples: Samples, index: int) -> None:
        """Change nothing."""

    def adopt(self, setting: Setting, state: FrozenState, model: SharedModel) -> None:
        """Hold θ_t and A_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta
