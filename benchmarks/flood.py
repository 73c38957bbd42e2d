"""One valid client floods the coordinator: the cost of the others' updates meanwhile.

Run from the repository's root: `.venv/bin/python -m benchmarks.flood`. A real nats-server with TLS,
a coordinator, three agents that learn, and a fourth that takes part
honestly while a second connection with its certificate and its session sends messages of one kind,
`RATE` a second. Some updates without the flood and some with it take turns. An update's time is
from its start (the coordinator's event) until the last of the three agents holds its model, ten
seconds at most. The flood is a separate process, at the lowest priority: it stands for another
machine. "CPU" is the coordinator's share of a core during the flood.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from benchmarks.local_federation import Coordinator, Place, coordinator, federation, learn
from fedglb.federation import Agent
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.names import up
from fedglb.federation.wire.codec import encode
from fedglb.federation.wire.messages import Goodbye, Heartbeat, Upward, Withdrawal
from fedglb.protocol.messages import Covariance, Derivatives, SyncRequest

D, RATE, SAMPLES = 10, 10_000, 20
HONEST, FLOODER = ("a", "b", "c"), "f"
FAST = 40_000  # more than is aimed at
LARGE = 200 * 1024
LARGE_RATE = 250  # of these, 50 MB a second
INTERVAL = 0.2  # seconds between updates, at least: five times as many as by default
TIMEOUT = 10.0  # seconds after which an update counts as taking that long

#: Speaks NATS by hand: a library would be too slow for a flood.
SENDER = r"""
import json, os, select, socket, ssl, sys, time
os.nice(19)
told = json.loads(sys.stdin.readline())
context = ssl.create_default_context(cafile=told["ca"])
context.load_cert_chain(told["cert"], told["key"])
door = context.wrap_socket(
    socket.create_connection((told["host"], told["port"])), server_hostname=told["host"])
door.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
def drain():
    while select.select([door], [], [], 0)[0] or door.pending():
        data = door.recv(65536)
        if not data:
            raise SystemExit("the server closed the connection")
        if b"PING" in data:
            door.sendall(b"PONG\r\n")
print("ready", flush=True)
on, sent, payloads, k = None, 0, [], 0
while True:
    if select.select([sys.stdin], [], [], 0 if on else 0.05)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        if on:
            print(sent / (time.monotonic() - on), flush=True)
            on = None
        else:
            rate, kinds = json.loads(line)
            payloads = [f"PUB {told['subject']} {len(p) // 2}\r\n".encode() + bytes.fromhex(p)
                        + b"\r\n" for p in kinds]
            on, sent, k = time.monotonic(), 0, 0
    if on:
        due = min(int((time.monotonic() - on) * rate) - sent, max(1, rate // 20))
        if due > 0:
            door.sendall(b"".join(payloads[(k + i) % len(payloads)] for i in range(due)))
            sent, k = sent + due, (k + due) % len(payloads)
        time.sleep(0.002)
    drain()
"""


class Flood:
    """The second connection of the client that floods."""

    def __init__(self, place: Place) -> None:
        bundle = place.bundle(FLOODER)
        host, _, port = bundle.server.rpartition("://")[2].rpartition(":")
        told = {
            "ca": str(bundle.folder / "ca.pem"), "cert": str(bundle.folder / "cert.pem"),
            "key": str(bundle.folder / "key.pem"), "host": host, "port": int(port),
            "subject": up(bundle.federation, FLOODER),
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", SENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell(told)
        self._hear()

    def start(self, payloads: list[bytes], rate: int) -> None:
        """Send these in turn, `rate` per second."""
        self._tell([rate, [payload.hex() for payload in payloads]])

    def stop(self) -> float:
        """Return the number of messages sent per second."""
        self._tell("stop")
        return float(self._hear())

    def _tell(self, what: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def _hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline() or "nan"

    def close(self) -> None:
        """End its process."""
        self.process.kill()
        self.process.wait()


@contextmanager
def stage(folder: Path) -> Iterator[tuple[Coordinator, dict[str, Agent], Flood]]:
    """A federation in which all have joined."""
    with ExitStack() as stack:
        place = stack.enter_context(federation(folder / "federation", [*HONEST, FLOODER], D))
        policy = CoordinatorPolicy(time_limit=2.0, min_interval=INTERVAL)
        head = stack.enter_context(coordinator(place, policy))
        agents = {
            name: stack.enter_context(
                Agent.open(folder / f"{name}.db", fg.Problem(D), bundle=place.bundle(name).folder)
            )
            for name in (*HONEST, FLOODER)
        }
        flood = Flood(place)
        stack.callback(flood.close)
        head.wait_for_members(len(agents))
        yield head, agents, flood


def kinds(agent: Agent) -> dict[str, tuple[list[bytes], int]]:
    """Messages by kind, and their number per second."""
    session = agent._session
    assert session is not None
    small: dict[str, Upward] = {
        "Hello": session.hello(),
        "Heartbeat": Heartbeat(0, 0),
        "SyncRequest": SyncRequest(FLOODER, 1, 2**52),
        "Withdrawal": Withdrawal(2**52),
        "Covariance": Covariance(FLOODER, 1, 4, np.eye(D)),
        "Derivatives": Derivatives(FLOODER, 1, 1, np.zeros(D), np.eye(D)),
    }
    out = {name: ([encode(message, session.session)], RATE) for name, message in small.items()}
    out[f"Heartbeat, {FAST:,} a second"] = (out["Heartbeat"][0], FAST)
    rng = np.random.default_rng(1)
    out["garbage, 60 bytes"] = ([rng.bytes(60) for _ in range(50)], RATE)
    out[f"garbage, {LARGE // 1024} kB"] = ([b"fgb\x02" + bytes(LARGE)], LARGE_RATE)
    farewell = [encode(message, session.session) for message in (Goodbye(), session.hello())]
    return {**out, "Goodbye and Hello": (farewell, RATE)}  # the last: its session ends


def update(head: Coordinator, agents: dict[str, Agent], rng: np.random.Generator) -> float:
    """Let an agent ask for an update; return the seconds from its start to the last model."""
    for name in HONEST:
        learn(agents[name], rng, D, SAMPLES)
    number = max(agent.status.model for agent in agents.values()) + 1
    agents["a"].request_update()
    held = all(agents[name].wait_for_model(number, TIMEOUT) for name in HONEST)
    done = time.time()
    if not held:
        return TIMEOUT
    while (event := head.next_event("updating", TIMEOUT))["update"] != number:
        pass
    return done - float(event["time"])


def measure(rounds: int, each: int) -> dict[str, dict[str, float]]:
    """Return for each kind: seconds without and with the flood, and messages a second."""
    rng = np.random.default_rng(0)
    out: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, stage(Path(folder)) as (head, agents, flood):
        for _ in range(3):
            update(head, agents, rng)
        for name, (payloads, rate) in kinds(agents[FLOODER]).items():
            quiet: list[float] = []
            flooded: list[float] = []
            rates: list[float] = []
            used, took = 0.0, 0.0
            for _ in range(rounds):
                quiet += [update(head, agents, rng) for _ in range(each)]
                flood.start(payloads, rate)
                time.sleep(0.5)
                before, since = head.cpu, time.monotonic()
                flooded += [update(head, agents, rng) for _ in range(each)]
                used, took = used + head.cpu - before, took + time.monotonic() - since
                rates.append(flood.stop())
                time.sleep(0.5)
            out[name] = {
                "per second": statistics.median(rates),
                "quiet": statistics.median(quiet),
                "flooded": statistics.median(flooded),
                "ratio": statistics.median(flooded) / statistics.median(quiet),
                "CPU": used / took,
                "worst quiet": max(quiet),
                "worst flooded": max(flooded),
            }
            print(name, {k: round(v, 4) for k, v in out[name].items()}, file=sys.stderr, flush=True)
    return out


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--each", type=int, default=15)
    given = parser.parse_args()
    print("| flood of | sent per second | quiet (ms) | flooded (ms) | ratio | CPU |")
    print("|---|---|---|---|---|---|")
    for name, row in measure(given.rounds, given.each).items():
        cells = [f"{row['per second']:,.0f}", f"{1e3 * row['quiet']:.1f}"]
        cells += [f"{1e3 * row['flooded']:.1f}", f"{row['ratio']:.2f}", f"{row['CPU']:.0%}"]
        print("| " + " | ".join([name, *cells]) + " |")


if __name__ == "__main__":
    main()
