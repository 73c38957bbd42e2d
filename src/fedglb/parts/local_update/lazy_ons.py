"""Online Newton steps on the covariance of gradients: the local update of variant 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
from fedglb.kernels.linalg import add_sample, dot, invert
from fedglb.kernels.pointers import call1
from fedglb.model import SharedModel
from fedglb.parts.lazy_rate import LazyRate
from fedglb.parts.local_update.base import LocalState, LocalUpdate, adopt_matrix, recentre
from fedglb.parts.local_update.fields import Counter, Matrix, Vector
from fedglb.parts.local_update.ons import newton_move, predict
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors`, `matrices` and `counters`, behind those of every state.
B, DIRECTION, GRADIENT_DIRECTION = 2, 3, 4
GRADIENT_MATRIX, GRADIENT_INVERSE = 2, 3
SQUARES, GRADIENT_NORMS = 3, 4
#: Places in the constants of `lazy_ons_step`: γ and S.
GAMMA, BALL = range(2)


@kernel
def lazy_ons_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """One local step of variant 3, on the last row of X and y.

    Erratum 5: the step size is 1/γ, not 1/c_μ.
    """
    n = X.shape[0] - 1
    x, theta = X[n], vectors[THETA]
    V_inv, A, A_inv = matrices[INVERSE], matrices[GRADIENT_MATRIX], matrices[GRADIENT_INVERSE]
    towards, along = vectors[DIRECTION], vectors[GRADIENT_DIRECTION]
    gamma, S = constants[GAMMA], constants[BALL]
    count = int(counters[UPDATES])
    z = dot(x, theta)
    residual = call1(functions[MEAN], z) - y[n]
    counters[LOG_GAIN] += add_sample(matrices[MATRIX], V_inv, x, 1.0, count, towards)
    add_sample(A, A_inv, x, residual * residual, count, along)
    counters[GRADIENT_NORMS] += newton_move(
        A, A_inv, theta, x, along, residual, gamma, S, functions[PROJECTION]
    )
    counters[SQUARES] += z * z
    counters[UPDATES] += 1.0
    predict(V_inv, vectors[B], vectors[CENTRE], x, towards, z, count)
    return 0


@dataclass
class LazyOnsState(LocalState):
    """State of variant 3; `matrix` and `inverse` are V and V⁻¹.

    Parameters
    ----------
    vectors, matrices, counters, base
        As in `LocalState`; `LazyOns.begin` makes them.

    Attributes
    ----------
    gradient_matrix, gradient_inverse
        A = λI + Σ ∇F ∇Fᵀ and its inverse, shape (d, d).
    b
        Σ x (predicted xᵀθ), shape (d,).
    squares
        Σ z² over the samples since the last model.
    gradient_norms
        Σ ‖∇l‖²_{A_s⁻¹} over the samples since the last model.
    direction, gradient_direction
        V⁻¹x and A⁻¹x of the last sample since the last model.
    """

    b = Vector(B)
    direction = Vector(DIRECTION)
    gradient_direction = Vector(GRADIENT_DIRECTION)
    gradient_matrix = Matrix(GRADIENT_MATRIX)
    gradient_inverse = Matrix(GRADIENT_INVERSE)
    squares = Counter(SQUARES)
    gradient_norms = Counter(GRADIENT_NORMS)


@dataclass(frozen=True)
class LazyOns(LocalUpdate[LazyOnsState]):
    """One online Newton step of size 1/γ per sample; the ellipsoid is V's, centred at V⁻¹b.

    The steps use the covariance of gradients, A = λI + Σ ∇F ∇Fᵀ; V is that of the arms.

    Parameters
    ----------
    rate
        What the step size 1/γ follows from; the same as that of the global update.

    References
    ----------
    Li and Wang (2022), Algorithm 6 (FedGLB-UCB₃), with erratum 5; docs/theory.md, section 2.4.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_3(updates=20).local_update
    LazyOns(rate=LazyRate(updates=20, batch_limit=None))
    """

    stored_name = "LazyOns"

    state_type = LazyOnsState
    step = staticmethod(lazy_ons_step)
    model_fields = frozenset({"theta", "b", "gradient_matrix"})
    rate: LazyRate

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return γ and S."""
        return in_order({GAMMA: self.rate.gamma(setting), BALL: setting.problem.S})

    def begin(self, setting: Setting) -> LazyOnsState:
        """Return the state before any sample."""
        state = super().begin(setting)
        d, ridge = setting.problem.dim, setting.ridge
        state.gradient_matrix[:] = ridge * np.eye(d)
        state.gradient_inverse[:] = np.eye(d) / ridge
        return state

    def adopt(self, setting: Setting, state: LazyOnsState, model: SharedModel) -> None:
        """Take over θ_t, V_t, A_t and b_t."""
        assert model.b is not None
        assert model.gradient_matrix is not None
        adopt_matrix(state, model)
        state.direction[:] = 0.0
        state.gradient_direction[:] = 0.0
        state.gradient_matrix[:] = model.gradient_matrix
        invert(state.gradient_matrix, state.gradient_inverse)
        state.b[:] = model.b
        state.squares = 0.0
        state.gradient_norms = 0.0
        recentre(state, state.b)
