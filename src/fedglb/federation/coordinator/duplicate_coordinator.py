"""Coordinators of one federation notice each other, and one of them stops.

Two of them would start updates under the same numbers. They have the same certificate, so the
server cannot tell them apart: each announces itself every second, on a subject that only they use.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from dataclasses import dataclass, field

import msgspec

from fedglb.federation.names import one_line


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a coordinator says of itself: who it is, since when, and its last update's number."""

    id: str
    place: str
    started: float
    update: int


@dataclass
class Presence:
    """A coordinator among those that may be there.

    The one that knows of fewer updates stops; of two that know the same, the younger one. So a
    second one that is started by mistake stops, and so does one that slept (a virtual machine)
    while another took its place. Both sides come to the same result, so one of them goes on. A
    coordinator that was killed announces nothing, and stops no other.
    """

    started: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    place: str = field(default_factory=lambda: f"{socket.gethostname()}, process {os.getpid()}")

    def announce(self, update: int) -> bytes:
        """Return what to say; `update` is the number of the last update."""
        return msgspec.json.encode(Announcement(self.id, self.place, self.started, update))

    def read(self, payload: bytes) -> Announcement | None:
        """Return another coordinator's announcement; None: it is this one's, or malformed."""
        try:
            found = msgspec.json.decode(payload, type=Announcement)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return None if found.id == self.id else found

    def yields_to(self, other: Announcement | None, update: int) -> bool:
        """Return whether this one has to stop."""
        if other is None:
            return False
        ours, theirs = (update, -self.started, self.id), (other.update, -other.started, other.id)
        return theirs > ours


def describe(other: Announcement) -> str:
    """Return who the other one is, for a message."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(other.started))
    return one_line(f"{other.place}, since {since}, last update {other.update}")
