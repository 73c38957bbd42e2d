"""Radii of confidence ellipsoids: one lemma per file."""

from fedglb.confidence.async_linucb import AsyncLinUCB
from fedglb.confidence.base import Confidence
from fedglb.confidence.ecolog import EcoLogSet
from fedglb.confidence.fedglb import FedGLB
from fedglb.confidence.fedglb_printed import FedGLBPrinted
from fedglb.confidence.fedlinucb import FedLinUCB
from fedglb.confidence.fixed import Fixed
from fedglb.confidence.global_model import GlobalModel, OwnModel
from fedglb.confidence.iterate import Iterate
from fedglb.confidence.lazy_ons import LazyONS
from fedglb.confidence.linear import Linear
from fedglb.confidence.mixture import Mixture
from fedglb.confidence.ofuglb import OfuGlbSet
from fedglb.confidence.one_pass import OnePassRadius
from fedglb.confidence.posterior import Posterior

__all__ = [
    "AsyncLinUCB", "Confidence", "EcoLogSet", "FedGLB", "FedGLBPrinted", "FedLinUCB", "Fixed",
    "GlobalModel", "Iterate", "LazyONS", "Linear", "Mixture", "OfuGlbSet", "OnePassRadius",
    "OwnModel", "Posterior",
]  # fmt: skip
