"""Processes that choose and report rewards through `AgentClient`, until they are told to stop."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fedglb as fg
from tests.federation.helpers.nats_federation import PATIENCE

#: Rewards come late and in any order, and some never. Whoever is refused ends with an error.
SCRIPT = """
import json, random, sys, time
from pathlib import Path
import fedglb as fg

url, name, patience, pause, stop = sys.argv[1:]
rng, number, waiting = random.Random(name), 0, []

def say(*words):
    print(json.dumps(words), flush=True)

def arm():
    x = [rng.gauss(0.0, 1.0) for _ in range(3)]
    length = sum(v * v for v in x) ** 0.5
    return [v / max(1.0, length) for v in x]

def reward(client):
    id, x = waiting.pop(rng.randrange(len(waiting)))
    y = float(2.0 * x[0] - x[1] + rng.gauss(0.0, 1.0) > 0.0)
    client.observe(id, y)
    say("observed", id, y)

with fg.AgentClient(url, patience=float(patience), timeout=float(patience)) as client:
    while not Path(stop).exists():
        arms, number = [arm() for _ in range(4)], number + 1
        ids = [f"{name}-{number}-{k}" for k in range(4)]
        made = client.choose(arms, ids=ids, key=f"{name}-{number}")
        say("chosen", made.id, made.arm_id, arms[made.arm])
        if rng.random() < 0.98:
            waiting.append((made.id, arms[made.arm]))
        while len(waiting) > rng.randrange(1, 9):
            reward(client)
        time.sleep(float(pause))
    while waiting:
        reward(client)
say("done")
"""


@dataclass
class Row:
    """A decision as it was acknowledged: the arm's id, the arm, and its reward, if it has one."""

    arm_id: str
    x: list[float]
    reward: float | None = None


@dataclass
class Loader:
    """One process, and what it was acknowledged by the service `of`."""

    of: str
    process: subprocess.Popen
    rows: dict[str, Row] = field(default_factory=dict)
    calls: int = 0
    done: bool = False

    def read(self) -> None:
        for line in self.process.stdout:
            kind, *rest = json.loads(line)
            if kind == "chosen":
                assert rest[0] not in self.rows
                self.rows[rest[0]] = Row(rest[1], rest[2])
            elif kind == "observed":
                self.rows[rest[0]].reward = rest[1]
            self.done = kind == "done"
            self.calls += 1


class Load:
    """Some processes; `stop` ends them in good order."""

    def __init__(self, loaders: Sequence[Loader], stop: Path) -> None:
        self.loaders, self._stop = loaders, stop
        self._readers = [threading.Thread(target=one.read, daemon=True) for one in loaders]
        for each in self._readers:
            each.start()

    @property
    def calls(self) -> int:
        """How many were acknowledged."""
        return sum(one.calls for one in self.loaders)

    def check(self) -> None:
        """Nobody has ended: whoever is refused does."""
        for one in self.loaders:
            if one.process.poll() is not None:
                raise AssertionError(one.process.stderr.read())

    def stop(self) -> None:
        """Let all finish what they have begun."""
        self._stop.touch()
        for one, reader in zip(self.loaders, self._readers, strict=True):
            assert one.process.wait(PATIENCE) == 0, one.process.stderr.read()
            reader.join(PATIENCE)
            assert one.done

    def one_more(self, service: str, client: fg.AgentClient) -> None:
        """Choose and report a reward, from here."""
        one = next(one for one in self.loaders if one.of == service)
        x, number = [0.1, 0.2, 0.3], len(one.rows)
        made = client.choose([x], ids=[f"{service}-more-{number}"])
        client.observe(made.id, 1.0)
        one.rows[made.id] = Row(str(made.arm_id), x, 1.0)

    def acknowledged(self, service: str) -> dict[str, Row]:
        """All decisions of a service."""
        found: dict[str, Row] = {}
        for one in self.loaders:
            if one.of == service:
                assert not found.keys() & one.rows.keys()
                found |= one.rows
        return found


@contextmanager
def load(urls: dict[str, str], processes: int, folder: Path, pause: float = 0.0) -> Iterator[Load]:
    """Start processes, each of which talks to one of the services."""
    stop, names = folder / "stop", list(urls)
    loaders = []
    for k in range(processes):
        of = names[k % len(names)]
        words = [urls[of], f"p{k}", str(PATIENCE), str(pause), str(stop)]
        loaders.append(
            Loader(
                of,
                subprocess.Popen(
                    [sys.executable, "-c", SCRIPT, *words],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                ),
            )
        )  # fmt: skip
    try:
        yield Load(loaders, stop)
    finally:
        for one in loaders:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()
            one.process.stdout.close()
            one.process.stderr.close()
