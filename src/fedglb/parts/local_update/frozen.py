"""No local update: a client plays the last shared model until the next (variant 1)."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import LocalState, LocalUpdate, adopt_matrix
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
    """State of a client that learns by global updates only; the centre is θ_t.

    Parameters
    ----------
    vectors, matrices, counters, base
        As in `LocalState`; `Frozen.begin` makes them.
    """


@dataclass(frozen=True)
class Frozen(LocalUpdate[FrozenState]):
    """Keep θ and A as the last global update left them.

    References
    ----------
    Li and Wang (2022), Algorithm 4 (FedGLB-UCB₁); docs/theory.md, section 2.2.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_1(updates=20).local_update
    Frozen()
    """

    stored_name = "Frozen"

    state_type = FrozenState
    step = staticmethod(change_nothing)
    tracks_gain = False
    learns = False

    def prior(self, setting: Setting) -> float:
        """Return λ/c."""
        return setting.ridge / setting.problem.c_mu

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return no numbers: the step needs none."""
        return ()

    def adopt(self, setting: Setting, state: FrozenState, model: SharedModel) -> None:
        """Take over θ_t and A_t; the centre is θ_t."""
        adopt_matrix(state, model)
        state.centre[:] = state.theta
