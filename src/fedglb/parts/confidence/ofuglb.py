"""The ellipsoid around a likelihood-ratio set: OFUGLB's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import THETA, UPDATES, in_order
from fedglb.kernels.linalg import norm
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import HessianMleState
from fedglb.parts.local_update.hessian_mle import LIPSCHITZ
from fedglb.parts.local_update.mle import MULTIPLIER, RESIDUAL
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Places in the constants of `ofuglb_formula`: λ, S, 1 + sS, log(N/δ), the dispersion.
RIDGE, BALL, CURVATURE, DEPTH, DISPERSION = range(5)


@kernel
def ofuglb_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """α = q + √(q² + 2(1+sS)(β² + ν‖θ‖(S − ‖θ‖) + λ(S² − ‖θ‖²)/2)), q = (1+sS)‖∇Φ + νθ‖_{W⁻¹}.

    β² = φ·(log(N/δ) + d·log(max(e, 2eSL/(φd)))) with the loss's Lipschitz constant L and the
    dispersion φ; 0 without samples.
    """
    d, S, unit = vectors.shape[1], constants[BALL], constants[DISPERSION]
    length = norm(vectors[THETA])
    room = max(S - length, 0.0)
    excess = room * (counters[MULTIPLIER] * length + 0.5 * constants[RIDGE] * (S + length))
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

    Raises
    ------
    InvalidInput
        From `check`, where the link's loss is no likelihood (probit).

    References
    ----------
    Lee, Yun and Jun (2024), Theorem 3.2 (OFUGLB-e, checked against the authors' program); with a
    ridge, a certified fit and the Hessian at its anchor: docs/theory.md, section 9.3 (Theorem 33).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ofuglb().confidence
    OfuGlbSet()
    """

    stored_name = "OfuGlbSet"

    state_type = HessianMleState
    formula = staticmethod(ofuglb_formula)
    sub_gaussian = False

    def check(self, problem: Problem) -> None:
        """Raise `InvalidInput` if the link's loss is no likelihood."""
        if not problem.link.likelihood:
            allowed = (
                "a link whose loss is a likelihood (logistic, Poisson, identity), or one_ucb_glm "
                "and n_ucb_glm, whose lemma OwnModel needs none"
            )
            raise InvalidInput("link", problem.link, allowed)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return λ, S, 1 + sS, log(N/δ) and the dispersion."""
        problem = setting.problem
        s = problem.link.self_concordance(problem.S)
        assert s is not None  # the local update refuses a link without
        return in_order({
            RIDGE: setting.ridge, BALL: problem.S, CURVATURE: 1.0 + s * problem.S,
            DEPTH: math.log(setting.clients) - math.log(setting.delta),
            DISPERSION: problem.dispersion,
        })  # fmt: skip

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return what is not claimed: the paper's regret bound."""
        return (
            "OFUGLB with an ellipsoid around its set: the set is proven, the paper's regret bound "
            "is not",
        )
