"""Newton steps on a loss that is linearised at the last shared model: exact, and no projection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.errors import integer
from fedglb.kernels.compile import kernel
from fedglb.kernels.effects import (
    BUCKET_COUNT,
    BUCKETS,
    CROSS,
    EFFECT,
    EFFECT_RIDGE,
    PRECISION,
    ROWS,
    TABLE,
    TARGET,
    UNIT,
    WEIGHT,
    bucket,
    fill_table,
    row_of,
)
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
from fedglb.kernels.sums import at_least_secant
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

#: More effects than this need more memory per client than they are worth.
MOST_EFFECTS = 2**16
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

    A row with one number more has the name of its arm, whose effect is learned, too. The constant
    is μ(0), or not a number: then a sample's weight is μ′(z).

    With p = P_new x the solution moves by −p(μ(z) − y + μ′(z) xᵀ(θ_i − θ_t)), z = xᵀθ_t: the
    exact minimum of the loss linearised at θ_t (docs/theory.md, section 7.5).
    """
    n, d = X.shape[0] - 1, vectors.shape[1]
    if X.shape[1] > d and X[n, d] >= 0.0:
        shifted = np.empty(d)
        step_with_effect(vectors, matrices, counters, X[n], y[n], functions, constants, shifted)
    else:
        step_without(vectors, matrices, counters, X[n, :d], y[n], functions, constants)
    return 0


@kernel
def step_without(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    x: FloatArray,
    y: float,
    functions: IntArray,
    constants: FloatArray,
) -> float:
    """Do as `anchored_step` does for an arm without an effect; return the sample's weight."""
    d, theta, anchor = vectors.shape[1], vectors[THETA], vectors[ANCHOR]
    gradient, direction = vectors[GRADIENT], vectors[DIRECTION]
    count = int(counters[UPDATES])
    z = dot(x, anchor)
    mean = call1(functions[MEAN], z)
    weight = at_least_secant(z, mean, call1(functions[VARIANCE], z), constants[0])
    residual = mean - y
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
        solve_again(vectors, matrices, counters)
    centre = vectors[CENTRE]
    for j in range(d):  # not one assignment: numba would compile its error's text too
        centre[j] = theta[j]
    return float(weight)


@kernel
def step_with_effect(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    x: FloatArray,
    y: float,
    functions: IntArray,
    constants: FloatArray,
    shifted: FloatArray,
) -> float:
    """Do as `anchored_step` does for an arm that has an effect; return κ, and write x̃ to `shifted`.

    The Schur complement S of θ's block gains κ x̃ x̃ᵀ, with x̃ = x − b/D and κ = μ′D/(D + μ′), and
    P_new's column of the sample has the part S⁻¹x̃·D/(D + μ′) for θ.
    """
    d = vectors.shape[1]
    theta, anchor = vectors[THETA], vectors[ANCHOR]
    gradient, direction = vectors[GRADIENT], vectors[DIRECTION]
    count, table = int(counters[UPDATES]), counters[TABLE:]
    key = bucket(float(x[d]), counters[BUCKET_COUNT])
    at = row_of(table, d + CROSS, key, counters[EFFECT_RIDGE])
    D = table[at + PRECISION]
    z, now, square = table[at + EFFECT], table[at + TARGET] / D, 0.0
    for j in range(d):
        shifted[j] = x[j] - table[at + CROSS + j] / D
        z += x[j] * anchor[j]
        now += shifted[j] * theta[j]
        square += x[j] * x[j]
    mean = call1(functions[MEAN], z)
    weight = at_least_secant(z, mean, call1(functions[VARIANCE], z), constants[0])
    residual = mean - y
    error = residual + weight * (now - z)
    ratio = D / (D + weight)
    counters[LOG_GAIN] += add_sample(  # what is learned of θ: effects alone ask for no update
        matrices[MATRIX], matrices[INVERSE], shifted, weight * ratio, count, direction
    )
    counters[TRACE] += weight * square
    counters[UPDATES] += 1.0
    counters[WEIGHT] += weight
    table[at + PRECISION] += weight
    table[at + TARGET] += weight * z - residual
    for j in range(d):
        table[at + CROSS + j] += weight * x[j]
        gradient[j] += residual * x[j]
        theta[j] -= error * ratio * direction[j]
    if refreshed(count):
        solve_again(vectors, matrices, counters)
    for j in range(d):
        vectors[CENTRE, j] = theta[j]
    return float(weight * ratio)


@kernel
def solve_again(vectors: FloatArray, matrices: FloatArray, counters: FloatArray) -> None:
    """Write θ_t − P G to θ: with effects, S⁻¹ of G less Σ b G_a/D, G_a = Du + bᵀθ_t − f."""
    d = vectors.shape[1]
    theta, anchor, pull = vectors[THETA], vectors[ANCHOR], np.empty(d)
    for j in range(d):
        pull[j] = vectors[GRADIENT, j]
    rows = int(counters[TABLE]) if counters.shape[0] > TABLE else 0
    for row in range(rows):
        at = TABLE + ROWS + row * (d + CROSS)
        D = counters[at + PRECISION]
        own = D * counters[at + EFFECT] - counters[at + TARGET]
        for j in range(d):
            own += counters[at + CROSS + j] * anchor[j]
        for j in range(d):
            pull[j] -= counters[at + CROSS + j] * own / D
    matvec(matrices[INVERSE], pull, theta)
    for j in range(d):
        theta[j] = anchor[j] - theta[j]


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

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return μ(0) where weights are at least the secants; else not a number."""
        return (setting.mean_at_zero,)

    def adopt(self, setting: Setting, state: AnchoredState, model: SharedModel) -> None:
        """Take over θ_t and H + ℓI; θ_i is θ_t."""
        assert model.theta is not None
        adopt_matrix(state, model)
        state.anchor[:] = model.theta
        state.centre[:] = model.theta
        state.gradient[:] = 0.0
        state.direction[:] = 0.0
        state.trace = 0.0


@dataclass(frozen=True)
class Calibrated(Anchored):
    """`Anchored` for rules that choose by the posterior.

    A sample's weight in H is the larger of μ′(z) and the secant (μ(z) − μ(0))/z, that of Jaakkola
    and Jordan's quadratic bound: where the link is flat, many samples of one arm still make its
    prediction certain. Arms that recur have an effect of their own beside xᵀθ.

    Parameters
    ----------
    effects
        The number of arms that can have an effect of their own; more than that share effects. 0:
        no effects.

    Raises
    ------
    InvalidInput
        If `effects` is not a whole number from 0 to 65,536.

    References
    ----------
    Jaakkola and Jordan (2000), Bayesian parameter estimation via variational methods;
    docs/theory.md, section 7.12.
    """

    stored_name = "Calibrated"

    effects: int = 1024

    def __post_init__(self) -> None:
        integer("effects", self.effects, at_least=0, at_most=MOST_EFFECTS)

    def begin(self, setting: Setting) -> AnchoredState:
        """Return the state before any sample; with effects, their table is empty."""
        state = super().begin(setting)
        if setting.effect_ridge:
            room = np.zeros(TABLE + ROWS + self.effects * (setting.problem.dim + CROSS))
            room[: state.counters.size] = state.counters
            room[EFFECT_RIDGE], room[BUCKET_COUNT] = setting.effect_ridge, BUCKETS
            room[UNIT] = setting.problem.link.variance(0.0)
            state.counters = room
        return state

    def counters_in_use(self, state: AnchoredState) -> int:
        """Return the counters up to the last row of the table of effects."""
        if state.counters.size <= TABLE:
            return super().counters_in_use(state)
        width = state.theta.size + CROSS
        return TABLE + ROWS + int(state.counters[TABLE]) * width

    def adopt(self, setting: Setting, state: AnchoredState, model: SharedModel) -> None:
        """Take over θ_t, H + ℓI and the effects; θ_i is θ_t."""
        super().adopt(setting, state, model)
        if model.effects is not None:
            assert model.theta is not None
            fill_table(state.counters, model.effects, model.theta)
