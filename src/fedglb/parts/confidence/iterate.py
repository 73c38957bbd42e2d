"""The ellipsoid around the iterate of a client's online Newton steps.

Right after a global update it is the global model's, and every own sample adds only what the
Newton step can have lost. `FedGLBRadius` pays for the predictions of all samples instead, around
A⁻¹b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.kernels.compile import kernel
from fedglb.kernels.decide import bounds_around
from fedglb.kernels.layout import EPOCH, INVERSE, THETA, UPDATES
from fedglb.parts.confidence.fedglb import C_MU, CLIENTS, DELTA, NOISE, PRIOR_WIDTH, FedGLBRadius
from fedglb.parts.confidence.global_model import SYNC_RADIUS
from fedglb.parts.local_update import OnsState
from fedglb.parts.local_update.ons import GRADIENT_NORMS
from fedglb.typing import FloatArray


@kernel
def iterate_radius(
    start_radius: float,
    gradient_norms: float,
    samples: int,
    epoch: int,
    N: int,
    delta: float,
    c: float,
    R: float,
) -> float:
    """α = √(r_g² + Σ‖∇l‖²_{A_s⁻¹}/c² + (2R²/c²) log(1/δ')); r_g without own samples.

    With w = xᵀ(θ_{s−1} − θ*), a step changes ‖θ − θ*‖²_A by at most
    −w² + (2/c)ηw + ‖∇l‖²_{A_s⁻¹}/c². The supermartingale exp(Σ ζηw − ζ²R²w²/2) with ζ = c/R²
    bounds (2/c)Σηw by Σw² + (2R²/c²) log(1/δ') for all samples at once, and Σw² cancels.
    δ' = δ/(2N·e(e+1)) in epoch e.
    """
    if samples == 0:
        return start_radius
    depth = math.log(2.0 * N * epoch * (epoch + 1.0)) - math.log(delta)
    own = (gradient_norms + 2.0 * R * R * depth) / (c * c)
    return math.sqrt(start_radius * start_radius + own)


@kernel
def iterate_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """The radius of a client: before the first model r_g is √(λ/c)S."""
    start_radius = constants[PRIOR_WIDTH]
    if radius_terms.shape[0] > 0:
        start_radius = radius_terms[SYNC_RADIUS]
    return float(
        iterate_radius(
            start_radius, counters[GRADIENT_NORMS], int(counters[UPDATES]), int(counters[EPOCH]),
            int(constants[CLIENTS]), constants[DELTA], constants[C_MU], constants[NOISE],
        )
    )  # fmt: skip


@kernel
def iterate_bounds(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    radius_terms: FloatArray,
    constants: FloatArray,
    alpha: float,
    with_interval: int,
    work: FloatArray,
) -> int:
    """The bounds of the ellipsoid around the iterate."""
    bounds_around(arms, vectors[THETA], matrices[INVERSE], alpha, with_interval, work)
    return 0


@dataclass(frozen=True)
class Iterate(FedGLBRadius):
    """The radius around θ_i, the iterate of the online Newton steps, and not around A⁻¹b.

    For FedGLB-UCB, its variant 2 and, without global updates, N-ONS-GLM. It needs what
    `FedGLBRadius` needs, and is r_g, the radius of the global model, right after an update.

    References
    ----------
    docs/theory.md, section 7.6 (Theorem 21).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb(threshold=10.0, confidence=fg.Iterate()).confidence
    Iterate()
    """

    stored_name = "Iterate"

    formula = staticmethod(iterate_formula)
    bounds = staticmethod(iterate_bounds)

    def centre(self, state: OnsState) -> FloatArray:
        """Return θ_i."""
        return state.theta
