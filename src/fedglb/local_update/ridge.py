"""Ridge regression, exact after every sample: the local update of DisLinUCB."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, LOG_GAIN, MATRIX, THETA, UPDATES
from fedglb.kernels.linalg import add_sample
from fedglb.local_update.base import LocalState, LocalUpdate, adopt_matrix, recentre
from fedglb.local_update.fields import Vector
from fedglb.local_update.ons import predict
from fedglb.model import SharedModel
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

B, DIRECTION = 2, 3


@kernel
def ridge_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Add the last sample to A and b: its reward stands where a prediction stands in ONS."""
    n = X.shape[0] - 1
    x, A_inv, centre = X[n], matrices[INVERSE], vectors[CENTRE]
    count = int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(matrices[MATRIX], A_inv, x, 1.0, count, vectors[DIRECTION])
    counters[UPDATES] += 1.0
    predict(A_inv, vectors[B], centre, x, vectors[DIRECTION], y[n], count)
    vectors[THETA] = centre
    return 0


@dataclass
class RidgeState(LocalState):
    """State of a client that keeps A = λI + Σ x xᵀ and b = Σ x y, shape (d,)."""

    b = Vector(B)
    direction = Vector(DIRECTION)


@dataclass(frozen=True)
class Ridge(LocalUpdate[RidgeState]):
    """Exact ridge regression on the rewards themselves; the link plays no part."""

    stored_name = "Ridge"

    state_type = RidgeState
    step = staticmethod(ridge_step)
    model_fields = frozenset({"b"})
    shares_moment = True

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return nothing."""
        return ()

    def adopt(self, setting: Setting, state: RidgeState, model: SharedModel) -> None:
        """Hold A_t and b_t."""
        assert model.b is not None
        adopt_matrix(state, model)
        state.direction[:] = 0.0
        state.b[:] = model.b
        recentre(state, state.b)
        state.theta[:] = state.centre
