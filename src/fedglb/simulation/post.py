"""The post between clients and coordinator: which message arrives when, on a simulated clock."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedglb.environments.base import generator
from fedglb.environments.network import Network

_DRAWN = 1024  # uniforms drawn at once


class Post:
    """Messages on their way, in the order in which they arrive; at once without a network.

    `now` is the time in seconds: of the step, or of the event that was last taken from `events`.
    """

    def __init__(self, network: Network | None, clients: int, seed: int) -> None:
        self.network = network
        self.now = 0.0
        self._events: list[tuple[float, int, Any]] = []
        self._number = itertools.count()  # of events at the same time, the first one comes first
        if network is not None:
            network.check(clients)
            self._loss, self._delay, self._bandwidth = (
                network.of_clients(name, clients) for name in ("loss", "delay", "bandwidth")
            )
            self._free = np.zeros((clients, 2))  # when a link has sent all before
            self._last = np.zeros((clients, 2))  # when the last message arrives
            self._uniforms = _uniforms(generator(seed, "network"))

    def begin(self, t: int) -> None:
        """Set the clock to step t."""
        if self.network is not None:
            self.now = t * self.network.step

    def send(self, event: Any, client: int, *, upward: bool, bits: int) -> int:
        """Let an event happen when a message of a client's link arrives.

        Returns how often the message was sent again.
        """
        arrival, again = self.now, 0
        if self.network is not None:
            arrival, again = self._arrival(self.network, client, int(upward), bits)
        self._put(arrival, event)
        return again

    def wait(self, event: Any, seconds: float) -> None:
        """Let an event happen after some seconds; never, if there are infinitely many."""
        if seconds < math.inf:
            self._put(self.now + seconds, event)

    def events(self) -> Iterator[Any]:
        """Yield the events up to now, in their order; meanwhile `now` is the time of each."""
        until = self.now
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            yield event
        self.now = until

    def _put(self, time: float, event: Any) -> None:
        heapq.heappush(self._events, (time, next(self._number), event))

    def _arrival(self, network: Network, i: int, way: int, bits: int) -> tuple[float, int]:
        """Return when a message arrives, and how often it was sent again."""
        again, sending = 0, bits / self._bandwidth[i]
        start = self._there(network, i, max(self.now, self._free[i, way]))
        while self._loss[i] > 0.0 and next(self._uniforms) < self._loss[i]:
            again += 1
            start = self._there(network, i, start + sending + network.retry)
        self._free[i, way] = start + sending
        flight = self._delay[i]
        if network.jitter > 0.0:
            flight += network.jitter * next(self._uniforms)
        arrival = self._there(network, i, start + sending + flight)
        self._last[i, way] = arrival = max(arrival, self._last[i, way])
        return float(arrival), again

    @staticmethod
    def _there(network: Network, i: int, time: float) -> float:
        """Return the first time from `time` on at which a client can be reached."""
        for begin, end in network.absences(i):
            if begin <= time < end:
                time = end
        return time


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_DRAWN)
