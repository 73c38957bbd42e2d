"""Local updates: what a client does with its own sample. One choice per file."""

from fedglb.local_update.anchored import Anchored, AnchoredState
from fedglb.local_update.base import HessianState, LocalState, LocalUpdate, Metric
from fedglb.local_update.ecolog import EcoLog, EcoLogState
from fedglb.local_update.frozen import Frozen, FrozenState
from fedglb.local_update.frozen_hessian import FrozenHessian, FrozenHessianState
from fedglb.local_update.frozen_ridge import FrozenRidge, FrozenRidgeState
from fedglb.local_update.hessian_mle import HessianMle, HessianMleState
from fedglb.local_update.lazy_ons import LazyOns, LazyOnsState
from fedglb.local_update.mle import Mle, MleState
from fedglb.local_update.ons import BRule, Ons, OnsState
from fedglb.local_update.ridge import AsyncRidge, AsyncRidgeState, Ridge, RidgeState

__all__ = [
    "Anchored", "AnchoredState", "AsyncRidge", "AsyncRidgeState", "BRule", "EcoLog",
    "EcoLogState", "Frozen", "FrozenHessian", "FrozenHessianState", "FrozenRidge",
    "FrozenRidgeState", "FrozenState", "HessianMle", "HessianMleState", "HessianState",
    "LazyOns", "LazyOnsState", "LocalState", "LocalUpdate", "Metric", "Mle", "MleState", "Ons",
    "OnsState", "Ridge", "RidgeState",
]  # fmt: skip
