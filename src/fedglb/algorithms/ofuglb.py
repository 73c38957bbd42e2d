"""OFUGLB (Lee, Yun and Jun, 2024): the exact fit, and an ellipsoid around likelihood ratios.

The Hessian of the loss is the matrix of the ellipsoid. At θ it would take a pass over all samples
each time. The one at the anchor θ_a is known, and times e^{−s‖θ − θ_a‖} it is at most that at θ,
by self-concordance. The factor goes to 1 as the fit gets closer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SIMULATED, documented
from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, MATRIX, MEAN, THETA, UPDATES, in_order
from fedglb.kernels.linalg import invert, norm
from fedglb.kernels.pointers import call1
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import Confidence, ConfidenceLike
from fedglb.parts.local_update.base import Counter
from fedglb.parts.local_update.mle import (
    ANCHOR,
    BALL,
    CONCORDANCE,
    FLOOR,
    HESSIAN,
    MULTIPLIER,
    PASSES,
    RESIDUAL,
    RIDGE,
    SLOPE,
    STEEPEST,
    TARGET,
    TOLERANCE,
    Refitting,
    RefittingState,
    mle_step,
    remainder_norm,
)
from fedglb.parts.trigger import Never
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: A place in `counters`, behind those of every fit.
LIPSCHITZ = 7


@kernel
def hessian_mle_observe(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Refit with the last sample, and set W = e^{−sD}Σμ′xxᵀ + (1+sS)λI, with μ′ at the anchor.

    D is the distance from the anchor. Returns −1 if the tolerance was not reached.
    """
    n, d = X.shape
    theta, anchor, H = vectors[THETA], vectors[ANCHOR], matrices[HESSIAN]
    W, W_inv = matrices[MATRIX], matrices[INVERSE]
    ridge, S, s = constants[RIDGE], constants[BALL], constants[CONCORDANCE]
    tolerance = constants[TOLERANCE]
    _, nu, floor, passes = mle_step(
        X, y, theta, anchor, H, vectors[TARGET], W_inv, ridge, S, s, constants[SLOPE],
        constants[STEEPEST], counters[FLOOR],
        n * tolerance if tolerance > 0.0 else 1.0 / n,
        functions,
    )  # fmt: skip
    counters[FLOOR] = floor
    if passes < 0:
        return -1
    counters[UPDATES] += 1.0
    counters[PASSES] += passes
    counters[MULTIPLIER] = nu
    highest, lowest = call1(functions[MEAN], S), call1(functions[MEAN], -S)
    counters[LIPSCHITZ] += max(highest - y[n - 1], y[n - 1] - lowest)
    delta = np.empty(d)
    for j in range(d):
        delta[j] = theta[j] - anchor[j]
        vectors[CENTRE, j] = theta[j]
    stretch = math.exp(s * norm(delta))
    # With r = Σϱx as in the MLE, ‖r‖_{W⁻¹} ≤ ψ(sD)‖Δ‖·e^{sD/2} in the norm of Σμ′xxᵀ ⪯ e^{sD}W.
    counters[RESIDUAL] = remainder_norm(H, delta, s, stretch, ridge)
    for i in range(d):
        for j in range(d):
            W[i, j] = H[i, j] / stretch
        W[i, i] += (1.0 + s * S - 1.0 / stretch) * ridge  # instead of the share that is in H
    return 0 if invert(W, W_inv) else -1


@dataclass
class HessianMleState(RefittingState):
    """State of a client that refits after every sample and chooses by a Hessian of the loss."""

    #: Σ max(μ(S) − y, y − μ(−S)): a bound on the loss's slope over the ball
    lipschitz = Counter(LIPSCHITZ)


@dataclass(frozen=True)
class HessianMle(Refitting[HessianMleState]):
    """Fit all own samples again after each one; the matrix is at most the loss's Hessian there.

    It is the Hessian at the last anchor, scaled down by its possible excess at θ. A smaller
    tolerance brings both together.

    docs/theory.md, sections 5 (the fit) and 9.3 (the matrix).
    """

    stored_name = "HessianMle"

    state_type = HessianMleState
    step = staticmethod(hessian_mle_observe)
    tracks_gain = False

    def prior(self, setting: Setting) -> float:
        """Return (1 + sS)λ."""
        problem = setting.problem
        s = problem.link.self_concordance(problem.S)
        if s is None:
            raise InvalidInput("link", problem.link, "a link with a known self_concordance")
        return (1.0 + s * problem.S) * setting.ridge

    def dispersion(self, setting: Setting) -> float:
        """Return the link's, because W is a Hessian of the loss."""
        return setting.problem.dispersion


#: Places in the constants of `ofuglb_formula`: λ, S, 1 + sS, log(N/δ), the dispersion.
SET_RIDGE, SET_BALL, CURVATURE, DEPTH, DISPERSION = range(5)


@kernel
def ofuglb_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """α = q + √(q² + 2(1+sS)(β² + ν‖θ‖(S − ‖θ‖) + λ(S² − ‖θ‖²)/2)), q = (1+sS)‖∇Φ + νθ‖_{W⁻¹}.

    β² = φ·(log(N/δ) + d·log(max(e, 2eSL/(φd)))) with the loss's Lipschitz constant L and the
    dispersion φ; 0 without samples.
    """
    d, S, unit = vectors.shape[1], constants[SET_BALL], constants[DISPERSION]
    length = norm(vectors[THETA])
    room = max(S - length, 0.0)
    excess = room * (counters[MULTIPLIER] * length + 0.5 * constants[SET_RIDGE] * (S + length))
    if counters[UPDATES] > 0.0:
        reach = 2.0 * S * counters[LIPSCHITZ] / (unit * d)
        excess += unit * (constants[DEPTH] + d * (1.0 + math.log(max(1.0, reach))))
    paid = constants[CURVATURE] * counters[RESIDUAL]
    return float(paid + math.sqrt(paid * paid + 2.0 * constants[CURVATURE] * excess))


@dataclass(frozen=True)
class OfuGlbSet(Confidence[HessianMleState]):
    """The ellipsoid around the likelihood-ratio set of Lee, Yun and Jun, in a Hessian's norm.

    It holds for all learners and steps together with probability 1 − δ, whatever the fit's
    residual. Neither c_μ nor R enter (R does for the identity link); S does, as 1 + sS, and in a
    logarithm.

    Lee, Yun and Jun (2024), Theorem 3.2 (OFUGLB-e, checked against the authors' program); with a
    ridge, a certified fit and the Hessian at its anchor: docs/theory.md, section 9.3 (Theorem 33).
    """

    stored_name = "OfuGlbSet"

    state_type = HessianMleState
    formula = staticmethod(ofuglb_formula)
    sub_gaussian = False

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if the link's loss is not a likelihood."""
        if not problem.link.likelihood:
            allowed = (
                "a link whose loss is a likelihood (logistic, Poisson, identity), or the algorithm "
                "one_ucb_glm or n_ucb_glm, which needs none"
            )
            raise InvalidInput("link", problem.link, allowed)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return λ, S, 1 + sS, log(N/δ) and the dispersion."""
        problem = setting.problem
        s = problem.link.self_concordance(problem.S)
        assert s is not None  # checked by the local update
        return in_order({
            SET_RIDGE: setting.ridge, SET_BALL: problem.S, CURVATURE: 1.0 + s * problem.S,
            DEPTH: math.log(setting.clients) - math.log(setting.delta),
            DISPERSION: problem.dispersion,
        })  # fmt: skip

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not claimed: the paper's regret bound."""
        return (
            "OFUGLB with an ellipsoid around its set: the set is proven, the paper's regret bound "
            "is not",
        )


@documented(
    returns=SIMULATED,
    raises="in a run, if the link's loss is not a likelihood",
    radius="`OfuGlbSet`",
)
def one_ofuglb(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    tolerance: float | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """One-OFUGLB: one learner sees all clients' samples, and fits all of them after each new one.

    This is the ellipsoidal variant, the authors' OFUGLB-e: it chooses by an ellipsoid around the
    likelihood-ratio set, not by that set itself. It needs no messages; its ledger counts as that of
    `one_ucb_glm`. The link must have a likelihood (logistic, Poisson, identity).

    References
    ----------
    Lee, Yun and Jun (2024), *A unified confidence sequence for generalized linear models, with
    applications to bandits*, NeurIPS; docs/theory.md, section 9.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ofuglb().centralised
    True
    """
    each = n_ofuglb(exploration, ridge, delta, confidence, tolerance, choice)
    return replace(each, name="One-OFUGLB", centralised=True)


@documented(
    raises="in a run, if the link's loss is not a likelihood",
    radius="`OfuGlbSet`, with δ/N per client",
)
def n_ofuglb(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    tolerance: float | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """N-OFUGLB: every client learns alone, and fits all its own samples after each new one.

    This is the ellipsoidal variant, the authors' OFUGLB-e: it chooses by an ellipsoid around the
    likelihood-ratio set, not by that set itself. The link must have a likelihood (logistic,
    Poisson, identity).

    References
    ----------
    Lee, Yun and Jun (2024), *A unified confidence sequence for generalized linear models, with
    applications to bandits*, NeurIPS; docs/theory.md, section 9.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ofuglb().trigger
    Never()
    """
    return Algorithm(
        name="N-OFUGLB",
        local_update=HessianMle(tolerance),
        global_update=None,
        trigger=Never(),
        confidence=OfuGlbSet() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
