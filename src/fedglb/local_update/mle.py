"""The exact maximum-likelihood estimate over the ball after every sample.

All samples are linearised at one anchor θ_a: Φ's gradient and Hessian there change by one
term when a sample comes in, and the minimiser over the ball of the quadratic model is the new
estimate. Self-concordance bounds what the model leaves out, hence Φ(θ) − min Φ; as long as
that proves F(θ) − min F ≤ 1/n² nothing else is needed. Otherwise one pass over the samples
moves the anchor to θ. A pass is due after a number of samples that grows like n, so n = 400,000
takes a few hundred passes, and memory never holds more than the samples and d×d matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput, number
from fedglb.kernels.ball import minimise_quadratic
from fedglb.kernels.jit import call1, kernel
from fedglb.kernels.linalg import add_outer, add_sample, dot, invert, matvec, norm, quadratic
from fedglb.kernels.self_concordance import newton_gap, safe_step, taylor_excess
from fedglb.kernels.sums import add_derivatives, sum_loss
from fedglb.kernels.types import FloatArray
from fedglb.local_update.base import LocalState, LocalUpdate
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting

_MAX_PASSES = 200


@kernel
def remainder_gap(
    H: FloatArray, delta: FloatArray, nu: float, theta: FloatArray, S: float, s: float, floor: float
) -> float:
    """Bound Φ(θ) − min over the ball, θ the minimiser of the model at distance `delta`.

    The Lagrangian's gradient at θ is the remainder r, ‖r‖_{H⁻¹} ≤ ψ(sD)‖Δ‖_H, and its Hessian
    there is at least e^{−sD}H, with D = ‖Δ‖; `floor` bounds λ_min(H) from below.
    """
    length = norm(delta)
    stretch = math.exp(s * length)
    decrement = math.sqrt(stretch * quadratic(H, delta)) * taylor_excess(s * length)
    slack = 0.5 * nu * max(S * S - dot(theta, theta), 0.0)
    return newton_gap(decrement, s, floor / stretch) + slack


@kernel
def move_anchor(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    anchor: FloatArray,
    H: FloatArray,
    w: FloatArray,
    gradient: FloatArray,
    ridge: float,
    mean: int,
    variance: int,
) -> float:
    """One pass over the samples: linearise at θ; return 1/tr(H⁻¹), a lower bound on λ_min(H)."""
    d = theta.shape[0]
    gradient[:] = 0.0
    H[:] = 0.0
    add_derivatives(X, y, theta, mean, variance, gradient, H, True)
    for j in range(d):
        gradient[j] += ridge * theta[j]
        H[j, j] += ridge
        anchor[j] = theta[j]
    matvec(H, anchor, w)
    for j in range(d):
        w[j] -= gradient[j]
    inverse = np.empty((d, d))
    invert(H, inverse)
    trace = 0.0
    for j in range(d):
        trace += inverse[j, j]
    return 1.0 / trace


@kernel
def halve_until_lower(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    anchor: FloatArray,
    delta: FloatArray,
    ridge: float,
    cumulant: int,
) -> float:
    """Cut θ = anchor + Δ back until Φ is no higher than at the anchor; return the step's length."""
    start = sum_loss(X, y, anchor, cumulant) + 0.5 * ridge * dot(anchor, anchor)
    start += 1e-12 * (1.0 + abs(start))  # rounding
    length = 1.0
    while length > 1e-9:
        if sum_loss(X, y, theta, cumulant) + 0.5 * ridge * dot(theta, theta) <= start:
            break
        length *= 0.5
        for j in range(theta.shape[0]):
            theta[j] = anchor[j] + length * delta[j]
    return length


@kernel
def mle_step(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    anchor: FloatArray,
    H: FloatArray,
    w: FloatArray,
    A_inv: FloatArray,
    ridge: float,
    S: float,
    s: float,
    c: float,
    floor: float,
    tolerance: float,
    mean: int,
    variance: int,
    cumulant: int,
) -> tuple[float, int]:
    """Take in the last row of X in place; return a bound on λ_min(H) and the passes made.

    The passes are −1 where the tolerance was not reached.

    H is Φ's Hessian at the anchor and w = H·anchor − gradient there, before the sample.
    `tolerance` bounds Φ(θ) − min Φ. s < 0 means that no self-concordance is known: then every
    iterate is certified by a pass, with Q = λI + c M ⪰ c A, and a step is halved until Φ falls.
    """
    n, d = X.shape
    x = X[n - 1]
    z = dot(x, anchor)
    slope = call1(variance, z)
    residual = call1(mean, z) - y[n - 1]
    add_outer(H, x, slope)
    for j in range(d):
        w[j] += x[j] * (slope * z - residual)
    gradient = np.empty(d)
    delta = np.empty(d)
    passes = 0
    while True:
        nu = minimise_quadratic(H, w, S, theta)
        for j in range(d):
            delta[j] = theta[j] - anchor[j]
        stuck = norm(delta) <= 1e-15 * (1.0 + norm(anchor))
        if s >= 0.0:
            length = safe_step(s * norm(delta))
            if length == 1.0:
                if remainder_gap(H, delta, nu, theta, S, s, floor) <= tolerance:
                    return floor, passes
            else:
                for j in range(d):
                    theta[j] = anchor[j] + length * delta[j]
        elif halve_until_lower(X, y, theta, anchor, delta, ridge, cumulant) < 1.0:
            nu = 0.0
        if stuck:  # nothing left to gain in double precision
            return floor, passes
        if passes == _MAX_PASSES:
            return floor, -1
        floor = move_anchor(X, y, theta, anchor, H, w, gradient, ridge, mean, variance)
        passes += 1
        if s < 0.0:
            for j in range(d):
                gradient[j] += nu * theta[j]
            slack = 0.5 * nu * max(S * S - dot(theta, theta), 0.0)
            if 0.5 * quadratic(A_inv, gradient) / c + slack <= tolerance:
                return floor, passes


@dataclass
class MleState(LocalState):
    """State of a client that refits after every sample; the centre is θ.

    Attributes
    ----------
    anchor
        Where the samples are linearised, shape (d,).
    hessian, target
        Φ's Hessian H at the anchor, and H·anchor − gradient; shapes (d, d) and (d,).
    floor
        A lower bound on the smallest eigenvalue of H.
    passes
        Passes over all samples so far.
    """

    anchor: FloatArray
    hessian: FloatArray
    target: FloatArray
    floor: float
    passes: int


@dataclass(frozen=True)
class Mle(LocalUpdate[MleState]):
    """The minimiser of F over the ball, certified to `tolerance` (None: 1/n²)."""

    state_type = MleState
    model_fields = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0.0)

    def prior(self, setting: Setting) -> float:
        """Return λ/c."""
        return setting.ridge / setting.problem.c_mu

    def begin(self, setting: Setting) -> MleState:
        """Return the state before any sample."""
        d = setting.problem.dim
        return MleState(
            **vars(self._begin(setting)),
            anchor=np.zeros(d),
            hessian=setting.ridge * np.eye(d),
            target=np.zeros(d),
            floor=setting.ridge,
            passes=0,
        )

    def observe(self, setting: Setting, state: MleState, samples: Samples, index: int) -> None:
        """Refit with the samples up to `index`."""
        problem, n = setting.problem, index + 1
        X = samples.X[:n]
        state.log_gain += add_sample(state.matrix, state.inverse, X[index], 1.0, state.updates)
        state.updates += 1
        s = problem.link.self_concordance(problem.S)
        epsilon = 1.0 / n**2 if self.tolerance is None else self.tolerance
        state.floor, passes = mle_step(
            X, samples.y[:n], state.theta, state.anchor, state.hessian, state.target, state.inverse,
            setting.ridge, problem.S, -1.0 if s is None else s,
            min(problem.c_mu, problem.slope_infimum), state.floor, n * epsilon,
            problem.link.compiled_mean.address, problem.link.compiled_variance.address,
            problem.link.compiled_cumulant.address,
        )  # fmt: skip
        if passes < 0:
            raise InvalidInput(
                "tolerance", epsilon,
                f"one that can be reached: the exact fit of {n} samples did not in {_MAX_PASSES} "
                "passes (a larger ridge or a smaller radius makes the problem easier)",
            )  # fmt: skip
        state.passes += passes
        state.centre[:] = state.theta

    def adopt(self, setting: Setting, state: MleState, model: SharedModel) -> None:
        """Refuse: a refit over the client's own samples has no use for a shared model."""
        raise InvalidInput("trigger", "one that fires", "Never() with the local update Mle()")
