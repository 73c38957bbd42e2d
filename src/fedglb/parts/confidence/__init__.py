"""Radii of confidence ellipsoids: one lemma per file.

Those of other people's algorithms are in `fedglb.algorithms`, one file per paper.
"""

from fedglb.parts.confidence.base import Confidence
from fedglb.parts.confidence.fedglb import FedGLBRadius
from fedglb.parts.confidence.fixed import Fixed, Posterior
from fedglb.parts.confidence.global_model import GlobalModel, OwnModel
from fedglb.parts.confidence.iterate import Iterate
from fedglb.parts.confidence.lazy_ons import LazyOnsRadius
from fedglb.parts.confidence.linear import Linear
from fedglb.parts.confidence.mixture import Mixture
from fedglb.parts.confidence.one_pass import OnePassRadius
from fedglb.parts.confidence.own import ConfidenceLike, OwnRadius, as_confidence

__all__ = [
    "Confidence", "ConfidenceLike", "FedGLBRadius", "Fixed", "GlobalModel", "Iterate",
    "LazyOnsRadius", "Linear", "Mixture", "OnePassRadius", "OwnModel", "OwnRadius", "Posterior",
    "as_confidence",
]  # fmt: skip
