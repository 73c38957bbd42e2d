"""Prometheus metrics of both services: requests, the agent's status, the coordinator's status."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from fedglb.federation import Agent, Unavailable
from fedglb.federation.agent import alarms as agent_alarms
from fedglb.federation.alarms import Alarm
from fedglb.service.openapi import VERSION

if TYPE_CHECKING:
    from fedglb.federation.coordinator.status import CoordinatorStatus

_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_AGENT, _COORDINATOR = "fedglb_agent_", "fedglb_coordinator_"
#: The coordinator's counters.
_TOTALS = {
    "updates": "Global updates that produced a model.",
    "rounds": "Rounds of all updates.",
    "messages": "Messages of updates, each counted once.",
    "scalars": "Numbers in these messages.",
    "sent": "All messages sent and received, repeated ones included.",
    "bytes": "Bytes of all messages.",
}


class Metrics:
    """The counters of one service's requests, and the numbers of its status (`collect`)."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "fedglb_requests", "Requests by path and status.", ["path", "status"],
            registry=registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "fedglb_request_seconds", "Seconds from a request's head to its answer's end.",
            ["path"], buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self.waiting = Gauge(
            "fedglb_requests_waiting", "Requests in progress.",
            registry=registry,
        )  # fmt: skip
        info = Gauge("fedglb_build_info", "The release.", ["version"], registry=registry)
        info.labels(VERSION).set(1)
        registry.register(_Status(collect))
        self._counted: dict[tuple[str, int], Counter] = {}
        self._timed: dict[str, Histogram] = {}

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        counter = self._counted.get((path, status))
        if counter is None:  # a label's lookup takes longer than counting
            counter = self._counted[path, status] = self._requests.labels(path, status)
            self._timed[path] = self._seconds.labels(path)
        counter.inc()
        self._timed[path].observe(seconds)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of requests by path and status."""
        [family] = self._requests.collect()
        return {
            (sample.labels["path"], sample.labels["status"]): int(sample.value)
            for sample in family.samples
            if sample.name.endswith("_total")
        }

    def answer(self) -> Response:
        """Return all metrics in Prometheus's text format."""
        kind = {"Content-Type": CONTENT_TYPE_LATEST}
        return Response(generate_latest(self._registry), headers=kind)


class _Status(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def agent_metrics(agent: Agent) -> Iterator[Metric]:
    """Return the numbers and booleans of an agent's status; none once it is closed."""
    try:
        status = agent.status
    except Unavailable:
        return
    for name, value in asdict(status).items():
        if isinstance(value, bool | int | float):
            yield _gauge(_AGENT + name, f"`{name}` of the agent's status.", value)
    if status.privacy is not None:
        for name in ("epsilon", "budget", "releases"):
            text = f"`privacy.{name}` of the agent's status."
            yield _gauge(f"{_AGENT}privacy_{name}", text, getattr(status.privacy, name))
    text = "The update whose model the agent is frozen at, 0 if it is not."
    yield _gauge(_AGENT + "frozen", text, 0 if status.frozen is None else status.frozen.update)
    text = "Whether the coordinator refuses the agent."
    yield _gauge(_AGENT + "refused", text, status.refused is not None)
    yield _alarms(agent_alarms.KINDS, status.alarms)


def coordinator_metrics(status: CoordinatorStatus) -> Iterator[Metric]:
    """Return the numbers of a coordinator's status."""
    from fedglb.federation.coordinator import alarms as coordinator_alarms

    for name, text in _TOTALS.items():
        yield CounterMetricFamily(_COORDINATOR + name, text, value=getattr(status.totals, name))
    gauges: dict[str, tuple[str, float]] = {
        "connected": ("Whether it is connected to the NATS server.", status.connected),
        "updating": ("Whether an update is in progress.", status.updating is not None),
        "model": ("The number of the update that produced the newest model.", status.model),
        "frozen": (
            "The update whose model all clients choose with, 0 if not frozen.",
            0 if status.frozen is None else status.frozen.update,
        ),
        "members": ("Clients that were admitted or added.", len(status.members)),
        "members_present": ("Clients present.", status.present),
        "started_timestamp_seconds": ("When it started.", status.started or 0.0),
    }
    if status.totals.samples is not None:
        gauges["samples"] = ("Samples that the model covers.", status.totals.samples)
    if status.updates:
        last = status.updates[-1]
        gauges |= {
            "update_timestamp_seconds": ("When the last update ended.", last.at),
            "update_duration_seconds": ("How long the last update took.", last.seconds),
            "update_left_out": ("Clients left out of the last update.", len(last.left_out)),
        }
    if status.memory is not None:
        half_life = math.inf if status.memory.half_life is None else status.memory.half_life
        gauges["half_life_seconds"] = ("After this time a sample counts half.", half_life)
    if status.schedule is not None:
        due = status.schedule.next or 0.0
        gauges["next_update_timestamp_seconds"] = ("When the next update is due.", due)
    if status.privacy is not None:
        gauges |= {
            "epsilon": ("The privacy budget.", status.privacy.epsilon),
            "epsilon_spent": ("The privacy budget spent.", status.privacy.spent),
        }
    for name, (text, value) in gauges.items():
        yield _gauge(_COORDINATOR + name, text, value)
    events = CounterMetricFamily(
        f"{_COORDINATOR}events", "Events since the start, by kind.", labels=["kind"]
    )
    for kind, count in sorted(status.event_counts.items()):
        events.add_metric([kind], count)
    yield events
    yield _alarms(coordinator_alarms.KINDS, status.alarms)
    present = {member.name: member.present for member in status.members}
    yield _gauges("client_present", "Whether a client is present.", "client", present)
    samples = {m.name: m.samples for m in status.members if m.samples is not None}
    yield _gauges("client_samples", "A client's samples in the model.", "client", samples)
    if status.spread is not None:
        text = "By how much clients differ, a standard deviation in the linear predictor."
        family = GaugeMetricFamily("fedglb_spread", text, labels=["of"])
        family.add_metric(["theta"], status.spread.theta)
        family.add_metric(["effects"], status.spread.effects)
        yield family
        yield _gauge(
            _COORDINATOR + "clients_far", "Clients far from all others.", status.spread.far
        )
        away = {m.name: m.distance for m in status.members if m.distance is not None}
        text = "How many times as far from the others as clients are on average."
        yield _gauges("client_distance", text, "client", away)
    ends = {certificate.name: certificate.ends for certificate in status.certificates}
    name = "certificate_end_timestamp_seconds"
    yield _gauges(name, "When a certificate expires.", "name", ends)


def _alarms(kinds: Iterable[str], standing: Iterable[Alarm]) -> Metric:
    family = GaugeMetricFamily("fedglb_alarm", "Whether an alarm stands.", labels=["name"])
    found = {alarm.kind for alarm in standing}
    for kind in kinds:
        family.add_metric([kind], float(kind in found))
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge of the coordinator with one value per label."""
    family = GaugeMetricFamily(_COORDINATOR + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family
