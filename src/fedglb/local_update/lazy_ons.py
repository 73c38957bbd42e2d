"""Online Newton steps on the covariance of gradients: the local update of variant 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.kernels.jit import kernel
from fedglb.kernels.linalg import add_sample, dot, invert
from fedglb.kernels.types import FloatArray
from fedglb.lazy_rate import LazyRate
from fedglb.local_update.base import LocalState, LocalUpdate, adopt_matrix, recentre
from fedglb.local_update.ons import newton_move, predict
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting


@kernel
def lazy_ons_step(
    V: FloatArray,
    V_inv: FloatArray,
    A: FloatArray,
    A_inv: FloatArray,
    theta: FloatArray,
    b: FloatArray,
    centre: FloatArray,
    x: FloatArray,
    z: float,
    residual: float,
    gamma: float,
    S: float,
    count: int,
) -> tuple[float, float]:
    """One local step of variant 3 in place, with z = xᵀθ and residual = μ(z) − y before it.

    Return the gain of log det V and ‖∇l‖²_{A⁻¹}. Erratum 5: the step is 1/γ, not 1/c_μ.
    """
    gain = add_sample(V, V_inv, x, 1.0, count)
    add_sample(A, A_inv, x, residual * residual, count)
    gradient_norm = newton_move(A, A_inv, theta, x, residual, gamma, S)
    predict(V_inv, b, centre, x, z)
    return gain, gradient_norm


@dataclass
class LazyOnsState(LocalState):
    """State of variant 3; `matrix` and `inverse` are V and V⁻¹.

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
    """

    gradient_matrix: FloatArray
    gradient_inverse: FloatArray
    b: FloatArray
    squares: float
    gradient_norms: float


@dataclass(frozen=True)
class LazyOns(LocalUpdate[LazyOnsState]):
    """Online Newton steps of size 1/γ; the ellipsoid is V's, centred at V⁻¹b."""

    state_type = LazyOnsState
    model_fields = frozenset({"theta", "b", "gradient_matrix"})
    rate: LazyRate

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def begin(self, setting: Setting) -> LazyOnsState:
        """Return the state before any sample."""
        d, ridge = setting.problem.dim, setting.ridge
        return LazyOnsState(
            **vars(self._begin(setting)),
            gradient_matrix=ridge * np.eye(d),
            gradient_inverse=np.eye(d) / ridge,
            b=np.zeros(d),
            squares=0.0,
            gradient_norms=0.0,
        )

    def observe(self, setting: Setting, state: LazyOnsState, samples: Samples, index: int) -> None:
        """One online Newton step."""
        problem = setting.problem
        x = samples.X[index]
        z = dot(x, state.theta)
        residual = problem.link.mean(z) - float(samples.y[index])
        gain, gradient_norm = lazy_ons_step(
            state.matrix, state.inverse, state.gradient_matrix, state.gradient_inverse,
            state.theta, state.b, state.centre,
            x, z, residual, self.rate.gamma(setting), problem.S, state.updates,
        )  # fmt: skip
        state.log_gain += gain
        state.gradient_norms += gradient_norm
        state.squares += z * z
        state.updates += 1

    def adopt(self, setting: Setting, state: LazyOnsState, model: SharedModel) -> None:
        """Hold θ_t, V_t, A_t and b_t."""
        assert model.b is not None
        assert model.gradient_matrix is not None
        adopt_matrix(state, model)
        state.gradient_matrix[:] = model.gradient_matrix
        invert(state.gradient_matrix, state.gradient_inverse)
        state.b[:] = model.b
        state.squares = 0.0
        state.gradient_norms = 0.0
        recentre(state, state.b)
