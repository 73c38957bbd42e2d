"""The owner of an agent accepts another roster: other members than the file was made with."""

from __future__ import annotations

from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.agent.store import ROSTER, AgentStore
from fedglb.federation.bundle import Bundle
from fedglb.federation.damage import as_agents
from fedglb.federation.secure_sums.roster import Roster


def roster_to_accept(bundle: str | Path) -> Roster:
    """Return the roster in a member's folder; `InvalidInput`: its federation has none."""
    roster = Bundle.read(bundle).roster
    if roster is None:
        raise InvalidInput("bundle", str(bundle), "a federation's that has secure sums")
    return roster


def accept_roster(path: str | Path, bundle: str | Path, digest: str) -> Roster:
    """Let an agent's file take part in sums with the members of another roster.

    Parameters
    ----------
    path
        The agent's file, which nobody has open.
    bundle
        The member's folder with the new roster.
    digest
        The roster's digest, as the owners of the other agents have it too. It is compared with
        that of the folder's roster, so that nothing is accepted unseen.

    Returns
    -------
    Roster
        What was accepted.

    Raises
    ------
    InvalidInput
        The folder's roster has another digest, or this member is not in it with its own key.
    """
    roster, own = roster_to_accept(bundle), Bundle.read(bundle)
    if digest.lower() != roster.digest.hex():
        allowed = f"{roster.digest.hex()}, that of {bundle}, if the other owners have it too"
        raise InvalidInput("roster", digest, allowed)
    if roster.keys.get(own.client) != own.certificate().public_key:
        allowed = f"a roster with the key of {own.client}: this one has another key, or none"
        raise InvalidInput("roster", digest, allowed)
    if not Path(path).is_file():
        raise InvalidInput("path", str(path), "an agent's file; there is none")
    store = AgentStore(path, "power")
    try:
        with as_agents(path):
            store.accept(ROSTER, roster.digest.hex())
    finally:
        store.close()
    return roster
