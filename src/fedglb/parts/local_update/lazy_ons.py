"""Online Newton steps on the covariance of gradients: variant 3's local update, and its 1/γ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput, integer
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
from fedglb.parts.local_update.base import (
    Counter,
    LocalState,
    LocalUpdate,
    Matrix,
    Vector,
    adopt_matrix,
    recentre,
)
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
    """State of variant 3; `matrix` and `inverse` are V and V⁻¹."""

    b = Vector(B)  # Σ x (predicted xᵀθ), shape (d,)
    direction = Vector(DIRECTION)  # V⁻¹x of the last sample since the last model
    gradient_direction = Vector(GRADIENT_DIRECTION)  # and A⁻¹x
    gradient_matrix = Matrix(GRADIENT_MATRIX)  # A = λI + Σ ∇F ∇Fᵀ and its inverse, shape (d, d)
    gradient_inverse = Matrix(GRADIENT_INVERSE)
    squares = Counter(SQUARES)  # Σ z² over the samples since the last model
    #: Σ ‖∇l‖²_{A_s⁻¹} over the samples since the last model
    gradient_norms = Counter(GRADIENT_NORMS)


@dataclass(frozen=True)
class LazyRate:
    """What γ = c/(G² n_max) follows from: a bound on the samples in one global update.

    Variant 3's local update, global update and radius share it. docs/theory.md, section 2.4 (Lemma
    7); erratum 5 in section 11.
    """

    stored_name = "LazyRate"

    updates: int  # B, the number of global updates
    #: n_max, the maximum number of samples in one global update. None: N⌊T/B⌋, by the schedule;
    #: give a number where clients start with samples (`Client.absorb`)
    batch_limit: int | None = None

    def __post_init__(self) -> None:
        integer("updates", self.updates)
        if self.batch_limit is not None:
            integer("batch_limit", self.batch_limit)

    def gamma(self, setting: Setting) -> float:
        """Return γ (simpler than the paper's: it follows from strong convexity, erratum 5)."""
        problem = setting.problem
        if self.batch_limit is not None:
            n_max = self.batch_limit
        elif setting.horizon is not None:
            n_max = max(setting.clients * (setting.horizon // self.updates), 1)
        else:
            allowed = "the maximum number of samples in one update, without a horizon"
            raise InvalidInput("batch_limit", None, allowed)
        return problem.c_mu / (gradient_bound(setting) ** 2 * n_max)


def gradient_bound(setting: Setting) -> float:
    """Return G, a bound on |μ(xᵀθ) − y| for all θ in the ball (docs/theory.md, section 2.4).

    For unbounded rewards it is 2k_μS + R√(2 log(2NT/δ)), which holds for all Gaussian rewards of a
    run at once with probability at least 1 − δ.
    """
    problem = setting.problem
    low, high = problem.link.support
    if math.isfinite(low) and math.isfinite(high):
        means = problem.link.mean(-problem.S), problem.link.mean(problem.S)
        return max(high - means[0], means[1] - low)
    if setting.horizon is None:
        allowed = "the number of steps T, for the bound G of unbounded rewards"
        raise InvalidInput("horizon", None, allowed)
    tail = math.sqrt(2.0 * math.log(2.0 * setting.clients * setting.horizon / setting.delta))
    return 2.0 * problem.k_mu * problem.S + problem.R * tail


@dataclass(frozen=True)
class LazyOns(LocalUpdate[LazyOnsState]):
    """One online Newton step of size 1/γ per sample; the ellipsoid is V's, centred at V⁻¹b.

    The steps use the covariance of gradients, A = λI + Σ ∇F ∇Fᵀ; V is the arms'.

    Li and Wang (2022), Algorithm 6 (FedGLB-UCB₃), with erratum 5; docs/theory.md, section 2.4.
    """

    stored_name = "LazyOns"

    state_type = LazyOnsState
    step = staticmethod(lazy_ons_step)
    model_fields = frozenset({"theta", "b", "gradient_matrix"})
    rate: LazyRate  # source of the step size 1/γ, as in the global update

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
