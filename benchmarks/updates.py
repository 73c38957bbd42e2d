"""Global updates over NATS beside bare broadcast-and-gather, with TLS, all on this machine.

Run from the repository's root: `.venv/bin/python -m benchmarks.updates [--json FILE]`. A bare
round: the coordinator's certificate publishes as many bytes as a question of Newton's to every
client, and each answers with as many bytes as an answer has, at once. Agents and bare clients are
spread over the same number of processes, on two servers of the same configuration; updates and
bare rounds take turns. An update counts from the request until the last agent holds the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import numpy as np

import fedglb as fg
from benchmarks.local_federation import NAME, SPAWN, Place, coordinator, federation
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
        agents = []
        for name in names:
            agent = Agent.open(
                place.folder / f"{name}.db", fg.Problem(D),
                bundle=place.bundle(name).folder, beat=5.0,
            )  # fmt: skip
            agents.append(stack.enter_context(agent))
        pipe.send("ready")
        while (order := pipe.recv()) is not None:
            update, asks = order
            if not update:
                for agent in agents:
                    learn(agent, rng)
                pipe.send("learned")
                continue
            start = time.monotonic()  # one clock for all processes
            if asks:
                agents[0].request_update()
            held = all(agent.wait_for_model(update, 120.0) for agent in agents)
            pipe.send((start, time.monotonic(), held))


def learn(agent: Agent, rng: np.random.Generator) -> None:
    """Give an agent more samples."""
    for _ in range(SAMPLES):
        arms = rng.standard_normal((5, D))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        decision = agent.choose(arms)
        agent.observe(decision.id, float(rng.random() < 0.5 + 0.4 * arms[decision.arm, 0]))


def update(pipes: Sequence[Any], number: int) -> float:
    """Let the first agent ask for an update; return the seconds until all hold the model."""
    for pipe in pipes:
        pipe.send((0, False))
    for pipe in pipes:
        pipe.recv()
    for k, pipe in reversed(list(enumerate(pipes))):  # who asks is told last: all wait by then
        pipe.send((number, k == 0))
    said = [pipe.recv() for pipe in pipes]
    if not all(held for _, _, held in said):
        raise TimeoutError(f"update {number}")
    return float(max(end for _, end, _ in said) - said[0][0])


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


def measure(folder: Path, count: int, updates: int, bare_rounds: int) -> dict[str, Any]:
    """Return the medians of one run with so many clients."""
    names = [f"shop-{k:03}" for k in range(count)]
    parts = [names[k::PROCESSES] for k in range(PROCESSES)]
    with ExitStack() as stack:
        place, other = (
            stack.enter_context(federation(folder / kind, names, D)) for kind in ("agents", "bare")
        )
        head = stack.enter_context(coordinator(place))
        agents: list[Any] = []
        clients: list[Any] = []
        for target, where, pipes in ((run_agents, place, agents), (run_bare, other, clients)):
            for part in parts:
                ours, theirs = SPAWN.Pipe()
                process = SPAWN.Process(target=target, args=(where, part, theirs), daemon=True)
                process.start()
                stack.callback(_end, process, ours)
                pipes.append(ours)
        head.wait_for_members(count, 300.0)
        for pipe in (*agents, *clients):
            pipe.recv()
        return asyncio.run(_in_turn(head, other, names, agents, updates, bare_rounds))


def _end(process: Any, pipe: Any) -> None:
    pipe.send(None)
    process.join(30.0)
    process.kill()


async def _in_turn(
    head: Any, other: Place, names: Sequence[str], agents: Sequence[Any], updates: int, each: int
) -> dict[str, Any]:
    connection = await nats.connect(**other.coordinator.connection())
    gatherer = Gatherer(connection, names)
    await gatherer.begin()
    full, inside, rounds, size, bare = [], [], [], [], []
    for number in range(1, updates + 3):
        took = await asyncio.to_thread(update, agents, number)
        facts = await asyncio.to_thread(head.next_event, "updated", 60.0)
        gathered = [await gatherer.round() for _ in range(each)]
        if number > 2:  # warm
            full.append(1e3 * took)
            inside.append(1e3 * facts["seconds"])
            rounds.append(facts["rounds"])
            size.append(facts["bytes"])
            bare += [1e3 * seconds for seconds in gathered]
    await connection.close()
    exchanges = float(np.median(rounds)) + 2  # the covariances, the rounds, the model
    per_round, one = float(np.median(full)) / exchanges, float(np.median(bare))
    return {
        "agents": len(names), "update ms": float(np.median(full)), "worst ms": max(full),
        "until solved ms": float(np.median(inside)), "rounds": float(np.median(rounds)),
        "kB": float(np.median(size)) / 1e3, "ms per round": per_round, "bare ms": one,
        "ratio": per_round / one,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    parser.add_argument("--agents", type=int, nargs="*", default=[5, 20, 200])
    parser.add_argument("--updates", type=int, default=20)
    given = parser.parse_args(arguments)
    print(f"d={D}, Newton, {SAMPLES} new samples an agent and update, ", end="")
    print(f"agents in {PROCESSES} processes, TLS; ", end="")
    print(f"a question has {len(QUESTION)} bytes, an answer {len(ANSWER)}")
    print("| agents | update, ms | worst | rounds | kB | ms per round | bare round, ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    out = []
    for count in given.agents:
        with tempfile.TemporaryDirectory() as folder:
            row = measure(Path(folder), count, given.updates, bare_rounds=10)
        out.append(row)
        print(
            f"| {count} | {row['update ms']:.1f} | {row['worst ms']:.1f} | {row['rounds']:.0f} "
            f"| {row['kB']:.0f} | {row['ms per round']:.2f} | {row['bare ms']:.2f} "
            f"| {row['ratio']:.2f} |",
            flush=True,
        )
    if given.json:
        given.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
