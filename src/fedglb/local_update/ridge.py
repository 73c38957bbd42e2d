"""Ridge regression, exact after every sample: the local update of DisLinUCB."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.kernels.jit import kernel
from fedglb.kernels.linalg import add_sample, matvec
from fedglb.kernels.types import FloatArray
from fedglb.local_update.base import LocalState, LocalUpdate, adopt_matrix, recentre
from fedglb.model import SharedModel
from fedglb.samples import Samples
from fedglb.setting import Setting


@kernel
def ridge_step(
    A: FloatArray,
    A_inv: FloatArray,
    b: FloatArray,
    centre: FloatArray,
    x: FloatArray,
    y: float,
    count: int,
) -> float:
    """Take in one sample in place; return the gain of log det A."""
    gain = add_sample(A, A_inv, x, 1.0, count)
    for j in range(x.shape[0]):
        b[j] += x[j] * y
    matvec(A_inv, b, centre)
    return gain


@dataclass
class RidgeState(LocalState):
    """State of a client that keeps A = λI + Σ x xᵀ and b = Σ x y, shape (d,)."""

    b: FloatArray


@dataclass(frozen=True)
class Ridge(LocalUpdate[RidgeState]):
    """Exact ridge regression on the rewards themselves; the link plays no part."""

    state_type = RidgeState
    model_fields = frozenset({"b"})
    shares_moment = True

    def prior(self, setting: Setting) -> float:
        """Return λ."""
        return setting.ridge

    def begin(self, setting: Setting) -> RidgeState:
        """Return the state before any sample."""
        return RidgeState(**vars(self._begin(setting)), b=np.zeros(setting.problem.dim))

    def observe(self, setting: Setting, state: RidgeState, samples: Samples, index: int) -> None:
        """Add the sample to A and b."""
        state.log_gain += ridge_step(
            state.matrix, state.inverse, state.b, state.centre,
            samples.X[index], float(samples.y[index]), state.updates,
        )  # fmt: skip
        state.theta[:] = state.centre
        state.updates += 1

    def adopt(self, setting: Setting, state: RidgeState, model: SharedModel) -> None:
        """Hold A_t and b_t."""
        assert model.b is not None
        adopt_matrix(state, model)
        state.b[:] = model.b
        recentre(state, state.b)
        state.theta[:] = state.centre
