"""The newest status of a coordinator, for those who show it in other threads."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from fedglb.federation.coordinator.status import CoordinatorStatus

log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two pictures
_CERTIFICATES_EVERY = 600.0  # seconds between two looks at the certificates' files


class Board:
    """Holds the newest picture of a coordinator; any thread may read it.

    Parameters
    ----------
    read_certificates
        Returns whose certificate ends when (Unix times). It may take a while: it is called in a
        thread of its own.
    """

    def __init__(self, read_certificates: Callable[[], Mapping[str, float]] | None = None) -> None:
        self._read_certificates = read_certificates
        self.watched = False  # whether anybody reads `latest`
        self.latest: CoordinatorStatus | None = None
        self.certificates: Mapping[str, float] = {}

    async def keep_current(self, status: Callable[[], CoordinatorStatus]) -> None:
        """Take a picture every second while it is watched, until cancelled."""
        read_at = -_CERTIFICATES_EVERY
        while True:
            if self._read_certificates and time.monotonic() - read_at >= _CERTIFICATES_EVERY:
                read_at = time.monotonic()
                try:
                    self.certificates = await asyncio.to_thread(self._read_certificates)
                except Exception as error:  # whatever is wrong with what is shown, updates go on
                    log.warning("certificates cannot be read: %s", error)
            if self.watched:
                try:
                    self.latest = status()
                except Exception:
                    log.exception("no status can be shown")
            await asyncio.sleep(_EVERY)
