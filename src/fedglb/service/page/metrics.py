"""What Prometheus asks for: the status as numbers."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fedglb.federation.coordinator.status import CoordinatorStatus

#: Of the totals: what they count.
_TOTALS = {
    "updates": "Global updates that led to a model.",
    "rounds": "Rounds of all updates.",
    "messages": "Messages of updates, each counted once.",
    "scalars": "Numbers that these carried.",
    "sent": "All messages sent and received, repeated ones included.",
    "bytes": "Bytes of all messages.",
}


def metrics(status: CoordinatorStatus) -> bytes:
    """Return a status in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(_Status(status))
    return generate_latest(registry)


class _Status(Collector):
    """The numbers of one status."""

    def __init__(self, status: CoordinatorStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status
        for name, text in _TOTALS.items():
            total = getattr(status.totals, name)
            yield CounterMetricFamily(f"fedglb_coordinator_{name}", text, value=total)
        gauges = {
            "connected": ("Whether it is connected to the NATS server.", status.connected),
            "updating": ("Whether an update is in progress.", status.updating is not None),
            "model": ("The number of the update that led to the newest model.", status.model),
            "samples": ("Samples that the model covers.", status.totals.samples),
            "members": ("Clients that were ever admitted.", len(status.members)),
            "members_present": ("Clients that are present.", status.present),
            "started_timestamp_seconds": ("When it started.", status.started or 0.0),
        }
        if status.updates:
            last = status.updates[-1]
            gauges |= {
                "update_timestamp_seconds": ("When the last update ended.", last.at),
                "update_duration_seconds": ("How long the last update took.", last.seconds),
                "update_left_out": ("Clients left out of the last update.", len(last.left_out)),
            }
        if status.schedule is not None:
            following = status.schedule.next or 0.0
            gauges["next_update_timestamp_seconds"] = ("When the next is due.", following)
        if status.privacy is not None:
            gauges |= {
                "epsilon": ("What is promised.", status.privacy.epsilon),
                "epsilon_spent": ("What is spent of that.", status.privacy.spent),
            }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"fedglb_coordinator_{name}", text, value=float(value))
        yield from self._by_label()

    def _by_label(self) -> Iterator[Metric]:
        status = self._status
        events = CounterMetricFamily(
            "fedglb_coordinator_events", "Events since the start, by kind.", labels=["kind"]
        )
        for kind, count in sorted(status.event_counts.items()):
            events.add_metric([kind], count)
        yield events
        alarms = GaugeMetricFamily(
            "fedglb_coordinator_alarms", "Alarms that stand, by kind.", labels=["kind"]
        )
        kinds = [alarm.kind for alarm in status.alarms]
        for kind in sorted(set(kinds)):
            alarms.add_metric([kind], kinds.count(kind))
        yield alarms
        present = GaugeMetricFamily(
            "fedglb_coordinator_client_present", "Whether a client is present.", labels=["client"]
        )
        samples = GaugeMetricFamily(
            "fedglb_coordinator_client_samples",
            "Its samples that the model covers.", labels=["client"],
        )  # fmt: skip
        for member in status.members:
            present.add_metric([member.name], float(member.present))
            samples.add_metric([member.name], float(member.samples))
        yield present
        yield samples
        ends = GaugeMetricFamily(
            "fedglb_coordinator_certificate_end_timestamp_seconds",
            "When a certificate ends.", labels=["name"],
        )  # fmt: skip
        for certificate in status.certificates:
            ends.add_metric([certificate.name], certificate.ends)
        yield ends
