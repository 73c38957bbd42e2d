"""A model for each client: the shared one as its prior, and its own samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN
from fedglb.kernels.personal import (
    APART,
    DIFFERS,
    GUARD,
    GUARD_EFFECTS,
    INFORMATION,
    RESIDUAL,
    REST,
    SENT,
    SHARED,
    SPREAD,
    STATISTICS,
    UNGUARDED,
    WIDTH,
    shared_gain,
)
from fedglb.parts.local_update.anchored import (
    AnchoredState,
    Calibrated,
    step_with_effect,
    step_without,
)
from fedglb.parts.local_update.base import Count, Counter, Matrix, Vector
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


@kernel
def personal_step(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Do as `anchored_step` does; where clients differ, the gain is that of the shared model."""
    n, d, before = X.shape[0] - 1, vectors.shape[1], counters[LOG_GAIN]
    x = X[n, :d]
    if X.shape[1] > d and X[n, d] >= 0.0:
        shifted = np.empty(d)
        weight = step_with_effect(
            vectors, matrices, counters, X[n], y[n], functions, constants, shifted
        )
        if counters[DIFFERS] > 0.0:
            counters[LOG_GAIN] = before + shared_gain(matrices, shifted, weight)
    else:
        weight = step_without(vectors, matrices, counters, x, y[n], functions, constants)
        if counters[DIFFERS] > 0.0:
            counters[LOG_GAIN] = before + shared_gain(matrices, x, weight)
    return 0


@dataclass
class PersonalState(AnchoredState):
    """State of a client with a model of its own: `matrix` is its posterior's precision."""

    spread = Matrix(SPREAD)  # T_i: how far θ_i may be from the shared θ, shape (d, d)
    rest = Matrix(REST)  # (I + H_iT_i)⁻¹ with the client's own H_i
    residual = Vector(RESIDUAL)  # r, the distance of its samples from the others' model
    unguarded = Vector(UNGUARDED)  # θ_i with the others' prior, where the client learns alone
    information = Matrix(INFORMATION)  # V, the covariance of r if T is right
    shared = Matrix(SHARED)  # Q⁻¹, Q = P + PTP of the shared P
    differs = Counter(DIFFERS)  # 1 where T_i or the effects' variance is not 0
    width = Counter(WIDTH)  # τ² of the effects
    guard = Count(GUARD)  # 0; k: it learns alone, with the variance ALONE[k − 1]
    guard_effects = Count(GUARD_EFFECTS)
    apart = Count(APART)  # whether its own part was taken from the shared model


@dataclass(frozen=True)
class Personal(Calibrated):
    """Each client has a θ_i of its own, drawn around the shared θ with covariance T.

    The shared model without the client's own part is its prior, spread by T, and its own samples
    make the posterior. T follows from what all clients send (`Pooled`). A client whose samples say
    that the others are no help has a prior of its own. At T = 0 it is `Calibrated`,
    but for where samples are linearised: at the client's own model.

    References
    ----------
    docs/theory.md, section 7.13.
    """

    stored_name = "Personal"

    state_type = PersonalState
    step = staticmethod(personal_step)
    personal = True

    def statistics(self, setting: Setting, counters: FloatArray) -> FloatArray:
        """Return s, f and whether it learns alone, for θ and, where arms have them, effects."""
        size = SENT if setting.effect_ridge else SENT // 2
        return counters[STATISTICS : STATISTICS + size].copy()

    def concordance(self, setting: Setting) -> float:
        """Return s of the link, by which long steps are shortened."""
        s = setting.problem.link.self_concordance(math.inf)
        assert s is not None  # `Algorithm.setting` refuses other links
        return s
