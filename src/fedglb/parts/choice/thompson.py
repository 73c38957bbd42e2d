"""The largest prediction of a model drawn from the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import integer, number
from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.decide import PLAYED
from fedglb.kernels.elementary import exp, log
from fedglb.kernels.layout import (
    CENTRE,
    DEGREES,
    EXTRA,
    INVERSE,
    LEAST,
    NAME,
    OFFSET,
    SCORES,
    SHIFTED,
    TOTAL,
    WIDTHS,
)
from fedglb.kernels.linalg import cholesky, set_matrix
from fedglb.kernels.philox import normals, t_number, two_normals
from fedglb.kernels.scoring import arm_bounds, offered, predictions
from fedglb.parts.choice.base import KernelChoice
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The only place in the constants.
DEVIATION = 0
#: The pairs of random numbers from this one on are for effects of arms, by name.
EFFECTS = 2**31
#: The factor on standard deviations where no arm on offer recurs.
FRESH = 0.5
#: Draws for the propensities that agents log.
LOGGED_DRAWS = 100
#: This number of draws takes seconds per decision.
MOST_DRAWS = 1_000_000


@inlined_kernel
def draw_model(
    vectors: FloatArray,
    matrices: FloatArray,
    factor: FloatArray,
    deviation: float,
    key: int,
    number: int,
    client: int,
    draw: int,
) -> FloatArray:
    """Return θ + deviation·Cz, with CCᵀ = A⁻¹ and z standard normal."""
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
        theta[i] = vectors[CENTRE, i] + deviation * moved
    return theta


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
    """The predictions of a model drawn from the posterior; effects are drawn given θ."""
    deviation = constants[DEVIATION]
    theta = draw_model(vectors, matrices, factor, deviation, key, number, client, draw)
    predictions(offered(arms, work), theta, work[SCORES])
    if work.shape[0] > SHIFTED:
        for k in range(arms.shape[1]):
            work[SCORES, k] += work[OFFSET, k]
            if work[EXTRA, k] > 0.0:  # arms of one name share the draw of their effect
                block = EFFECTS + (int(work[NAME, k]) & (EFFECTS - 1))
                own, _ = two_normals(key, number, client, draw, block)
                work[SCORES, k] += deviation * math.sqrt(work[EXTRA, k]) * own
    return 0


@inlined_kernel
def highest(work: FloatArray, k: int, deviation: float) -> float:
    """Return the largest score of an arm that may be drawn, by its share of all that is known.

    With s = (weight of all samples)·(variance of the arm), which for independent arms is all
    samples over the arm's, it is √(2 log s) deviations above the mean; where the effect has ν
    degrees of freedom, √(ν(s^{2/ν} − 1)), which Student's t exceeds as rarely.
    """
    square = 2.0 * log(max(1.0, work[TOTAL, k] * work[WIDTHS, k]))
    if work[EXTRA, k] > 0.0:
        degrees = work[DEGREES, k]
        square = degrees * (exp(square / degrees) - 1.0)
    return float(work[LEAST, k] + deviation * math.sqrt(square * max(work[WIDTHS, k], 0.0)))


@kernel
def optimistic_index(
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
    """The predictions of a drawn model, each from the arm's mean to its `highest`."""
    K, deviation, named = arms.shape[1], constants[DEVIATION], work.shape[0] > SHIFTED
    if draw == PLAYED:  # the other draws of this decision find them in `work`
        arm_bounds(arms, vectors[CENTRE], matrices[INVERSE], 0.0, work, work[LEAST])
    recurs = not named
    for k in range(K):
        recurs = recurs or work[NAME, k] >= 0.0
    scale = deviation if recurs else FRESH * deviation
    theta = draw_model(vectors, matrices, factor, scale, key, number, client, draw)
    predictions(offered(arms, work), theta, work[SCORES])
    if named and recurs:
        blocks, own = np.empty(K, dtype=np.int64), np.empty(K)
        for k in range(K):  # arms of one name share the draw of their effect
            blocks[k] = EFFECTS + (int(work[NAME, k]) & (EFFECTS - 1))
        for k in range(K):
            own[k] = t_number(key, number, client, draw, blocks[k], work[DEGREES, k])
        for k in range(K):
            work[SCORES, k] += work[OFFSET, k] + scale * math.sqrt(work[EXTRA, k]) * own[k]
    for k in range(K):
        if not work[SCORES, k] > work[LEAST, k]:
            work[SCORES, k] = work[LEAST, k]
        elif named and recurs and work[TOTAL, k] > 0.0:
            work[SCORES, k] = min(work[SCORES, k], highest(work, k, deviation))
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


@dataclass(frozen=True)
class OptimisticThompson(KernelChoice):
    """Draw a model from the posterior, and score each arm by it, but within two ends.

    As `Thompson`, with four changes, for a rule that needs no tuning:

    - An arm's score is at least its mean (May and others, 2012).
    - It is at most a bound that falls as the arm becomes known (as in MOTS): √(2 log s) standard
      deviations, s = n/n_a being all samples over those of the arm.
    - The effect of an arm that recurs has heavy tails until the arm was played: Student's t, with
      1 + 4n_a + (R + 1)²/(2n) degrees of freedom for R arms. So an arm of which the model is
      wrongly sure is tried, once n samples are many for R arms.
    - Where no arm on offer recurs, the standard deviations are halved: new arms explore by
      themselves.

    The last three need arms' effects (`fedglb_auto`).

    Parameters
    ----------
    draws
        As for `Thompson`, in simulations. 0 (default): no estimate of the probabilities of arms.
        Agents draw 100, as what they log is evaluated.

    Raises
    ------
    InvalidInput
        If `draws` is not a whole number from 0 to 1,000,000.

    References
    ----------
    May, Korda, Lee and Leslie (2012), Optimistic Bayesian sampling in contextual-bandit problems;
    Jin, Xu, Shi, Xiao and Gu (2021), MOTS: minimax optimal Thompson sampling; docs/theory.md,
    section 7.12.

    Examples
    --------
    >>> from fedglb.parts.choice import OptimisticThompson
    >>> OptimisticThompson().randomised
    True
    """

    stored_name = "OptimisticThompson"

    formula = staticmethod(optimistic_index)
    draws: int = 0

    def __post_init__(self) -> None:
        integer("draws", self.draws, at_least=0, at_most=MOST_DRAWS)

    @property
    def logged_draws(self) -> int:
        """At least 100."""
        return max(self.draws, LOGGED_DRAWS)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return √D."""
        return (math.sqrt(dispersion),)

    def caveats(self) -> tuple[str, ...]:
        """Return that nothing is proven."""
        return (f"{self}: the index is calibrated, not proven",)
