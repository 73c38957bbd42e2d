"""The status of a coordinator that does not run, from its file, which stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.history import MOST_UPDATES, History
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.status import CoordinatorStatus, status_of
from fedglb.federation.coordinator.store import CoordinatorStore


def stored_status(
    bundle: Bundle, state: Path, certificates: Mapping[str, float]
) -> CoordinatorStatus:
    """Return what the file of a coordinator says; `Unavailable`: a coordinator has it open.

    Without a file the coordinator has never run; then there are no clients and no updates.
    """
    store = CoordinatorStore.copy_of(state)
    try:
        session = CoordinatorSession(bundle.agreement, store, Policy(), lambda event: None)
        history = History(store.last_updates(MOST_UPDATES))
        return status_of(bundle, session, history, certificates)
    finally:
        store.close()
