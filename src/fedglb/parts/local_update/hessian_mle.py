"""The same fit after every sample, by a Hessian of the loss as the matrix of the ellipsoid.

The Hessian at θ would take a pass over all samples each time. The one at the anchor θ_a is at hand,
and times e^{−s‖θ − θ_a‖} it is at most that at θ, by self-concordance. The factor goes to 1 as the
fit gets closer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, MATRIX, MEAN, THETA, UPDATES
from fedglb.kernels.linalg import invert, norm
from fedglb.kernels.pointers import call1
from fedglb.parts.local_update.fields import Counter
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

    D is the distance from the anchor. It returns −1 where the tolerance was not reached.
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
    """State of a client that refits after every sample and chooses by a Hessian of the loss.

    Parameters
    ----------
    vectors, matrices, counters, base
        As in `LocalState`; `HessianMle.begin` makes them.

    Attributes
    ----------
    lipschitz
        Σ max(μ(S) − y, y − μ(−S)): over the ball the loss has no steeper slope.
    """

    lipschitz = Counter(LIPSCHITZ)


@dataclass(frozen=True)
class HessianMle(Refitting[HessianMleState]):
    """Fit all own samples again after each one; the matrix is at most the loss's Hessian there.

    It is that of the last anchor, made smaller by as much as it may be too large at θ. A smaller
    tolerance brings both together.

    Parameters
    ----------
    tolerance
        ε with F(θ) − min F ≤ ε after every sample; None: 1/n², n being the number of samples.

    Raises
    ------
    InvalidInput
        If `tolerance` is not a number > 0; in a run, if it cannot be reached, or if no
        self-concordance of the link is known.

    References
    ----------
    docs/theory.md, sections 5 (the fit) and 9.3 (the matrix).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ofuglb().local_update
    HessianMle(tolerance=None)
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
            raise InvalidInput("link", problem.link, "one whose self_concordance is known")
        return (1.0 + s * problem.S) * setting.ridge

    def dispersion(self, setting: Setting) -> float:
        """Return the link's: W is a Hessian of the loss."""
        return setting.problem.dispersion
