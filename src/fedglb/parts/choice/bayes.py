"""The prediction's upper quantile of level 1 − 1/(t + 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, WIDTHS
from fedglb.kernels.quantiles import normal_quantile
from fedglb.kernels.scoring import upper_bounds
from fedglb.parts.choice.base import Choice
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The only place in the constants.
DEVIATION = 0


@kernel
def bayes_index(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    t: int,
    key: int,
    number: int,
    client: int,
    draw: int,
) -> int:
    """xᵀθ + Φ⁻¹(1 − 1/(t + 1))·sd(x)."""
    # By symmetry: 1 − 1/(t + 1) would round the tail away as t grows.
    multiple = -normal_quantile(1.0 / (t + 1.0)) * constants[DEVIATION]
    upper_bounds(arms, vectors[CENTRE], matrices[INVERSE], multiple, work[SCORES], work[WIDTHS])
    return 0


@dataclass(frozen=True)
class Bayes(Choice):
    """Play the arm of the largest xᵀθ + Φ⁻¹(1 − 1/(t + 1))·sd(x), t being the step.

    An agent's t is the number of its decision.

    It is a quantile of the Laplace approximation of the posterior, with nothing to tune:
    sd(x)² = D·‖x‖²_{A⁻¹}, with D the dispersion that belongs to A.

    References
    ----------
    Kaufmann, Cappé and Garivier (2012), On Bayesian upper confidence bounds for bandit problems:
    proven there for independent arms, not for these.

    Examples
    --------
    >>> from fedglb.parts.choice import Bayes
    >>> Bayes().needs_sets
    False
    >>> Bayes().caveats()
    ('Bayes(): the index is calibrated, not proven',)
    """

    stored_name = "Bayes"

    formula = staticmethod(bayes_index)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return √D."""
        return (math.sqrt(dispersion),)

    def caveats(self) -> tuple[str, ...]:
        """Return that the index is not proven."""
        return (f"{self}: the index is calibrated, not proven",)
