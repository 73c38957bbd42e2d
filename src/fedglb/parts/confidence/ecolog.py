"""The ellipsoid around the estimate of ECOLog."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import UPDATES, in_order
from fedglb.links import Logistic
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.local_update import EcoLogState
from fedglb.parts.local_update.ecolog import EXCESS, MOVED
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

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

    References
    ----------
    Faury et al. (2022), section 4 (ada-OFU-ECOLog has a radius that depends on the data). The
    paper bounds Σ l_s(θ*) − l_s(θ̄_s) by a tail inequality; here it is log(N/δ), by Ville's
    inequality: docs/theory.md, section 9.2 (Theorem 32).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ecolog().confidence
    EcoLogSet()
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
