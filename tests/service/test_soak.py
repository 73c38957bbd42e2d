"""A long run: load without a pause, random kills, and what memory and files do meanwhile.

FEDGLB_SOAK_SECONDS is for how long; an hour, unless it is set. One service is never killed: it has
time to grow.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedglb.federation.preload import preload
from tests.service.federated import AGREED, COORDINATOR, SERVER, Federated, Killer
from tests.service.load import Load, load

SECONDS = float(os.environ.get("FEDGLB_SOAK_SECONDS", "3600"))
SPARED, KILLED = "a", ("b", "c", COORDINATOR, SERVER)
BETWEEN = 15.0  # seconds between two kills, on average
WARM = 2000  # calls of a process's life that its first reading waits for
MB = 2**20
#: What a process may grow by, and per 1,000 calls of the whole run. Samples are kept in memory,
#: less than 100 kB of them per 1,000 calls; a kilobyte lost per call would be 1,000 kB.
SLACK, PER_THOUSAND = 64 * MB, 1 * MB
#: What the file of a service may have per decision, and that of the coordinator per update.
FILE_SLACK, PER_DECISION, PER_UPDATE = 64 * MB, 2048, 4096


def rss(pid: int) -> int | None:
    """Return the memory of a process in bytes; None where the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Life:
    """A process from one start to its end: its memory at the first and at the last reading."""

    name: str
    pid: int
    born: int
    first: int | None = None
    last: int | None = None
    first_calls: int = 0
    last_calls: int = 0

    def read(self, calls: int) -> None:
        size = rss(self.pid)
        if size is None or calls - self.born < WARM:
            return
        if self.first is None:
            self.first, self.first_calls = size, calls
        self.last, self.last_calls = size, calls

    @property
    def grown(self) -> int:
        return 0 if self.first is None or self.last is None else self.last - self.first

    @property
    def calls(self) -> int:
        """How many were acknowledged between the two readings."""
        return self.last_calls - self.first_calls


class Watch:
    """Reads the memory of all processes again and again."""

    def __init__(self, place: Federated, running: Load) -> None:
        self._place, self._load = place, running
        self._names = [*place.names, COORDINATOR, SERVER]
        self.lives: list[Life] = []

    def read(self) -> None:
        calls = self._load.calls
        for name in self._names:
            pid = self._place.pid(name)
            ours = [life for life in self.lives if (life.name, life.pid) == (name, pid)]
            if not ours:
                ours = [Life(name, pid, calls)]
                self.lives += ours
            ours[-1].read(calls)


@pytest.mark.slow
def test_soak(tmp_path, capsys):
    preload(AGREED.build())
    rng = random.Random(15)
    with Federated(tmp_path, (SPARED, *KILLED[:2])) as place:
        with load(place.urls, 4, tmp_path, pause=0.05) as running:
            killer, watch = Killer(place, running, seed=15), Watch(place, running)
            begin = time.monotonic()
            strike = begin + rng.expovariate(1.0 / BETWEEN)
            while time.monotonic() < begin + SECONDS:
                time.sleep(0.5)
                running.check()
                place.check()
                watch.read()
                if time.monotonic() > strike:
                    killer.strike(rng.choice(KILLED))
                    strike = time.monotonic() + rng.expovariate(1.0 / BETWEEN)
            running.stop()
            place.settle(running)
            watch.read()
        updates = place.count("updated")
        place.stop()
    with capsys.disabled():
        print(f"\n{running.calls:,} calls, {updates:,} updates, kills: {place.deaths}")
        print(*watch.lives, sep="\n")
    for name in place.names:
        place.check_log(name, running)
        rows = len(running.acknowledged(name))
        assert place.path(name).stat().st_size <= FILE_SLACK + PER_DECISION * rows, (name, rows)
    assert place.path(COORDINATOR).stat().st_size <= FILE_SLACK + PER_UPDATE * updates, updates
    for life in watch.lives:
        assert life.grown <= SLACK + PER_THOUSAND * life.calls / 1000, life
