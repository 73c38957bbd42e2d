"""Radii of confidence ellipsoids: one lemma per file."""

from fedglb.confidence.base import Confidence
from fedglb.confidence.fedglb import FedGLB
from fedglb.confidence.fedglb_printed import FedGLBPrinted
from fedglb.confidence.fixed import Fixed
from fedglb.confidence.global_model import GlobalModel, OwnModel
from fedglb.confidence.lazy_ons import LazyONS
from fedglb.confidence.linear import Linear

__all__ = [
    "Confidence", "FedGLB", "FedGLBPrinted", "Fixed", "GlobalModel", "LazyONS", "Linear",
    "OwnModel",
]  # fmt: skip
