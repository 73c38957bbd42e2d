"""What Prometheus asks for: requests and their duration, and where the agent stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from fedglb.federation import Agent, Unavailable
from fedglb.service.openapi import VERSION

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """The counters of one service.

    Parameters
    ----------
    agent
        Whose status is reported, when it is asked for.
    """

    def __init__(self, agent: Agent) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "fedglb_requests", "Requests by path and status.", ["path", "status"],
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "fedglb_request_seconds", "Seconds from a request's head to its answer's end.",
            ["path"], buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        self.waiting = Gauge(
            "fedglb_requests_waiting", "Requests that are being read or answered.",
            registry=self.registry,
        )  # fmt: skip
        info = Gauge("fedglb_build_info", "The release.", ["version"], registry=self.registry)
        info.labels(VERSION).set(1)
        self.registry.register(_OfAgent(agent))
        self._counted: dict[tuple[str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        counter = self._counted.get((path, status))
        if counter is None:  # to look a label up takes longer than to count
            counter = self._counted[path, status] = self._requests.labels(path, status)
            self._timed[path] = self._seconds.labels(path)
        counter.inc()
        self._timed[path].observe(seconds)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many requests there were by path and status."""
        [family] = self._requests.collect()
        return {
            (sample.labels["path"], sample.labels["status"]): int(sample.value)
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def text(self) -> bytes:
        """Return all of them in Prometheus's format."""
        return generate_latest(self.registry)


class _OfAgent(Collector):
    """The numbers and yes-or-nos of an agent's status, read when they are asked for."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            status = self._agent.status
        except Unavailable:
            return  # it is closed: no numbers rather than old ones
        for name, value in asdict(status).items():
            if isinstance(value, bool | int | float):
                text = f"`{name}` of the agent's status."
                yield GaugeMetricFamily(f"fedglb_agent_{name}", text, value=float(value))
        if status.privacy is not None:
            for name in ("epsilon", "budget", "releases"):
                text, value = f"`privacy.{name}` of the status.", getattr(status.privacy, name)
                yield GaugeMetricFamily(f"fedglb_agent_privacy_{name}", text, value=float(value))
        refused = float(status.refused is not None)
        yield GaugeMetricFamily("fedglb_agent_refused", "Whether it is refused.", value=refused)
