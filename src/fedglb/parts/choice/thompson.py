"""The largest prediction of a model drawn from the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import integer, number
from fedglb.kernels.compile import kernel
from fedglb.kernels.decide import PLAYED
from fedglb.kernels.layout import CENTRE, EXTRA, INVERSE, NAME, OFFSET, SCORES, SHIFTED
from fedglb.kernels.linalg import cholesky, set_matrix
from fedglb.kernels.philox import normals, two_normals
from fedglb.kernels.scoring import offered, predictions
from fedglb.parts.choice.base import KernelChoice
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The only place in the constants.
DEVIATION = 0
#: The pairs of random numbers from this one on are for effects of arms, by name.
EFFECTS = 2**31
#: This number of draws takes seconds per decision.
MOST_DRAWS = 1_000_000


@kernel
def thompson_index(
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
    """xᵀ(θ + scale·√D·Cz), with CCᵀ = A⁻¹ and z standard normal; effects are drawn given θ."""
    if draw == PLAYED:  # the other draws of this decision find C in `factor`
        # Where A⁻¹ is singular to rounding, the directions that are left over have no width.
        set_matrix(factor, 0.0)
        cholesky(matrices[INVERSE], factor)
    d = vectors.shape[1]
    z, theta = np.empty(d), np.empty(d)
    normals(key, number, client, draw, z)
    for i in range(d):
        moved = 0.0
        for j in range(i + 1):
            moved += factor[i, j] * z[j]
        theta[i] = vectors[CENTRE, i] + constants[DEVIATION] * moved
    predictions(offered(arms, work), theta, work[SCORES])
    if work.shape[0] > SHIFTED:
        for k in range(arms.shape[1]):
            work[SCORES, k] += work[OFFSET, k]
            if work[EXTRA, k] > 0.0:  # arms of one name share the draw of their effect
                block = EFFECTS + int(work[NAME, k] % EFFECTS)
                own, _ = two_normals(key, number, client, draw, block)
                work[SCORES, k] += constants[DEVIATION] * math.sqrt(work[EXTRA, k]) * own
    return 0


@dataclass(frozen=True)
class Thompson(KernelChoice):
    """Draw a model from the posterior and play its best arm.

    The posterior is the Laplace approximation's, N(θ, D·A⁻¹), with D the dispersion that belongs
    to A.

    Parameters
    ----------
    scale
        Factor on the posterior's standard deviations, > 0.
    draws
        m, the number of further models drawn to estimate the probability p of the arm that was
        played, as p̂ = (1 + number of draws that play it)/(m + 1); its standard error is
        √(p̂(1 − p̂)/(m + 1)). A weighted mean with weights 1/p̂ then has a bias of (1 − p)^(m + 1),
        relative to an arm's reward. 0: no estimate, which saves time.

    Raises
    ------
    InvalidInput
        If `scale` is not a finite number > 0, or `draws` not a whole number from 0 to 1,000,000.

    References
    ----------
    Chapelle and Li (2011), An empirical evaluation of Thompson sampling; Russo and Van Roy (2014),
    Learning to optimize via posterior sampling.

    Examples
    --------
    >>> from fedglb.parts.choice import Thompson
    >>> Thompson()
    Thompson(scale=1.0, draws=100)
    >>> Thompson().randomised
    True
    """

    stored_name = "Thompson"

    formula = staticmethod(thompson_index)
    scale: float = 1.0
    draws: int = 100

    def __post_init__(self) -> None:
        number("scale", self.scale, above=0.0)
        integer("draws", self.draws, at_least=0, at_most=MOST_DRAWS)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return scale·√D."""
        return (self.scale * math.sqrt(dispersion),)

    def caveats(self) -> tuple[str, ...]:
        """Return that nothing is proven."""
        return (f"{self}: the index is calibrated, not proven",)
