"""Local updates: how a client learns from its own samples. One choice per file.

Those of other people's algorithms are in `fedglb.algorithms`, one file per paper.
"""

from fedglb.parts.local_update.anchored import Anchored, AnchoredState, Calibrated
from fedglb.parts.local_update.base import HessianState, LocalState, LocalUpdate, Metric
from fedglb.parts.local_update.frozen import (
    Frozen,
    FrozenHessian,
    FrozenHessianState,
    FrozenState,
)
from fedglb.parts.local_update.lazy_ons import LazyOns, LazyOnsState
from fedglb.parts.local_update.mle import Mle, MleState
from fedglb.parts.local_update.ons import Ons, OnsState
from fedglb.parts.local_update.own import LocalUpdateLike, OwnState, OwnUpdate, as_local_update
from fedglb.parts.local_update.personal import Personal, PersonalState
from fedglb.parts.local_update.ridge import Ridge, RidgeState

__all__ = [
    "Anchored", "AnchoredState", "Calibrated", "Frozen", "FrozenHessian", "FrozenHessianState",
    "FrozenState", "HessianState", "LazyOns", "LazyOnsState", "LocalState", "LocalUpdate",
    "LocalUpdateLike", "Metric", "Mle", "MleState", "Ons", "OnsState", "OwnState", "OwnUpdate",
    "Personal", "PersonalState", "Ridge", "RidgeState", "as_local_update",
]  # fmt: skip
