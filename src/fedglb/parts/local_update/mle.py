"""The exact maximum-likelihood estimate over the ball after every sample.

All samples are linearised at one anchor θ_a: Φ's gradient and Hessian there change by one
term when a sample comes in, and the minimiser over the ball of the quadratic model is the new
estimate. Self-concordance bounds what the model leaves out, hence Φ(θ) − min Φ; as long as
that proves F(θ) − min F ≤ 1/n² nothing else is needed. Otherwise one pass over the samples
moves the anchor to θ. The same bound on the remainder is what the radius pays for a fit that
is not exact. A pass is due after a number of samples that grows like n, so n = 400,000
takes a few hundred passes, and memory never holds more than the samples and d×d matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedglb.errors import InvalidInput, number
from fedglb.kernels.ball import minimise_quadratic
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import (
    CENTRE,
    CUMULANT,
    INVERSE,
    LOG_GAIN,
    MATRIX,
    MEAN,
    THETA,
    UPDATES,
    VARIANCE,
    in_order,
)
from fedglb.kernels.linalg import (
    add_outer,
    add_sample,
    dot,
    invert,
    matvec,
    norm,
    quadratic,
    set_matrix,
    set_vector,
)
from fedglb.kernels.pointers import call1
from fedglb.kernels.sums import add_derivatives, sum_loss
from fedglb.parts.local_update.base import Count, Counter, LocalState, LocalUpdate, Matrix, Vector
from fedglb.parts.self_concordance import newton_gap, safe_step, taylor_excess
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

_MAX_PASSES = 200
#: Places in `vectors`, `matrices` and `counters`, behind those of every state.
ANCHOR, TARGET, DIRECTION = 2, 3, 4
HESSIAN = 2
FLOOR, PASSES, RESIDUAL, MULTIPLIER = 3, 4, 5, 6
#: Places in the constants of `mle_observe`: λ, S, s (−1: none is known), a lower bound on μ′ on
#: the ball, ε (0: 1/n²), an upper bound on μ′ on the ball.
RIDGE, BALL, CONCORDANCE, SLOPE, TOLERANCE, STEEPEST = range(6)


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
def remainder_norm(
    H: FloatArray, delta: FloatArray, s: float, steepest: float, ridge: float
) -> float:
    """Bound ‖r‖_{A⁻¹} of the same r = Σϱx: ‖Σϱx‖²_{A⁻¹} ≤ Σϱ² ≤ ψ(sD)²·k·Σμ′h², h = xᵀΔ.

    `steepest` is k, a bound on μ′ of all samples at the anchor.
    """
    length = norm(delta)
    of_samples = quadratic(H, delta) - ridge * length * length  # Σμ′h²: ‖Δ‖²_H without the ridge
    return taylor_excess(s * length) * math.sqrt(steepest * max(of_samples, 0.0))


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
    functions: IntArray,
) -> float:
    """One pass over the samples: linearise at θ; return 1/tr(H⁻¹), a lower bound on λ_min(H)."""
    d = theta.shape[0]
    set_vector(gradient, 0.0)
    set_matrix(H, 0.0)
    add_derivatives(X, y, theta, functions, gradient, H, True)
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
    once = np.empty(0)
    start = sum_loss(X, y, once, anchor, cumulant) + 0.5 * ridge * dot(anchor, anchor)
    start += 1e-12 * (1.0 + abs(start))  # rounding
    length = 1.0
    while length > 1e-9:
        if sum_loss(X, y, once, theta, cumulant) + 0.5 * ridge * dot(theta, theta) <= start:
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
    k: float,
    floor: float,
    tolerance: float,
    functions: IntArray,
) -> tuple[float, float, float, int]:
    """Take in the last row of X in place; return the bound on the fit, and the number of passes.

    That is a bound on ‖∇Φ(θ) + νθ‖_{A⁻¹}, the multiplier ν, a lower bound on λ_min(H), and the
    passes: −1 where the tolerance was not reached.

    H is Φ's Hessian at the anchor and w = H·anchor − gradient there, before the sample.
    `tolerance` bounds Φ(θ) − min Φ, and c ≤ μ′ ≤ k on the ball. s < 0 means that no
    self-concordance is known: then every iterate is certified by a pass, with Q = λI + c M ⪰ c A,
    and a step is halved until Φ falls.
    """
    n, d = X.shape
    x = X[n - 1]
    z = dot(x, anchor)
    slope = call1(functions[VARIANCE], z)
    residual = call1(functions[MEAN], z) - y[n - 1]
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
        distance = norm(delta)
        if distance <= 1e-15 * (1.0 + norm(anchor)):  # nothing left to gain in double precision
            return k * math.sqrt(n) * distance, nu, floor, passes  # |ϱ| ≤ k|h| ≤ kD
        if s >= 0.0:
            length = safe_step(s * distance)
            if length == 1.0:
                if remainder_gap(H, delta, nu, theta, S, s, floor) <= tolerance:
                    # μ′(z) ≤ μ′(0)e^{s|z|}; from e^700 on, near overflow, k is the smaller
                    reach = math.exp(min(s * norm(anchor), 700.0))
                    steepest = min(k, call1(functions[VARIANCE], 0.0) * reach)
                    return remainder_norm(H, delta, s, steepest, ridge), nu, floor, passes
            else:
                for j in range(d):
                    theta[j] = anchor[j] + length * delta[j]
        elif halve_until_lower(X, y, theta, anchor, delta, ridge, functions[CUMULANT]) < 1.0:
            nu = 0.0
        if passes == _MAX_PASSES:
            return math.inf, nu, floor, -1
        floor = move_anchor(X, y, theta, anchor, H, w, gradient, ridge, functions)
        passes += 1
        if s < 0.0:
            for j in range(d):
                gradient[j] += nu * theta[j]
            slack = 0.5 * nu * max(S * S - dot(theta, theta), 0.0)
            square = quadratic(A_inv, gradient)
            if 0.5 * square / c + slack <= tolerance:
                return math.sqrt(max(square, 0.0)), nu, floor, passes


@kernel
def mle_observe(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Refit with the last sample; −1 where the tolerance was not reached."""
    n = X.shape[0]
    A_inv, theta = matrices[INVERSE], vectors[THETA]
    tolerance = constants[TOLERANCE]
    count = int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(
        matrices[MATRIX], A_inv, X[n - 1], 1.0, count, vectors[DIRECTION]
    )
    counters[UPDATES] += 1.0
    residual, nu, floor, passes = mle_step(
        X, y, theta, vectors[ANCHOR], matrices[HESSIAN], vectors[TARGET], A_inv,
        constants[RIDGE], constants[BALL], constants[CONCORDANCE], constants[SLOPE],
        constants[STEEPEST], counters[FLOOR],
        n * tolerance if tolerance > 0.0 else 1.0 / n,
        functions,
    )  # fmt: skip
    counters[FLOOR] = floor
    if passes < 0:
        return -1
    counters[PASSES] += passes
    counters[RESIDUAL] = residual
    counters[MULTIPLIER] = nu
    vectors[CENTRE] = theta
    return 0


@dataclass
class RefittingState(LocalState):
    """State of a client that refits after every sample; the centre is θ."""

    anchor = Vector(ANCHOR)  # where the samples are linearised, shape (d,)
    target = Vector(TARGET)  # H·anchor − gradient, shape (d,)
    hessian = Matrix(HESSIAN)  # Φ's Hessian H at the anchor, shape (d, d)
    floor = Counter(FLOOR)  # a lower bound on the smallest eigenvalue of H
    passes = Count(PASSES)  # passes over all samples so far
    residual = Counter(RESIDUAL)  # a bound on ‖∇Φ(θ) + νθ‖ in the norm of `inverse`
    multiplier = Counter(MULTIPLIER)  # ν of the ball


State = TypeVar("State", bound=RefittingState)


@dataclass(frozen=True)
class Refitting(LocalUpdate[State]):
    """Fit all own samples again after each one; subclasses define the matrix for choosing arms."""

    model_fields = None
    #: ε with F(θ) − min F ≤ ε after every sample; None: 1/n², n being the number of samples
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0.0)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return λ, S, s (−1: none is known), inf μ′ on the ball, ε (0: 1/n²), sup μ′."""
        problem = setting.problem
        s = problem.link.self_concordance(problem.S)
        return in_order({
            RIDGE: setting.ridge, BALL: problem.S, CONCORDANCE: -1.0 if s is None else s,
            SLOPE: min(problem.c_mu, problem.slope_infimum),
            TOLERANCE: 0.0 if self.tolerance is None else self.tolerance,
            STEEPEST: problem.k_mu,
        })  # fmt: skip

    def begin(self, setting: Setting) -> State:
        """Return the state before any sample."""
        state = super().begin(setting)
        state.hessian[:] = setting.ridge * np.eye(setting.problem.dim)
        state.floor = setting.ridge
        return state

    def failure(self, n: int) -> Exception:
        """Say that the tolerance is out of reach."""
        return InvalidInput(
            "tolerance", 1.0 / n**2 if self.tolerance is None else self.tolerance,
            f"a larger one: the exact fit of {n} samples missed it in {_MAX_PASSES} "
            "passes (a larger ridge or a smaller radius makes the problem easier)",
        )  # fmt: skip


@dataclass
class MleState(RefittingState):
    """State of a client that refits after every sample and chooses by A = (λ/c)I + Σ x xᵀ."""

    direction = Vector(DIRECTION)  # A⁻¹x of the last sample


@dataclass(frozen=True)
class Mle(Refitting[MleState]):
    """Fit all own samples again after each one: the minimiser of F over the ball, certified.

    docs/theory.md, section 5.
    """

    stored_name = "Mle"

    state_type = MleState
    step = staticmethod(mle_observe)
