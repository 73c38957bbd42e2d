"""How far clients with models of their own differ, from what they send: of the newest model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import msgspec
import numpy as np

from fedglb.federation.agreement import Agreement
from fedglb.model import SharedModel
from fedglb.protocol.messages import ClientId, ModelSums
from fedglb.protocol.personal_sums import distance

#: An alarm: far from all others in so many updates in a row.
OFTEN = 3


class SpreadStatus(msgspec.Struct, frozen=True):
    """The standard deviations, over clients, of a weight and of an arm's effect.

    In the units of the linear predictor, logits for the logistic link; 0: the clients are alike.
    `far` is the number of clients in the model whose samples say that others are little help.
    """

    theta: float
    effects: float
    far: int


class Differences:
    """What a coordinator knows of the distances of its clients."""

    def __init__(self, agreement: Agreement, model: SharedModel | None) -> None:
        self._agreement = agreement
        self._model = model  # of the update before
        self.spread: SpreadStatus | None = None
        self.distances: dict[str, float] = {}
        self.far: Counter[str] = Counter()  # updates in a row

    def note(self, model: SharedModel | None, covered: Mapping[ClientId, object]) -> None:
        """Take in a new model, and what the clients in it have sent."""
        before, self._model = self._model, model
        if model is None or model.spread is None:
            return
        sent = {str(c): part.spread for c, part in covered.items() if isinstance(part, ModelSums)}
        self.distances, far = {}, set()
        for client, numbers in sent.items():
            assert numbers is not None
            if numbers[2::3].any():
                far.add(client)
            found = None if before is None else distance(before, numbers)
            if found is not None:
                self.distances[client] = found
        self.far = Counter({client: self.far[client] + 1 for client in sorted(far)})
        d, unit = len(model.matrix), self._agreement.problem.dispersion
        theta, effects = model.spread[:2].tolist()
        if model.directions is not None:
            theta += float(np.trace(model.directions)) / d
        self.spread = SpreadStatus(math.sqrt(theta * unit), math.sqrt(effects * unit), len(far))
