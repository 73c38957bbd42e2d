"""A global update without messages, for an engine that holds all clients in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedglb.model import SharedModel
from fedglb.parts.global_update import Query, Sums
from fedglb.protocol import Coordinator
from fedglb.protocol.assembly import Contribution
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    Covariance,
    Derivatives,
    ModelSums,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.one_pass_update import OnePassUpdate
from fedglb.protocol.update import Update
from fedglb.typing import IntArray


def bulk_update(
    coordinator: Coordinator,
    t: int,
    client: ClientId | None,
    gathered: Mapping[ClientId, Contribution],
    answer: Callable[[Query], Sums],
) -> tuple[SharedModel, list[ClientId]]:
    """Make a whole update at once; return its model, and who gets it.

    The result and the ledger's entries are the same as with messages: all members send messages of
    the same size, so one of each kind is built and counted for all; `client` sends the request.
    Where the update is `client`'s alone, these are its messages only, and the models.

    Parameters
    ----------
    coordinator
        The coordinator.
    t, client
        The step, and the client whose trigger fired (None: a schedule's).
    gathered
        The contribution of each participant.
    answer
        Returns the sums over all clients: per client first, then added in sorted order of clients.
    """
    ledger = coordinator.ledger
    if client is not None:
        ledger.count(SyncRequest(client, t, coordinator.finished))
    update = coordinator.start_update(t, client)
    assert isinstance(update, Update)
    everybody, first = len(update.participants), next(iter(update.participants))
    ledger.count(update.request(first), everybody)
    update.gathered = dict(gathered)
    part = update.gathered[first]
    solver = coordinator.algorithm.global_update
    if solver is not None and solver.starts_at_model:
        assert part.b is not None
        reply = ModelSums(first, update.number, part.samples, part.b, part.matrix)
        ledger.count(reply, everybody)
    else:
        ledger.count(Covariance(first, update.number, part.samples, part.matrix, part.b), everybody)
    update.start_solving()
    while (query := update.query) is not None:
        ledger.count(update.request(first), everybody)
        sums = answer(query)
        ledger.count(
            Derivatives(
                first, update.number, update.rounds, sums.gradient, sums.hessian, sums.loss
            ),
            everybody,
        )  # fmt: skip
        update.tell(sums)
    model, recipients = coordinator.finish_update()
    if recipients:
        covered = coordinator.covered[first].samples
        ledger.count(NewModel(first, coordinator.finished, covered, model), len(recipients))
    return model, recipients


def bulk_one_pass(coordinator: Coordinator, t: int, releases: IntArray) -> SharedModel:
    """Make a whole one-pass update at once; return its model, which all clients get.

    Parameters
    ----------
    coordinator
        The coordinator.
    t
        The step.
    releases
        What each client sends, shape (N, d + d(d+1)/2).

    Returns
    -------
    SharedModel
        The model; the ledger has the messages of all clients.
    """
    ledger, update = coordinator.ledger, coordinator.start_update(t, None)
    assert isinstance(update, OnePassUpdate)
    everybody, first = len(releases), next(iter(update.participants))
    ledger.count(update.request(first), everybody)
    ledger.count(BatchSums(first, update.number, releases[0]), everybody)
    update.accept_total(everybody, releases.sum(axis=0))
    update.advance()
    model, recipients = coordinator.finish_update()
    ledger.count(NewModel(first, coordinator.finished, 0, model), len(recipients))
    return model
