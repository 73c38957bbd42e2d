"""What the same agents would have got without each other, on the same arms and users."""

from __future__ import annotations

import numpy as np

from fedglb.federation.demo.plan import Plan
from fedglb.federation.demo.stream import stream
from fedglb.kernels.types import FloatArray
from fedglb.protocol import Client


def separate(plan: Plan) -> FloatArray:
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
