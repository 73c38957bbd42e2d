"""What secure sums cost: processor time of one client, and the time of an update over NATS.

Run from the repository's root: `.venv/bin/python -m benchmarks.secure_sums [--agents 20]`. First
the masks, the signatures to verify and the noise of one client and update (thread time, medians).
Then updates of four federations at once, each with its own server, coordinator and agents'
processes on this machine: sums in the clear without noise, noise in every silo, secure sums without
and with noise. Their schedules are the same and start a fraction of a second apart, so that updates
take turns. An update counts from its start until the coordinator has the model.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from benchmarks.local_federation import SPAWN, Place, coordinator, federation, learn
from fedglb.federation import Agent
from fedglb.federation.certificates import Certificate
from fedglb.federation.operator.authority import Authority
from fedglb.federation.secure_sums.masks import masked, own_seed
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.secure_sums.session_keys import KeyRing, verify_parts
from fedglb.privacy import SystemNoise
from fedglb.privacy.fixed_point import size

D, PROCESSES, SAMPLES = 10, 2, 20
SCHEDULE = {"name": "fedglb-private", "growth": 1.06}
PRIVACY = {"epsilon": 1.0, "delta": 1e-6}
KINDS: dict[str, tuple[dict[str, Any], bool]] = {
    "in the clear, no noise": ({}, False),
    "in the clear, noise in every silo": ({"privacy": {**PRIVACY, "noise": "silo"}}, False),
    "secure sums, no noise": ({}, True),
    "secure sums, noise in shares": ({"privacy": PRIVACY}, True),
}

#: With what each kind of secure sum is compared.
BESIDE = {
    "secure sums, no noise": "in the clear, no noise",
    "secure sums, noise in shares": "in the clear, noise in every silo",
}


def client_costs(clients: int, dim: int, repeats: int = 40) -> tuple[float, float, float]:
    """Return the median milliseconds of one client's masks, of signatures and of its noise."""
    problem = fg.Problem(dim)
    plan = fg.GaussianMechanism(epsilon=1.0, delta=1e-6).plan(problem, clients, updates=30)
    secrets = {k: os.urandom(32) for k in range(1, clients)}
    numbers, secret = np.arange(size(dim)), os.urandom(32)
    keys, names = member("shop-1"), ["shop-1"] * clients
    masks, signatures, noise = [], [], []
    for k in range(repeats):
        transcript = os.urandom(32)
        start = time.thread_time()
        masked(numbers, 0, secrets, own_seed(secret, transcript), transcript)
        masks.append(time.thread_time() - start)
        signed = [keys.sign(transcript)] * clients
        start = time.thread_time()
        verify_parts(keys.roster, names, signed, transcript)
        signatures.append(time.thread_time() - start)
        start = time.thread_time()
        SystemNoise().draw("shop-1", 1 + k % 30, plan)
        noise.append(time.thread_time() - start)
    masked_in, verified_in, drawn_in = map(statistics.median, (masks, signatures, noise))
    return 1e3 * masked_in, 1e3 * verified_in, 1e3 * drawn_in


def member(name: str) -> KeyRing:
    """Return the keys of the only member of a roster."""
    issued = Authority.new("bench").issue(f"fedglb://bench/{name}/1")
    roster = Roster({name: Certificate(issued.certificate).public_key})
    return KeyRing("bench", roster, name, 1, "session", issued.key)


def run_agents(place: Place, names: Sequence[str], pipe: Any) -> None:
    """Open agents with some samples; keep them until the end is requested."""
    rng = np.random.default_rng(len(names))
    with ExitStack() as stack:
        for name in names:
            path, bundle = place.folder / f"{name}.db", place.bundle(name).folder
            agent = stack.enter_context(Agent.open(path, fg.Problem(D), bundle=bundle, beat=5.0))
            learn(agent, rng, D, SAMPLES)
        pipe.send("here")
        pipe.recv()


def updates_of(agents: int, updates: int, first: float) -> dict[str, list[float]]:
    """Return the seconds that each update took, by the kind of federation."""
    names = [f"shop-{k}" for k in range(agents)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places, lines = {}, []
        for number, kind in enumerate(KINDS):
            more, secure = KINDS[kind]
            algorithm = {**SCHEDULE, "updates": updates, "first": first, **more}
            made = federation(folder / f"{number}", names, D, algorithm, 5 if secure else None)
            place = places[kind] = stack.enter_context(made)
            for k in range(PROCESSES):
                line, theirs = SPAWN.Pipe()
                some = names[k::PROCESSES]
                process = SPAWN.Process(target=run_agents, args=(place, some, theirs), daemon=True)
                process.start()
                stack.callback(process.join)
                stack.callback(line.send, "end")
                lines.append(line)
        for line in lines:
            assert line.recv() == "here"
        running = {}
        for kind, place in places.items():
            running[kind] = stack.enter_context(coordinator(place))
            time.sleep(0.3)
        out: dict[str, list[float]] = {}
        for kind, each in running.items():
            ended = False
            while not ended:
                what, facts = each.events.get(timeout=300.0)
                ended = what == "ended"
                if what == "updated" and facts["clients"] == agents:
                    out.setdefault(kind, []).append(float(facts["seconds"]))
        return out


def main() -> None:
    """Measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--updates", type=int, default=25)
    parser.add_argument("--first", type=float, default=15.0, help="seconds until the first one")
    given = parser.parse_args()
    print("| clients | d | masks | signatures | noise |\n|---|---|---|---|---|")
    for clients, dim in ((5, 10), (20, 10), (200, 10), (2000, 10), (200, 55)):
        costs = " | ".join(f"{each:.2f} ms" for each in client_costs(clients, dim))
        print(f"| {clients} | {dim} | {costs} |")
    found = updates_of(given.agents, given.updates, given.first)
    # the first one brings keys, and pages into memory
    middle = {kind: statistics.median(seconds[1:]) for kind, seconds in found.items()}
    print(
        "\n| updates | median | slowest | beside the same noise in the clear |\n|---|---|---|---|"
    )
    for kind, seconds in found.items():
        beside = f"{middle[kind] / middle[BESIDE[kind]]:.2f}" if kind in BESIDE else ""
        slowest = max(seconds[1:])
        print(f"| {kind} | {1e3 * middle[kind]:.0f} ms | {1e3 * slowest:.0f} ms | {beside} |")


if __name__ == "__main__":
    main()
