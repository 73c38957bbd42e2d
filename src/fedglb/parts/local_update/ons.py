"""Online Newton steps on a client's own samples: the local update of FedGLB-UCB."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.kernels.ball import project
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import (
    CENTRE,
    INVERSE,
    LOG_GAIN,
    MATRIX,
    MEAN,
    PROJECTION,
    THETA,
    UPDATES,
    in_order,
)
from fedglb.kernels.linalg import add_sample, dot, matvec, quadratic, refreshed
from fedglb.kernels.pointers import call1
from fedglb.model import SharedModel
from fedglb.parts.local_update.base import (
    Counter,
    LocalState,
    LocalUpdate,
    Vector,
    adopt_matrix,
    recentre,
)
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors` and in `counters`, behind those of every state.
B, BASE_B, DIRECTION = 2, 3, 4
SQUARES, GRADIENT_NORMS, BASE_SQUARES = 3, 4, 5
#: Places in the constants of `ons_step`: c and S.
C_MU, BALL = range(2)


@kernel
def newton_move(
    A: FloatArray,
    A_inv: FloatArray,
    theta: FloatArray,
    x: FloatArray,
    direction: FloatArray,
    residual: float,
    rate: float,
    S: float,
    by_products: int,
) -> float:
    """θ ← projection of θ − (1/rate) A⁻¹∇l onto the ball, ∇l = residual·x; return ‖∇l‖²_{A⁻¹}.

    `direction` is A⁻¹x; `by_products` is as in `project`.
    """
    for j in range(x.shape[0]):
        theta[j] -= residual / rate * direction[j]
    project(A, A_inv, S, theta, by_products)
    return residual * residual * dot(x, direction)


@kernel
def predict(
    A_inv: FloatArray,
    b: FloatArray,
    centre: FloatArray,
    x: FloatArray,
    direction: FloatArray,
    z: float,
    count: int,
) -> None:
    """Add the prediction z of xᵀθ to b, and move the centre to A⁻¹b.

    `direction` is A⁻¹x, with x in A already: the centre moves along it. Whenever A⁻¹ is computed
    from A, so is the centre from b.
    """
    error = z - dot(x, centre)
    for j in range(x.shape[0]):
        b[j] += x[j] * z
        centre[j] += error * direction[j]
    if refreshed(count):
        matvec(A_inv, b, centre)


@kernel
def ons_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """One step of the paper's Algorithm 2, on the last row of X and y."""
    n = X.shape[0] - 1
    x, theta, direction = X[n], vectors[THETA], vectors[DIRECTION]
    A, A_inv = matrices[MATRIX], matrices[INVERSE]
    c, S = constants[C_MU], constants[BALL]
    count = int(counters[UPDATES])
    z = dot(x, theta)
    residual = call1(functions[MEAN], z) - y[n]
    counters[LOG_GAIN] += add_sample(A, A_inv, x, 1.0, count, direction)
    counters[GRADIENT_NORMS] += newton_move(
        A, A_inv, theta, x, direction, residual, c, S, functions[PROJECTION]
    )
    counters[SQUARES] += z * z
    counters[UPDATES] += 1.0
    predict(A_inv, vectors[B], vectors[CENTRE], x, direction, z, count)
    return 0


@dataclass
class OnsState(LocalState):
    """State of a client that learns by online Newton steps."""

    b = Vector(B)  # Σ x (predicted xᵀθ) over the samples of A, shape (d,)
    base_b = Vector(BASE_B)  # b right after the last model
    direction = Vector(DIRECTION)  # A⁻¹x of the last sample since the last model
    squares = Counter(SQUARES)  # ‖z‖², the sum of squares of those predictions
    #: Σ ‖∇l‖²_{A_s⁻¹} over the samples since the last model
    gradient_norms = Counter(GRADIENT_NORMS)
    base_squares = Counter(BASE_SQUARES)  # ‖z‖² right after the last model


@dataclass(frozen=True)
class Ons(LocalUpdate[OnsState]):
    """One online Newton step per sample; the ellipsoid is centred at A⁻¹b.

    After a global update b = (A_t − (λ/c)I)θ_t: every past prediction is that of θ_t, as the
    ellipsoid lemma needs. The paper prints another rule (erratum 2).

    Li and Wang (2022), Algorithm 2; docs/theory.md, section 2.3.
    """

    stored_name = "Ons"

    state_type = OnsState
    step = staticmethod(ons_step)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return c_μ and S."""
        return in_order({C_MU: setting.problem.c_mu, BALL: setting.problem.S})

    def adopt(self, setting: Setting, state: OnsState, model: SharedModel) -> None:
        """Take over θ_t and A_t, and the b that goes with them."""
        assert model.theta is not None
        covered = model.matrix - self.prior(setting) * np.eye(setting.problem.dim)
        adopt_matrix(state, model)
        matvec(covered, model.theta, state.base_b)
        state.base_squares = quadratic(covered, model.theta)
        state.b[:] = state.base_b
        state.squares = state.base_squares
        state.direction[:] = 0.0
        state.gradient_norms = 0.0
        recentre(state, state.b)
