"""The agent's service beside a bare handler of the same framework that inserts into SQLite.

`python -m benchmarks.service` measures, in turns and in one run, `choose` and `observe` over HTTP
with 1, 4 and 16 connections: p50, p99, pairs per second, and the service's processor time per pair,
which does not depend on what else the machine does; then the caller's time of our clients beside
http.client. Requests are bytes over sockets: a client library's own cost would hide the service's.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec
import numpy as np

import fedglb as fg
from benchmarks.local_federation import cpu_seconds

D, K, SHOWN = 10, 25, 64
CONNECTIONS = (1, 4, 16)
HEAD = {"Content-Type": "application/json"}
Body = Callable[[int], bytes]  # of the k-th request to choose


def offered() -> list[list[list[float]]]:
    """Return some sets of arms."""
    arms = np.random.default_rng(0).normal(size=(SHOWN, K, D))
    arms /= np.linalg.norm(arms, axis=2).max()
    found: list[list[list[float]]] = arms.tolist()
    return found


ARMS = offered()
BODIES = [msgspec.json.encode({"arms": arms}) for arms in ARMS]
KEYS = iter(range(10**9))


def plain(k: int) -> bytes:
    return BODIES[k % SHOWN]


def keyed(k: int) -> bytes:
    return BODIES[k % SHOWN][:-1] + b',"key":"view-%d"}' % next(KEYS)


def request(path: str, body: bytes) -> bytes:
    """Return a POST as bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@dataclass
class Row:
    """What was measured for one kind of server and a number of connections, over all turns.

    Seconds of each `choose` and each `observe`; pairs per second and processor seconds per pair of
    each turn.
    """

    choose: list[float] = field(default_factory=list)
    observe: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def p50(self) -> float:
        """Return the µs of a choice and its reward."""
        return 1e6 * float(np.median(self.choose) + np.median(self.observe))

    def cells(self) -> list[str]:
        """Return the numbers as text."""
        both = (self.choose, self.observe)
        numbers = [1e6 * float(np.percentile(x, p)) for x in both for p in (50, 99)]
        return [
            *(f"{x:,.0f}" for x in numbers),
            f"{statistics.median(self.rates):,.0f}",
            f"{1e6 * statistics.median(self.processor):,.0f}",
        ]


def drive(port: int, connections: int, pairs: int, body: Body, row: Row) -> None:
    """Choose, then report a reward, `pairs` times over each of some connections at a time."""
    poll, clock = select.epoll(), time.perf_counter
    sockets: dict[int, socket.socket] = {}
    state: dict[int, tuple[str, float, int, bytes]] = {}  # request, start, number, bytes received
    begin = clock()
    for _ in range(connections):
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[made.fileno()] = made
        poll.register(made.fileno(), select.EPOLLIN)
        made.sendall(request("/v1/choose", body(0)))
        state[made.fileno()] = ("choose", clock(), 0, b"")
    while state:
        for number, _ in poll.poll():
            kind, since, index, got = state[number]
            got += sockets[number].recv(65536)
            head, found_end, rest = got.partition(b"\r\n\r\n")
            length = 0
            if found_end:
                assert head.startswith(b"HTTP/1.1 200"), got
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            if not found_end or len(rest) < length:
                state[number] = (kind, since, index, got)
                continue
            getattr(row, kind).append(clock() - since)
            if kind == "choose":
                id_ = msgspec.json.decode(rest)["id"]
                answer = request("/v1/observe", b'{"id":"%s","reward":1.0}' % id_.encode())
                following = "observe"
            elif index + 1 < pairs:
                following, index = "choose", index + 1
                answer = request("/v1/choose", body(index))
            else:
                del state[number]
                continue
            state[number] = (following, clock(), index, b"")
            sockets[number].sendall(answer)
    row.rates.append(connections * pairs / (clock() - begin))
    for made in sockets.values():
        made.close()
    poll.close()


@dataclass(frozen=True)
class Server:
    """A process that listens on a port of this machine."""

    process: subprocess.Popen[str]
    port: int

    def seconds(self) -> float:
        """Return its processor time so far."""
        return cpu_seconds(self.process.pid)


@contextmanager
def server(*command: str) -> Iterator[Server]:
    """Start a module as a server that prints its URL first."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Server(process, int(process.stdout.readline().rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait()


def table(rows: dict[tuple[str, int], Row], bare: str) -> None:
    """Print the rows, with ratios to the bare handler's."""
    print(
        "| | connections | choose p50, µs | p99 | observe p50, µs | p99 | pairs per second "
        "| processor, µs per pair | p50 / bare | processor / bare |"
    )
    print("|---" * 10 + "|")
    for (name, connections), row in rows.items():
        base = rows[bare, connections]
        ratios = [
            row.p50() / base.p50(),
            statistics.median(row.processor) / statistics.median(base.processor),
        ]
        cells = [name, str(connections), *row.cells(), *(f"{x:.2f}" for x in ratios)]
        print("| " + " | ".join(cells) + " |", flush=True)


def measure(
    kinds: Mapping[str, tuple[Server, Body]], pairs: int, turns: int
) -> dict[tuple[str, int], Row]:
    """Load each kind of server in turn."""
    rows = {(name, n): Row() for n in CONNECTIONS for name in kinds}
    for running, body in kinds.values():
        drive(running.port, 1, 200, body, Row())  # warm
    for _ in range(turns):
        for (name, n), row in rows.items():
            running, body = kinds[name]
            before = running.seconds()
            drive(running.port, n, pairs // n, body, row)
            row.processor.append((running.seconds() - before) / (pairs // n * n))
    return rows


def clients(port: int, count: int, turns: int) -> None:
    """Print the caller's cost of a choice with its reward, by client."""
    url = f"http://127.0.0.1:{port}"
    bare, ours = http.client.HTTPConnection("127.0.0.1", port), fg.AgentClient(url)

    def with_http_client() -> None:
        for k in range(count):
            bare.request("POST", "/v1/choose", plain(k), HEAD)
            bare.request("POST", "/v1/observe", _reward(bare.getresponse().read()), HEAD)
            bare.getresponse().read()

    def with_ours() -> None:
        for k in range(count):
            ours.observe(ours.choose(ARMS[k % SHOWN]).id, 1.0)

    async def with_async_client() -> None:
        async with fg.AsyncAgentClient(url) as client:
            for k in range(count):
                await client.observe((await client.choose(ARMS[k % SHOWN])).id, 1.0)

    kinds: dict[str, Callable[[], None]] = {
        "http.client, by hand": with_http_client,
        "AgentClient": with_ours,
        "AsyncAgentClient": lambda: asyncio.run(with_async_client()),
    }
    seen: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(turns):
        for name, run in kinds.items():
            before = time.process_time()
            run()
            seen[name].append((time.process_time() - before) / count * 1e6)
    print("\n| client | the caller's processor time, µs per pair |\n|---|---|")
    for name, found in seen.items():
        print(f"| {name} | {statistics.median(found):,.0f} |", flush=True)
    bare.close()
    ours.close()


def _reward(answer: bytes) -> bytes:
    return msgspec.json.encode({"id": msgspec.json.decode(answer)["id"], "reward": 1.0})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000, help="per turn")
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        agent = ("fedglb", "agent", "serve", f"{folder}/a.db", "--dim", str(D))
        with (
            server("benchmarks.bare_service", f"{folder}/s.db") as bare,
            server(*agent, "--http", "127.0.0.1:0") as running,
        ):
            kinds = {
                "bare handler": (bare, plain),
                "the agent's service": (running, plain),
                "the agent's service, with keys": (running, keyed),
            }
            print(f"d={D} K={K}, {len(BODIES[0]):,} bytes per request to choose\n")
            table(measure(kinds, given.pairs, given.turns), "bare handler")
            clients(running.port, given.pairs // 4, given.turns)


if __name__ == "__main__":
    main()
