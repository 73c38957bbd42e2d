"""The strongest weights of the newest model, with the names that the schema gives them."""

from __future__ import annotations

import msgspec
import numpy as np

from fedglb.features import Encoder, Features
from fedglb.federation.agreement import Agreement
from fedglb.model import SharedModel

_MOST = 20


class WeightStatus(msgspec.Struct, frozen=True):
    """What a feature adds to the linear predictor xᵀθ where it is fully present."""

    feature: str
    weight: float
    sd: float


#: The newest model and its weights: a status is taken every second.
_kept: tuple[SharedModel, tuple[WeightStatus, ...]] | None = None


def strongest_weights(agreement: Agreement, model: SharedModel | None) -> tuple[WeightStatus, ...]:
    """Return those farthest from 0, in their standard deviations; none without a schema."""
    global _kept
    if model is None or agreement.features is None:
        return ()
    if _kept is None or _kept[0] is not model:
        _kept = model, _strongest(agreement.features, agreement.problem.dispersion, model)
    return _kept[1]


def _strongest(
    features: Features, dispersion: float, model: SharedModel
) -> tuple[WeightStatus, ...]:
    if len(model.matrix) != features.dim:  # a model of another schema
        return ()
    try:
        inverse = np.linalg.inv(model.matrix)
    except np.linalg.LinAlgError:
        return ()
    theta, scale = model.theta, Encoder(features).scale
    if theta is None:
        theta = np.zeros(features.dim) if model.b is None else inverse @ model.b
    sd = scale * np.sqrt(np.maximum(np.diagonal(inverse) * dispersion, 0.0))
    rows = zip(features.names, (scale * theta).tolist(), sd.tolist(), strict=True)
    ranked = sorted(rows, key=lambda row: -abs(row[1]) / max(row[2], 1e-300))
    return tuple(WeightStatus(*row) for row in ranked[:_MOST])
