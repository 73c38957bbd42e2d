"""Newton steps on a loss that is linearised at the last shared model: exact, and no projection."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import (
    CENTRE,
    INVERSE,
    LOG_GAIN,
    MATRIX,
    MEAN,
    THETA,
    UPDATES,
    VARIANCE,
)
from fedglb.kernels.linalg import add_sample, dot, matvec, refreshed
from fedglb.kernels.pointers import call1
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import (
    Counter,
    HessianState,
    HessianUpdate,
    Vector,
    adopt_matrix,
)
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors` and in `counters`, behind those of every state.
ANCHOR, GRADIENT, DIRECTION = 2, 3, 4
TRACE = 3


@kernel
def anchored_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Add the last row of X and y to H and G, which are taken at θ_t, and solve for θ_i again.

    With p = P_new x the solution moves by −p(μ(z) − y + μ′(z) xᵀ(θ_i − θ_t)), z = xᵀθ_t: the
    exact minimum of the loss linearised at θ_t (docs/theory.md, section 7.5).
    """
    n = X.shape[0] - 1
    x, theta, anchor = X[n], vectors[THETA], vectors[ANCHOR]
    gradient, direction = vectors[GRADIENT], vectors[DIRECTION]
    count = int(counters[UPDATES])
    z = dot(x, anchor)
    weight = call1(functions[VARIANCE], z)
    residual = call1(functions[MEAN], z) - y[n]
    error = residual + weight * (dot(x, theta) - z)
    counters[LOG_GAIN] += add_sample(
        matrices[MATRIX], matrices[INVERSE], x, weight, count, direction
    )
    counters[TRACE] += weight * dot(x, x)
    counters[UPDATES] += 1.0
    for j in range(x.shape[0]):
        gradient[j] += residual * x[j]
        theta[j] -= error * direction[j]
    if refreshed(count):  # P was computed from H + ℓI: θ_i = θ_t − P G too
        matvec(matrices[INVERSE], gradient, theta)
        for j in range(x.shape[0]):
            theta[j] = anchor[j] - theta[j]
    centre = vectors[CENTRE]
    for j in range(x.shape[0]):  # not one assignment: numba would compile its error's text too
        centre[j] = theta[j]
    return 0


@dataclass
class AnchoredState(HessianState):
    """State of a client whose loss is linearised at the last shared model θ_t, the anchor.

    `matrix` is H_i + ℓI, with H_i the Hessian at θ_t over the samples of the model and the
    client's own since, and `inverse` is P_i; θ_i = θ_t − P_i G is `theta` and `centre`.
    """

    anchor = Vector(ANCHOR)  # θ_t, shape (d,); zero before the first model
    #: G = Σ x(μ(xᵀθ_t) − y) over the client's own samples since the model, shape (d,)
    gradient = Vector(GRADIENT)
    direction = Vector(DIRECTION)  # P_i x of the last sample since the model
    trace = Counter(TRACE)  # Σ μ′(xᵀθ_t)‖x‖² over those samples


@dataclass(frozen=True)
class Anchored(HessianUpdate[AnchoredState]):
    """The exact minimum of the client's loss, linearised at the last shared model.

    θ_i = θ_t − P_i G, with P_i = (H_i + ℓI)⁻¹. It takes one rank-one update per sample and no
    projection, and needs no c_μ, no R and no S.

    docs/theory.md, section 7.5.
    """

    stored_name = "Anchored"

    state_type = AnchoredState
    step = staticmethod(anchored_step)

    def adopt(self, setting: Setting, state: AnchoredState, model: SharedModel) -> None:
        """Take over θ_t and H + ℓI; θ_i is θ_t."""
        assert model.theta is not None
        adopt_matrix(state, model)
        state.anchor[:] = model.theta
        state.centre[:] = model.theta
        state.gradient[:] = 0.0
        state.direction[:] = 0.0
        state.trace = 0.0
