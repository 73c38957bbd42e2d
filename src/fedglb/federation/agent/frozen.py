"""An agent that chooses with an earlier model, or with another share of random choices.

It learns, requests updates and adopts models as before.
"""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import replace

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.update_store import AdoptedModel
from fedglb.federation.frozen import Frozen
from fedglb.federation.wire.messages import Freeze
from fedglb.kernels.layout import NAME
from fedglb.protocol import Client
from fedglb.protocol.learner import Chosen
from fedglb.protocol.messages import NewModel
from fedglb.typing import FloatArray

log = logging.getLogger(__name__)


def exploring(durable: DurableClient, explore: float | None) -> Algorithm | None:
    """Return the algorithm of a decision with its own share of random choices, if it has one."""
    if explore is None:
        return None
    return replace(durable.rules, explore=explore).applied_to(durable.agreement.algorithm)


def decide(
    durable: DurableClient,
    columns: FloatArray,
    number: int,
    names: FloatArray,
    algorithm: Algorithm | None,
) -> Chosen:
    """Choose among arms with the model in use, under the lock.

    `algorithm`: another one than the agent's, for this decision.
    """
    client, live = durable.chooser, durable.protocol_client
    if algorithm is not None:
        client = copy.copy(client)
        client.algorithm, client.choosing = algorithm, replace(client.choosing, algorithm=algorithm)
    chosen = client.decide(columns, number, names=names, logged=True)
    if durable.frozen is None or not names.size:
        return chosen
    # the sample is for the live client, which may know the arm by now
    k = slice(chosen.arm, chosen.arm + 1)
    name = live.with_effects(np.ascontiguousarray(columns[:, k]), names[k])[NAME]
    return replace(chosen, row=np.append(columns[:, chosen.arm], name))


def freeze(durable: DurableClient, update: int | None) -> Frozen:
    """Choose with the model of an update from now on; None: the newest."""
    with durable.locked():
        durable.ready()
        wanted = durable.adopted if update is None else integer("update", update)
        kept = durable.store.updates.kept_models()
        if wanted not in kept:
            known = f"one whose model is kept: {', '.join(map(str, kept))}"
            allowed = known if kept else "none yet: no model is kept before the next update"
            raise InvalidInput("update", update, allowed)
        model = durable.store.updates.kept_model(wanted)
        return _freeze(durable, Frozen(wanted, time.time(), "agent"), model)


def unfreeze(durable: DurableClient) -> None:
    """Choose with the newest model again, unless the operator says otherwise."""
    with durable.locked():
        durable.ready()
        _unfreeze(durable, "agent")


def follow(durable: DurableClient, message: Freeze) -> None:
    """Do what the operator says; a repeated message changes nothing."""
    if (message.model is None) != (message.update == 0):
        raise InvalidInput("Freeze.model", message.update, "a model exactly if there is an update")
    held, model = durable.freezes.get("operator"), None
    if message.update == (0 if held is None else held.update):
        return
    if message.model is not None:  # as if the client had joined right after that update
        new = NewModel(durable.name, message.update, 0, message.model, message.models)
        adoption = Client(durable.name, durable.algorithm, durable.agreement.setting).prepare(new)
        assert adoption is not None
        model = AdoptedModel(message.update, 0, adoption.base)
        _ = model.packed  # slow: not under the lock
    with durable.locked():
        durable.ready()
        updates, update = durable.store.updates, message.update
        if durable.algorithm.local_update.personal and update in updates.kept_models():
            model = updates.kept_model(update)  # its own model then, not that of a newcomer
        if model is None:
            _unfreeze(durable, "operator")
        else:
            _freeze(durable, Frozen(message.update, time.time()), model)


def read_frozen_again(durable: DurableClient) -> None:
    """After samples were forgotten: choose with the newest model, if the frozen one had them."""
    before = durable.freezes.get("agent")
    durable.read_frozen()
    if before is not None and "agent" not in durable.freezes:
        log.warning(
            "the agent is no longer frozen at the model of update %d, which was fitted with "
            "samples that are forgotten",
            before.update,
        )


def _freeze(durable: DurableClient, frozen: Frozen, model: AdoptedModel) -> Frozen:
    durable.stale = True
    durable.store.updates.freeze_model(frozen, model)
    durable.read_frozen()
    durable.stale = False
    log.info(
        "frozen by the %s: the agent chooses with the model of update %d, and goes on learning",
        frozen.by, frozen.update,
    )  # fmt: skip
    return frozen


def _unfreeze(durable: DurableClient, by: str) -> None:
    if by not in durable.freezes:
        return
    durable.stale = True
    durable.store.updates.unfreeze_model(by)
    durable.read_frozen()
    durable.stale = False
    log.info("no longer frozen by the %s", by)
