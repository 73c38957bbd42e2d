"""Coordinators of one federation notice each other, and one of them stops.

Two of them would start updates under the same numbers. They have the same certificate, so the
server cannot tell them apart: each announces itself every second, on a subject that only they use.
"""

from __future__ import annotations

import os
import secrets
import socket
import time

import msgspec

from fedglb.federation.names import one_line


class Announcement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A coordinator's identity, start time and last update.

    The one with fewer updates stops; with equal numbers, the younger one. So a second one that
    was started by mistake stops, and so does one that was suspended (a virtual machine) while
    another took its place. Both sides reach the same result, so exactly one goes on. A killed
    coordinator announces nothing and stops no other.
    """

    id: str
    place: str
    started: float
    update: int = 0

    @classmethod
    def new(cls) -> Announcement:
        """Return the announcement of this process."""
        place = f"{socket.gethostname()}, process {os.getpid()}"
        return cls(secrets.token_hex(8), place, time.time())

    def at(self, update: int) -> Announcement:
        """Return the same with the number of the last update."""
        return msgspec.structs.replace(self, update=update)

    def other(self, payload: bytes) -> Announcement | None:
        """Return another coordinator's announcement; None: this one's, or malformed."""
        try:
            found = msgspec.json.decode(payload, type=Announcement)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return None if found.id == self.id else found

    def yields_to(self, other: Announcement) -> bool:
        """Return whether this coordinator has to stop."""
        ours, theirs = (
            (self.update, -self.started, self.id),
            (other.update, -other.started, other.id),
        )
        return theirs > ours

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.started))
        return one_line(f"{self.place}, since {since}, last update {self.update}")
