"""One update of a federation with one client, in memory: it loads or compiles all kernels."""

from __future__ import annotations

import numpy as np

from fedglb.federation.agreement import Agreement
from fedglb.kernels.scoring import into_columns
from fedglb.protocol import Client, Coordinator
from fedglb.protocol.messages import Message


def preload(agreement: Agreement, *, alone: bool = False) -> None:
    """Choose, learn and update once and discard the result, so that no client waits for kernels.

    `alone`: without updates. All agents of one federation in a process share it.
    """
    facts = frozenset(agreement.facts().items()), alone
    if facts not in _done:
        _update_once(agreement, alone)
        _done.add(facts)


_done: set[tuple[frozenset[tuple[str, str]], bool]] = set()


def _update_once(agreement: Agreement, alone: bool) -> None:
    algorithm, setting, name = agreement.algorithm, agreement.setting, "warm-up"
    client = Client(name, algorithm, setting)
    coordinator = Coordinator(algorithm, setting, [name])
    arm = np.zeros((1, setting.problem.dim))
    arm[0, 0] = 1.0
    into_columns(arm, np.empty((setting.problem.dim, 1)), 1.0)  # of an agent's `choose`
    client.choose(arm)
    client.observe(arm[0], min(1.0, agreement.reward_limit or 1.0), t=1)
    if alone or algorithm.global_update is None:
        return
    messages: list[Message] = coordinator.begin(1)
    while messages:
        message = messages.pop()
        messages += (coordinator if message.upward else client).receive(message)
    client.observe(arm[0], min(1.0, agreement.reward_limit or 1.0), t=2)
