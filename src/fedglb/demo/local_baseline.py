"""What the same agents would have got without each other, on the same arms and users."""

from __future__ import annotations

import numpy as np

from fedglb.demo.plan import DemoPlan
from fedglb.demo.stream import stream
from fedglb.protocol import Client
from fedglb.typing import FloatArray


def local_baseline(plan: DemoPlan) -> FloatArray:
    """Return the regret of each agent alone after each of its decisions, shape (N, T).

    The federation's own algorithm and radius; only nobody delivers its requests for updates.
    """
    agreement = plan.agreement
    regret = np.zeros((plan.clients, plan.decisions))
    for i, name in enumerate(plan.names):
        alone = Client(name, agreement.algorithm, agreement.setting)
        for t, offer in enumerate(stream(plan, i)):
            arm = alone.choose(offer.arms)
            regret[i, t] = offer.regret(arm)
            alone.observe(offer.arms[arm], offer.reward(arm), t + 1)
    return np.cumsum(regret, axis=1)
