"""Ridge regression on what the coordinator had at the last exchange: FedLinUCB's local update."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, UPDATES
from fedglb.kernels.linalg import add_sample
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import LocalState, adopt_matrix, recentre
from fedglb.parts.local_update.fields import Matrix, Vector
from fedglb.parts.local_update.ridge import LinearModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors` and `matrices`, behind those of every state.
DIRECTION = 2
AHEAD, AHEAD_INVERSE = 2, 3


@kernel
def follow_gain(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Add the last row of X to the matrix that the trigger looks at; A, for choices, stays."""
    n, count = X.shape[0] - 1, int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(
        matrices[AHEAD], matrices[AHEAD_INVERSE], X[n], 1.0, count, vectors[DIRECTION]
    )
    counters[UPDATES] += 1.0
    return 0


@dataclass
class FrozenRidgeState(LocalState):
    """State of a client that plays θ = A⁻¹b of its last model; A and b stay until the next.

    Parameters
    ----------
    vectors, matrices, counters, base
        As in `LocalState`; `FrozenRidge.begin` makes them.

    Attributes
    ----------
    ahead, ahead_inverse
        A with the client's own samples since the last model, and its inverse, shape (d, d).
    direction
        The last sample times `ahead_inverse`.
    """

    direction = Vector(DIRECTION)
    ahead = Matrix(AHEAD)
    ahead_inverse = Matrix(AHEAD_INVERSE)


@dataclass(frozen=True)
class FrozenRidge(LinearModel[FrozenRidgeState]):
    """Keep θ and A as the last model has them, and follow what own samples would add to det A.

    References
    ----------
    He et al. (2022), Algorithm 1 (FedLinUCB); docs/theory.md, section 9.1.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedlinucb(threshold=1.0).local_update
    FrozenRidge()
    """

    stored_name = "FrozenRidge"

    state_type = FrozenRidgeState
    step = staticmethod(follow_gain)

    def begin(self, setting: Setting) -> FrozenRidgeState:
        """Return the state before any sample."""
        state = super().begin(setting)
        _look_ahead(state)
        return state

    def adopt(self, setting: Setting, state: FrozenRidgeState, model: SharedModel) -> None:
        """Take over A_t and b_t; θ and the centre are A⁻¹b."""
        assert model.b is not None
        adopt_matrix(state, model)
        recentre(state, model.b)
        state.theta[:] = state.centre
        state.direction[:] = 0.0
        _look_ahead(state)


def _look_ahead(state: FrozenRidgeState) -> None:
    """Let the trigger's matrix begin at A."""
    state.ahead[:] = state.matrix
    state.ahead_inverse[:] = state.inverse
