"""One standard deviation of the Laplace posterior: no confidence set."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.layout import in_order
from fedglb.parts.confidence.base import Confidence
from fedglb.parts.confidence.fixed import ALPHA, constant_radius
from fedglb.parts.local_update import HessianState
from fedglb.problem import Problem
from fedglb.setting import Setting


@dataclass(frozen=True)
class Posterior(Confidence[HessianState]):
    """One posterior standard deviation around θ_i, for rules that choose by an index.

    References
    ----------
    docs/theory.md, section 7.11: nothing is proven.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_auto().confidence
    Posterior()
    """

    stored_name = "Posterior"

    state_type = HessianState
    formula = staticmethod(constant_radius)
    scalable = False
    sub_gaussian = False

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return that no coverage is claimed."""
        return ("the ellipsoid is one posterior standard deviation: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return the root of the dispersion."""
        return in_order({ALPHA: math.sqrt(setting.problem.dispersion)})
