"""Global updates over NATS beside bare broadcast-and-gather, with TLS, all on this machine.

Run from the repository's root: `.venv/bin/python -m benchmarks.updates`. A bare round: the
coordinator's certificate publishes as many bytes as a question of Newton's to every client, and
each answers with as many bytes as an answer has, at once. Agents and bare clients are spread over
the same number of processes, on two servers of the same configuration; updates and bare rounds take
turns. An update counts from the request until the last agent holds the model. "CPU ratio" compares
the processor time of an update's exchange (coordinator and agents) with that of a bare round (both
sides, too): what else the machine does matters less to it. `--agents 2000 --updates 3 --no-bare`
needs 2,000 file descriptors per process and 3 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import numpy as np

import fedglb as fg
from benchmarks.local_federation import (
    NAME,
    SPAWN,
    Place,
    coordinator,
    cpu_seconds,
    federation,
    learn,
)
from fedglb.federation import Agent
from fedglb.federation.names import down, up
from fedglb.federation.wire.codec import encode
from fedglb.protocol.messages import Derivatives, Evaluate

D, PROCESSES, SAMPLES = 10, 4, 20
QUESTION = encode(Evaluate("c", 1, 1, 0, np.zeros(D), hessian=True, loss=False), "0" * 16)
ANSWER = encode(Derivatives("c", 1, 1, np.zeros(D), np.zeros((D, D)), None), "0" * 16)


# -- agents ----------------------------------------------------------------------------------


def run_agents(place: Place, names: Sequence[str], pipe: Any) -> None:
    """Open agents; let them learn, and per update say when all hold its model."""
    rng = np.random.default_rng(len(names))
    with ExitStack() as stack:
        agents: list[Agent] = []
        before = _held()
        start = time.monotonic()
        for name in names:
            agent = Agent.open(
                place.folder / f"{name}.db", fg.Problem(D),
                bundle=place.bundle(name).folder, beat=5.0,
            )  # fmt: skip
            agents.append(stack.enter_context(agent))
            if len(agents) == 1:  # it brings the compiled code and the threads
                before, start = _held(), time.monotonic()
        pipe.send((start, time.monotonic(), len(agents) - 1))
        while (order := pipe.recv()) is not None:
            if order == "held":
                grown = [now - then for now, then in zip(_held(), before, strict=True)]
                pipe.send((*grown, threading.active_count()))
                continue
            update, asks = order
            if not update:
                for agent in agents:
                    learn(agent, rng, D, SAMPLES)
                pipe.send("learned")
                continue
            start, used = time.monotonic(), time.process_time()  # one clock for all processes
            if asks:
                agents[0].request_update()
            held = all(agent.wait_for_model(update, 120.0) for agent in agents)
            pipe.send((start, time.monotonic(), held, time.process_time() - used))


def _held() -> tuple[float, float]:
    """What this process holds: kB of memory, and file descriptors."""
    return _memory("VmRSS", "self"), len(os.listdir("/proc/self/fd"))


def _memory(kind: str, pid: int | str) -> float:
    """Return a process's memory in kB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(kind)))


def update(pipes: Sequence[Any], number: int) -> tuple[float, float]:
    """Let the first agent ask for an update.

    Returns the seconds until all hold the model, and the CPU seconds of all agents meanwhile.
    """
    for pipe in pipes:
        pipe.send((0, False))
    for pipe in pipes:
        pipe.recv()
    for k, pipe in reversed(list(enumerate(pipes))):  # who asks is told last: all wait by then
        pipe.send((number, k == 0))
    said = [pipe.recv() for pipe in pipes]
    if not all(held for _, _, held, _ in said):
        raise TimeoutError(f"update {number}")
    last = max(end for _, end, _, _ in said)
    return float(last - said[0][0]), float(sum(used for *_, used in said))


# -- bare clients ------------------------------------------------------------------------------


def run_bare(place: Place, names: Sequence[str], pipe: Any) -> None:
    """Answer every message at once."""
    asyncio.run(_answer_all(place, names, pipe))


async def _answer_all(place: Place, names: Sequence[str], pipe: Any) -> None:
    clients = []
    for name in names:
        client = await nats.connect(**place.bundle(name).connection())
        subject = up(NAME, name)

        async def answer(_: Any, client: Any = client, subject: str = subject) -> None:
            await client.publish(subject, ANSWER)

        await client.subscribe(down(NAME, name), cb=answer)
        await client.flush()
        clients.append(client)
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)
    for client in clients:
        await client.close()


class Gatherer:
    """The bare coordinator's side."""

    def __init__(self, connection: Any, names: Sequence[str]) -> None:
        self._connection, self._subjects = connection, [down(NAME, name) for name in names]
        self._missing, self._complete = 0, asyncio.Event()

    async def begin(self) -> None:
        """Listen."""

        async def received(_: Any) -> None:
            self._missing -= 1
            if not self._missing:
                self._complete.set()

        await self._connection.subscribe(up(NAME, "*"), cb=received)
        await self._connection.flush()

    async def round(self) -> float:
        """Return the seconds from the first question to the last answer."""
        self._missing = len(self._subjects)
        self._complete.clear()
        start = time.perf_counter()
        for subject in self._subjects:
            await self._connection.publish(subject, QUESTION)
        await asyncio.wait_for(self._complete.wait(), 60.0)
        return time.perf_counter() - start


# -- both, in turn -----------------------------------------------------------------------------


def measure(folder: Path, count: int, updates: int, bare_rounds: int) -> dict[str, float]:
    """Return the medians of one run with this number of clients."""
    names = [f"shop-{k:04}" for k in range(count)]
    parts = [names[k::PROCESSES] for k in range(PROCESSES)]
    with ExitStack() as stack:
        place = stack.enter_context(federation(folder / "agents", names, D))
        targets = [(run_agents, place)]
        if bare_rounds:
            other = stack.enter_context(federation(folder / "bare", names, D))
            targets.insert(0, (run_bare, other))
        head = stack.enter_context(coordinator(place))
        started: dict[Any, list[int]] = {run_agents: [], run_bare: []}
        for target, where in targets:
            agents: list[Any] = []  # at the end: the last ones are the agents'
            for part in parts:
                ours, theirs = SPAWN.Pipe()
                process = SPAWN.Process(target=target, args=(where, part, theirs), daemon=True)
                process.start()
                started[target].append(process.pid or 0)
                stack.callback(_end, process, ours)
                agents.append(ours)
            opened = [pipe.recv() for pipe in agents]
        head.wait_for_members(count, 300.0)
        joined = time.monotonic() - min(start for start, _, _ in opened)
        server = other.coordinator.connection() if bare_rounds else None
        clients = started[run_bare]
        out = asyncio.run(_in_turn(head, server, clients, names, agents, updates, bare_rounds))
        for pipe in agents:
            pipe.send("held")
        held = np.sum([pipe.recv() for pipe in agents], axis=0)
        others = max(1, count - PROCESSES)  # but for the first of each process
        return {
            **out,
            "ms to open an agent": statistics.median(
                1e3 * (end - start) / max(1, n) for start, end, n in opened
            ),
            "s until all joined": joined,
            "kB per agent": held[0] / others,
            "descriptors per agent": held[1] / others,
            "threads per process": held[2] / PROCESSES,
            "coordinator MB": _memory("VmHWM", head.process.pid or 0) / 1e3,
        }


def _end(process: Any, pipe: Any) -> None:
    pipe.send(None)
    process.join(60.0)
    process.kill()


async def _in_turn(
    head: Any,
    server: Any,
    clients: Sequence[int],
    names: Sequence[str],
    agents: Sequence[Any],
    updates: int,
    each: int,
) -> dict[str, float]:
    if server is not None:
        connection = await nats.connect(**server)
        gatherer = Gatherer(connection, names)
        await gatherer.begin()
    full, own, theirs, rounds, size, bare, bare_used = [], [], [], [], [], [], []
    for number in range(1, updates + 3):
        before = head.cpu
        took, used = await asyncio.to_thread(update, agents, number)
        own_used = head.cpu - before
        facts = await asyncio.to_thread(head.next_event, "updated", 60.0)
        before = time.process_time() + sum(map(cpu_seconds, clients))
        gathered = [await gatherer.round() for _ in range(each)]
        after = time.process_time() + sum(map(cpu_seconds, clients))
        if number > 2:  # warm
            full.append(1e3 * took)
            own.append(own_used)
            theirs.append(used)
            rounds.append(facts["rounds"])
            size.append(facts["bytes"])
            bare += [1e3 * seconds for seconds in gathered]
            bare_used.append((after - before) / max(1, each))
    if server is not None:
        await connection.close()
    exchanges = statistics.median(rounds) + 2  # the covariances, the rounds, the model
    messages = len(names) * (2 * exchanges - 1) + 1  # a model has no answer
    per_round = statistics.median(full) / exchanges
    one = statistics.median(bare) if bare else math.nan
    used = (statistics.mean(own) + statistics.mean(theirs)) / exchanges
    return {
        "update ms": statistics.median(full), "worst ms": max(full),
        "rounds": statistics.median(rounds), "kB": statistics.median(size) / 1e3,
        "ms per round": per_round, "bare ms": one, "ratio": per_round / one,
        "CPU ms per round": 1e3 * used, "bare CPU ms": 1e3 * statistics.mean(bare_used),
        "CPU ratio": used / statistics.mean(bare_used) if bare else math.nan,
        "coordinator's us per message": 1e6 * statistics.mean(own) / messages,
        "agents' us per message": 1e6 * statistics.mean(theirs) / messages,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, nargs="*", default=[5, 20, 200])
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--no-bare", action="store_true", help="measure only updates")
    given = parser.parse_args(arguments)
    print(f"d={D}, Newton, {SAMPLES} new samples per agent and update, ", end="")
    print(f"agents in {PROCESSES} processes, TLS; ", end="")
    print(f"a question has {len(QUESTION)} bytes, an answer {len(ANSWER)}")
    for count in given.agents:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(Path(folder), count, given.updates, 0 if given.no_bare else 10)
        print(f"\n| {count} agents | |\n|---|---|")
        for name, value in found.items():
            print(f"| {name} | {value:.3g} |", flush=True)


if __name__ == "__main__":
    main()
