"""A long run: load without a pause, random kills, and what memory and files do meanwhile.

FEDGLB_SOAK_SECONDS is for how long (an hour, unless it is set), FEDGLB_SOAK_REPORT the file that
gets the table. One service is never killed, so that it has the time to grow.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
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

    def longest(self, name: str) -> Life:
        """The life with the most calls between its readings."""
        return max((life for life in self.lives if life.name == name), key=lambda life: life.calls)


def size(path: Path) -> int:
    """The bytes of a file, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def write_ahead(path: Path) -> int:
    """The bytes of the log that SQLite has beside a file that is open."""
    return size(path.with_name(f"{path.name}-wal"))


def table(place: Federated, watch: Watch, rows: dict[str, int], seconds: float) -> Iterator[str]:
    calls = watch._load.calls
    yield f"{seconds:.0f} s, {calls:,} calls acknowledged, {place.count('updated'):,} updates"
    yield ""
    yield "process       kills  calls of its longest life  MB before  MB after  kB per 1,000 calls"
    for name in place.deaths:
        life = watch.longest(name)
        per = f"{life.grown / 1024 / life.calls * 1000:10.1f}" if life.calls else f"{'-':>10}"
        yield (
            f"{name:<12} {place.deaths[name]:>6} {life.calls:>27,} {(life.first or 0) / MB:>10.1f} "
            f"{(life.last or 0) / MB:>9.1f} {per:>19}"
        )
    yield ""
    yield "file             rows         MB  bytes per row  MB of its write-ahead log"
    for name, count in rows.items():
        path = place.path(name)
        yield (
            f"{name:<12} {count:>8,} {size(path) / MB:>10.2f} {size(path) / max(1, count):>14.1f} "
            f"{write_ahead(path) / MB:>25.2f}"
        )
    yield f"{'server log':<12} {'':>8} {size(place.running.folder / 'server' / 'log') / MB:>10.2f}"


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
            seconds = time.monotonic() - begin
            running.stop()
            place.settle(running)
            watch.read()
        rows = {name: len(running.acknowledged(name)) for name in place.names}
        rows[COORDINATOR] = updates = place.count("updated")
        text = "\n".join(table(place, watch, rows, seconds)) + "\n"
        place.stop()
    Path(os.environ.get("FEDGLB_SOAK_REPORT", tmp_path / "soak.txt")).write_text(text)
    with capsys.disabled():
        print(f"\n{text}")
    for name in place.names:
        place.check_log(name, running)
        assert size(place.path(name)) <= FILE_SLACK + PER_DECISION * rows[name], text
    place.check_models()
    assert size(place.path(COORDINATOR)) <= FILE_SLACK + PER_UPDATE * updates, text
    for life in watch.lives:
        assert life.grown <= SLACK + PER_THOUSAND * life.calls / 1000, (life, text)
