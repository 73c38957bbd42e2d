"""Weights of a model by the names of its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedglb.features.encode import Encoder
from fedglb.features.schema import Features
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Weight:
    """What a feature adds to the linear predictor xᵀθ where it is fully present.

    Parameters
    ----------
    feature
        The feature's name.
    weight
        Its weight, in logits for the logistic link.
    sd
        The weight's standard deviation.
    """

    feature: str
    weight: float
    sd: float


def feature_names(features: Features | None, dim: int) -> Sequence[str]:
    """Return the names of an arm's features; x[0], x[1] and so on without a schema."""
    return [f"x[{k}]" for k in range(dim)] if features is None else features.names


def weights(features: Features | None, theta: FloatArray, variances: FloatArray) -> list[Weight]:
    """Return the weight of each feature, from θ and the variances of its numbers."""
    scale = np.ones(theta.size) if features is None else Encoder(features).scale
    sd = scale * np.sqrt(np.maximum(variances, 0.0))
    names = feature_names(features, theta.size)
    rows = zip(names, (scale * theta).tolist(), sd.tolist(), strict=True)
    return [Weight(*row) for row in rows]


def strongest(given: Sequence[Weight], most: int) -> tuple[Weight, ...]:
    """Return the weights that are farthest from 0, in their standard deviations."""
    ranked = sorted(given, key=lambda each: -abs(each.weight) / max(each.sd, 1e-300))
    return tuple(ranked[:most])
