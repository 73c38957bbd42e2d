"""Online Newton steps on a client's own samples: the local update of FedGLB-UCB."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.errors import one_of
from fedglb.kernels.ball import project
from fedglb.kernels.jit import kernel
from fedglb.kernels.linalg import add_sample, dot, matvec, quadratic
from fedglb.kernels.types import FloatArray
from fedglb.local_update.base import LocalState, LocalUpdate, adopt_matrix, recentre
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting


@kernel
def newton_move(
    A: FloatArray,
    A_inv: FloatArray,
    theta: FloatArray,
    x: FloatArray,
    residual: float,
    rate: float,
    S: float,
) -> float:
    """θ ← projection of θ − (1/rate) A⁻¹∇l onto the ball, ∇l = residual·x; return ‖∇l‖²_{A⁻¹}."""
    direction = np.empty(x.shape[0])
    matvec(A_inv, x, direction)
    for j in range(x.shape[0]):
        theta[j] -= residual / rate * direction[j]
    project(A, S, theta)
    return residual * residual * dot(x, direction)


@kernel
def predict(A_inv: FloatArray, b: FloatArray, centre: FloatArray, x: FloatArray, z: float) -> None:
    """Enter the prediction z of xᵀθ into b, and move the centre to A⁻¹b."""
    for j in range(x.shape[0]):
        b[j] += x[j] * z
    matvec(A_inv, b, centre)


@kernel
def ons_step(
    A: FloatArray,
    A_inv: FloatArray,
    theta: FloatArray,
    b: FloatArray,
    centre: FloatArray,
    x: FloatArray,
    z: float,
    residual: float,
    c: float,
    S: float,
    count: int,
) -> tuple[float, float]:
    """One step of Algorithm 2 in place, with z = xᵀθ and residual = μ(z) − y before it.

    Return the gain of log det A and ‖∇l‖²_{A⁻¹}, both with A after x was added.
    """
    gain = add_sample(A, A_inv, x, 1.0, count)
    gradient_norm = newton_move(A, A_inv, theta, x, residual, c, S)
    predict(A_inv, b, centre, x, z)
    return gain, gradient_norm


@dataclass
class OnsState(LocalState):
    """State of a client that learns by online Newton steps.

    Attributes
    ----------
    b
        Σ x (predicted xᵀθ) over the samples of A, shape (d,).
    squares
        ‖z‖², the sum of squares of those predictions.
    gradient_norms
        Σ ‖∇l‖²_{A_s⁻¹} over the samples since the last model.
    base_b, base_squares
        b and ‖z‖² right after the last model.
    """

    b: FloatArray
    squares: float
    gradient_norms: float
    base_b: FloatArray
    base_squares: float


@dataclass(frozen=True)
class Ons(LocalUpdate[OnsState]):
    """Online Newton steps; the ellipsoid is centred at A⁻¹b.

    Parameters
    ----------
    b_rule
        What b is after a global update. "refit" (default): (A_t − (λ/c)I)θ_t, every past
        prediction is θ_t's, as the ellipsoid lemma needs. "printed": the paper's
        b_last + ΔA θ_t (erratum 2; no proof, more regret).
    """

    state_type = OnsState
    b_rule: str = "refit"

    def __post_init__(self) -> None:
        one_of("b_rule", self.b_rule, ("refit", "printed"))

    def caveats(self) -> tuple[str, ...]:
        """Return that the printed rule has no proof."""
        if self.b_rule == "refit":
            return ()
        return ("the paper's printed rule for b: the radius is not proven (erratum 2)",)

    def prior(self, setting: Setting) -> float:
        """Return λ/c."""
        return setting.ridge / setting.problem.c_mu

    def begin(self, setting: Setting) -> OnsState:
        """Return the state before any sample."""
        d = setting.problem.dim
        return OnsState(
            **vars(self._begin(setting)),
            b=np.zeros(d),
            squares=0.0,
            gradient_norms=0.0,
            base_b=np.zeros(d),
            base_squares=0.0,
        )

    def observe(self, setting: Setting, state: OnsState, samples: Samples, index: int) -> None:
        """One online Newton step."""
        problem = setting.problem
        x = samples.X[index]
        z = dot(x, state.theta)
        residual = problem.link.mean(z) - float(samples.y[index])
        gain, gradient_norm = ons_step(
            state.matrix, state.inverse, state.theta, state.b, state.centre,
            x, z, residual, problem.c_mu, problem.S, state.updates,
        )  # fmt: skip
        state.log_gain += gain
        state.gradient_norms += gradient_norm
        state.squares += z * z
        state.updates += 1

    def adopt(self, setting: Setting, state: OnsState, model: SharedModel) -> None:
        """Hold θ_t, A_t and the b that goes with them."""
        assert model.theta is not None
        if self.b_rule == "refit" or state.base is None:
            covered = model.matrix - self.prior(setting) * np.eye(setting.problem.dim)
            state.base_b[:], state.base_squares = 0.0, 0.0
        else:
            covered = model.matrix - state.base.matrix
        predicted = np.empty(setting.problem.dim)
        matvec(covered, model.theta, predicted)
        state.base_b += predicted
        state.base_squares += quadratic(covered, model.theta)
        adopt_matrix(state, model)
        state.b[:] = state.base_b
        state.squares = state.base_squares
        state.gradient_norms = 0.0
        recentre(state, state.b)
