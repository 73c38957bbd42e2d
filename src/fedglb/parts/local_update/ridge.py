"""Ridge regression, exact after every sample: the local update of DisLinUCB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, LOG_GAIN, MATRIX, THETA, UPDATES
from fedglb.kernels.linalg import add_sample
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import LocalState, LocalUpdate, Vector, adopt_matrix, recentre
from fedglb.parts.local_update.ons import predict
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors`, behind those of every state.
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
    """Add the last row of X and y to A and b, with its reward where ONS has a prediction."""
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
    """State of a client that keeps A = λI + Σ x xᵀ and b = Σ x y; the centre is θ = A⁻¹b."""

    b = Vector(B)  # Σ x y over the samples of A, shape (d,)
    direction = Vector(DIRECTION)  # A⁻¹x of the last sample since the last model


State = TypeVar("State", bound=LocalState)


class LinearModel(LocalUpdate[State]):
    """What local updates of a linear model, A = λI + Σ x xᵀ and b = Σ x y, have in common."""

    model_fields = frozenset({"b"})
    shares_moment = True

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def dispersion(self, setting: Setting) -> float:
        """Return R²: A = λI + Σ x xᵀ is a linear model's."""
        return setting.problem.R**2


@dataclass(frozen=True)
class Ridge(LinearModel[RidgeState]):
    """Ridge regression on the rewards, exact after every sample, whatever the link.

    Wang et al. (2020), DisLinUCB; docs/theory.md, section 2.5.
    """

    stored_name = "Ridge"

    state_type = RidgeState
    step = staticmethod(ridge_step)

    def adopt(self, setting: Setting, state: RidgeState, model: SharedModel) -> None:
        """Take over A_t and b_t; θ and the centre are A⁻¹b."""
        adopt_sums(state, model)


def adopt_sums(state: RidgeState, model: SharedModel) -> None:
    """Take over A_t and b_t; θ and the centre are A⁻¹b."""
    assert model.b is not None
    adopt_matrix(state, model)
    state.direction[:] = 0.0
    state.b[:] = model.b
    recentre(state, state.b)
    state.theta[:] = state.centre
