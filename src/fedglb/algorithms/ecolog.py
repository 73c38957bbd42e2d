"""ECOLog (Faury et al., 2022): one learner of logistic rewards, at a constant cost per sample.

A step minimises (1/(2+D))‖θ − θ_t‖²_W + l(xᵀθ, y) over the ball. Its solution is θ(r), the
minimiser of the quadratic part plus r·xᵀθ, for the r with r = μ(xᵀθ(r)) − y: a root in one
dimension, because μ(xᵀθ(r)) falls with r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SIMULATED, documented
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
from fedglb.kernels.linalg import add_sample, dot, matvec, norm, quadratic, symmetric_matvec
from fedglb.kernels.pointers import call1
from fedglb.links import Logistic
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import Confidence, ConfidenceLike
from fedglb.parts.local_update.base import Counter, HessianUpdate, LocalState, Vector
from fedglb.parts.trigger import Never
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

_MAX_STEPS = 200
#: Places in `vectors` and `counters`, behind those of every state.
DIRECTION = 2
EXCESS, MOVED = 3, 4
#: The only place in the constants of `ecolog_step`: S.
BALL = 0


@kernel
def pulled(
    r: float,
    W: FloatArray,
    theta: FloatArray,
    direction: FloatArray,
    x: FloatArray,
    S: float,
    out: FloatArray,
) -> float:
    """Write argmin (1/(2+2S))‖θ' − θ‖²_W + r·xᵀθ' over the ball to `out`; return xᵀ of it.

    `direction` is W⁻¹x.
    """
    d, half = x.shape[0], 1.0 + S
    for j in range(d):
        out[j] = theta[j] - half * r * direction[j]
    if norm(out) > S:
        w = np.empty(d)
        matvec(W, theta, w)
        for j in range(d):
            w[j] -= half * r * x[j]
        minimise_quadratic(W, w, S, out)
    return dot(x, out)


@kernel
def regularised_step(
    weight: float,
    target: float,
    W: FloatArray,
    theta: FloatArray,
    direction: FloatArray,
    x: FloatArray,
    S: float,
    mean: int,
    out: FloatArray,
) -> None:
    """Write argmin (1/(2+2S))‖θ' − θ‖²_W + weight·m(xᵀθ') − target·xᵀθ' over the ball to `out`.

    r = weight·μ(xᵀθ(r)) − target has its root between 0 and the r of θ itself. It is found by false
    position with the Illinois rule.
    """
    high = weight * call1(mean, dot(x, theta)) - target
    low, at_low = 0.0, high
    at_high = weight * call1(mean, pulled(high, W, theta, direction, x, S, out)) - target - high
    side = 0
    for _ in range(_MAX_STEPS):
        if at_high == 0.0 or at_low == at_high:
            return  # θ itself, or the first step: `out` is of `high`
        r = (low * at_high - high * at_low) / (at_high - at_low)
        if r in (low, high):  # no double is left between, and this end is the root
            pulled(r, W, theta, direction, x, S, out)
            return
        value = weight * call1(mean, pulled(r, W, theta, direction, x, S, out)) - target - r
        if abs(value) <= 4e-16 * (abs(target) + abs(r)):
            return
        if (value > 0.0) == (at_high > 0.0):
            high, at_high = r, value
            at_low *= 0.5 if side == 1 else 1.0
            side = 1
        else:
            low, at_low = r, value
            at_high *= 0.5 if side == 2 else 1.0
            side = 2


@kernel
def ecolog_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Learn from the last row of X and y, and update the two sums for the radius."""
    n, d, S = X.shape[0] - 1, X.shape[1], constants[BALL]
    x, W, theta, direction = X[n], matrices[MATRIX], vectors[THETA], vectors[DIRECTION]
    mean, cumulant = functions[MEAN], functions[CUMULANT]
    symmetric_matvec(matrices[INVERSE], x, direction)
    ahead, new = np.empty(d), np.empty(d)
    # The losses of both rewards, 0 and 1, together: θ̄ is known before the reward is.
    regularised_step(2.0, 2.0 * call1(mean, 0.0), W, theta, direction, x, S, mean, ahead)
    regularised_step(1.0, y[n], W, theta, direction, x, S, mean, new)
    z_ahead, z = dot(x, ahead), dot(x, new)
    counters[EXCESS] += call1(cumulant, z_ahead) - call1(cumulant, z) - y[n] * (z_ahead - z)
    for j in range(d):
        ahead[j] = new[j] - theta[j]
        theta[j] = new[j]
        vectors[CENTRE, j] = new[j]
    counters[MOVED] += quadratic(W, ahead)
    slope, count = call1(functions[VARIANCE], z), int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(W, matrices[INVERSE], x, slope, count, direction)
    counters[UPDATES] += 1.0
    return 0


@dataclass
class EcoLogState(LocalState):
    """State of a client that learns by ECOLog: θ, W = λI + Σ μ′(xᵀθ_s) x xᵀ; the centre is θ.

    θ_s is the estimate after sample s.
    """

    direction = Vector(DIRECTION)  # W⁻¹x of the last sample
    #: Σ l_s(θ̄_s) − l_s(θ_s), θ̄_s being known before the reward of sample s
    excess = Counter(EXCESS)
    moved = Counter(MOVED)  # Σ ‖θ_s − θ_{s−1}‖² in the norm of W before sample s


@dataclass(frozen=True)
class EcoLog(HessianUpdate[EcoLogState]):
    """One step on the exact loss of each sample, regularised in the norm of past curvatures.

    The step is solved to rounding, where the paper allows an error of 1/t.

    Faury et al. (2022), section 3 (the procedure ECOLog, with D = 2S, the diameter of the ball);
    the weight 1/(2+D) was checked against the step size in the authors' program, not against the
    printed text. docs/theory.md, section 9.2.
    """

    stored_name = "EcoLog"

    state_type = EcoLogState
    step = staticmethod(ecolog_step)
    model_fields = None

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return S."""
        return in_order({BALL: setting.problem.S})


#: Places in the constants of `ecolog_formula`: λS², 2 + 2S, log(N/δ).
PRIOR, SCALE, DEPTH = range(3)


@kernel
def ecolog_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """α² = λS² + (2+2S)(log(N/δ) + Σ l(θ̄_s) − l(θ_s)) − Σ‖θ_s − θ_{s−1}‖²; √λS without samples."""
    square = constants[PRIOR]
    if counters[UPDATES] > 0.0:
        square += constants[SCALE] * (constants[DEPTH] + counters[EXCESS]) - counters[MOVED]
    return math.sqrt(max(square, 0.0))


@dataclass(frozen=True)
class EcoLogSet(Confidence[EcoLogState]):
    """The radius around ECOLog's estimate that depends on the data, for the logistic link.

    It needs neither a warm-up nor the paper's test of the data: these serve to bound the radius
    beforehand, and with it the regret.

    Faury et al. (2022), section 4 (ada-OFU-ECOLog has a radius that depends on the data). The paper
    bounds Σ l_s(θ*) − l_s(θ̄_s) by a tail inequality; here it is log(N/δ), by Ville's inequality:
    docs/theory.md, section 9.2 (Theorem 32).
    """

    stored_name = "EcoLogSet"

    state_type = EcoLogState
    formula = staticmethod(ecolog_formula)
    sub_gaussian = False

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return λS², 2 + 2S and log(N/δ)."""
        S = setting.problem.S
        return in_order({
            PRIOR: setting.ridge * S * S, SCALE: 2.0 + 2.0 * S,
            DEPTH: math.log(setting.clients) - math.log(setting.delta),
        })  # fmt: skip

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not claimed: coverage for other links, the paper's regret bound."""
        if not isinstance(problem.link, Logistic):
            return (
                f"ECOLog is for logistic rewards: no coverage is claimed for {problem.link.name}",
            )
        return ("ECOLog without its warm-up: the set is proven, the paper's regret bound is not",)


@documented(
    returns=SIMULATED,
    ridge="λ > 0, the multiple of the identity that W starts from.",
    radius="`EcoLogSet`",
)
def one_ecolog(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """One-ECOLog: one learner sees all clients' samples, and takes a step of ECOLog on each.

    It needs no messages; its ledger counts as that of `one_ucb_glm`.

    References
    ----------
    Faury, Abeille, Jun and Calauzènes (2022), *Jointly efficient and optimal algorithms for
    logistic bandits*, AISTATS; docs/theory.md, section 9.2.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ecolog().centralised
    True
    """
    each = n_ecolog(exploration, ridge, delta, confidence, choice)
    return replace(each, name="One-ECOLog", centralised=True)


@documented(
    ridge="λ > 0, the multiple of the identity that W starts from.",
    radius="`EcoLogSet`, with δ/N per client",
)
def n_ecolog(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """N-ECOLog: every client learns alone, by a step of ECOLog on each of its own samples.

    References
    ----------
    Faury, Abeille, Jun and Calauzènes (2022), *Jointly efficient and optimal algorithms for
    logistic bandits*, AISTATS; docs/theory.md, section 9.2.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ecolog().trigger
    Never()
    """
    return Algorithm(
        name="N-ECOLog",
        local_update=EcoLog(),
        global_update=None,
        trigger=Never(),
        confidence=EcoLogSet() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
