"""Local updates: what a client does with its own sample."""

from fedglb.local_update.base import LocalState, LocalUpdate
from fedglb.local_update.frozen import Frozen, FrozenState
from fedglb.local_update.lazy_ons import LazyOns, LazyOnsState
from fedglb.local_update.mle import Mle, MleState
from fedglb.local_update.ons import Ons, OnsState
from fedglb.local_update.ridge import Ridge, RidgeState

__all__ = [
    "Frozen", "FrozenState", "LazyOns", "LazyOnsState", "LocalState", "LocalUpdate", "Mle",
    "MleState", "Ons", "OnsState", "Ridge", "RidgeState",
]  # fmt: skip
