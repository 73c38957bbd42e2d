"""The roster that an agent's owner has accepted: a new one, or a smaller one that agents follow.

A smaller roster allows no sum that the larger one did not: a coordinator picks the sets, and both
have the same minimum and the same keys. So following it gives nothing away.
"""

from __future__ import annotations

from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import ROSTER
from fedglb.federation.bundle import Bundle
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.sqlite import named_damage


def roster_to_accept(bundle: str | Path) -> Roster:
    """Return the roster in a member's folder; `InvalidInput` without secure sums."""
    return _roster(Bundle.read(bundle))


def accept_roster(path: str | Path, bundle: str | Path, digest: str) -> Roster:
    """Replace the accepted roster in a closed agent's file.

    The roster in the folder `bundle` must have this digest, which the other agents' owners must
    have, too, and this member's own key. Returns that roster.
    """
    own = Bundle.read(bundle)
    roster = _roster(own)
    if digest.lower() != roster.digest.hex():
        allowed = f"{roster.digest.hex()}, the digest in {bundle}, if the other owners have it too"
        raise InvalidInput(ROSTER, digest, allowed)
    _check_member(roster, own)
    if not Path(path).is_file():
        raise InvalidInput("path", str(path), "an existing agent's file")
    store = AgentStore(path, "power")
    try:
        with named_damage("agent", path):
            store.accept_roster(own.facts(), roster.content)
    finally:
        store.close()
    return roster


def follow_roster(store: AgentStore, bundle: Bundle) -> bool:
    """Accept the roster in a member's folder, if it is a part of the one accepted before.

    That it has enough members is checked where a folder is read. Returns whether it is another one
    than before; raises `InvalidInput` if its owner has to accept it.
    """
    roster, content = _roster(bundle), store.roster
    before = None if content is None else Roster.parse(content, store.path)
    if before == roster:
        return False
    if before is None or not roster.is_part_of(before):
        new = sorted(roster.keys.items() - (before.keys if before else {}).items())
        allowed = (
            f"a part of the accepted roster; this one has other members or keys "
            f"({', '.join(name for name, _ in new)}): its owner runs `fedglb agent accept`"
        )
        raise InvalidInput(ROSTER, roster.digest.hex(), allowed)
    _check_member(roster, bundle)
    store.accept_roster(bundle.facts(), roster.content)
    return True


def _roster(bundle: Bundle) -> Roster:
    if bundle.roster is None:
        allowed = "the bundle of a federation with secure sums"
        raise InvalidInput("bundle", str(bundle.folder), allowed)
    return bundle.roster


def _check_member(roster: Roster, bundle: Bundle) -> None:
    if roster.keys.get(bundle.client) != bundle.certificate().public_key:
        allowed = f"a roster with the key of {bundle.client}: this one has another key, or none"
        raise InvalidInput(ROSTER, roster.digest.hex(), allowed)
