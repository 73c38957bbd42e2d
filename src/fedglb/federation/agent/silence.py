"""Default rewards: a thread learns them from silence, and late rewards in their place."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence

from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.errors import Unavailable

log = logging.getLogger(__name__)
_AT_ONCE = 50  # rewards: a few milliseconds, in which other calls wait
_LONGEST_PAUSE = 1.0  # seconds between two looks
_SHARE = 0.1  # of the time may go into replacing rewards: each time, all samples are learned again
_PATIENCE = 60.0  # seconds that a replacement waits for an update in progress
_LOG_EVERY = 60.0  # seconds between two log lines


class Silence:
    """Learns default rewards in a thread; `learned` gets the rewards and the trigger's step."""

    def __init__(
        self,
        durable: DurableClient,
        calls: ApplicationCalls,
        learned: Callable[[Sequence[float], int], None],
    ) -> None:
        self._durable, self._calls, self._learned = durable, calls, learned
        self._pause = min(_LONGEST_PAUSE, 0.1 * durable.rules.reward_after)
        self._stop = threading.Event()
        self._next = self._late_since = 0.0  # of replacements: a time of the monotonic clock
        self._logged_at, self._logged = time.monotonic(), durable.defaulted + durable.replaced
        self._thread = threading.Thread(target=self._run, name="fedglb-silence", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; what it has not learned, the next one does."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._look()
            except Unavailable:
                return  # closed meanwhile
            except sqlite3.Error as error:
                log.warning("default rewards are not learned: %s; trying again", error)
                self._stop.wait(10.0 * _LONGEST_PAUSE)
            except Exception:
                log.exception("default rewards are not learned: trying again")
                self._stop.wait(10.0 * _LONGEST_PAUSE)

    def _look(self) -> None:
        rewards, step = self._calls.learn_silence(_AT_ONCE)
        while rewards:
            self._learned(rewards, step)
            if self._stop.wait(0.001):  # other threads take the lock
                return
            rewards, step = self._calls.learn_silence(_AT_ONCE)
        self._replace()
        self._log()

    def _replace(self) -> None:
        """Learn late rewards, if any came: rarely, and not during an update."""
        now = time.monotonic()
        if now < self._next or not self._calls.has_late():
            return
        self._late_since = self._late_since or now
        client = self._durable.protocol_client
        if client.update > client.adopted and now - self._late_since < _PATIENCE:
            return  # the agent would have to leave the update
        self._learned([], self._calls.learn_late())
        self._late_since = 0.0
        self._next = now + (time.monotonic() - now) / _SHARE

    def _log(self) -> None:
        count = self._durable.defaulted + self._durable.replaced
        if count > self._logged and time.monotonic() - self._logged_at >= _LOG_EVERY:
            log.info(
                "%d decisions got the default reward so far; rewards that came later have "
                "replaced %d of them", self._durable.defaulted, self._durable.replaced,
            )  # fmt: skip
            self._logged_at, self._logged = time.monotonic(), count
