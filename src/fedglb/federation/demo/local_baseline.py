"""The baseline: the same agents without a federation, on the same arms and users."""

from __future__ import annotations

import msgspec
import numpy as np

from fedglb.federation.demo.plan import DemoPlan
from fedglb.federation.demo.stream import stream
from fedglb.protocol import Client
from fedglb.typing import FloatArray


def local_baseline(plan: DemoPlan) -> FloatArray:
    """Return the regret of each agent alone after each of its decisions, shape (N, T).

    The algorithm and its radius are the federation's, but for a private one, which learns nothing
    between updates; requests for updates are not delivered.
    """
    table = msgspec.structs.replace(plan.table, algorithm=plan.alone, minimum=None)
    agreement = table.build()
    regret = np.zeros((plan.clients, plan.decisions))
    for i, name in enumerate(plan.names):
        alone = Client(name, agreement.algorithm, agreement.setting)
        for t, offer in enumerate(stream(plan, i)):
            arm = alone.choose(offer.arms)
            regret[i, t] = offer.regret(arm)
            alone.observe(offer.arms[arm], offer.reward(arm), t + 1)
    return np.cumsum(regret, axis=1)
