"""A long run: load without a pause, random kills, and what memory and files do meanwhile.

FEDGLB_SOAK_SECONDS is for how long; an hour, unless it is set. One service is never killed: it has
time to grow.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from pathlib import Path

import pytest

from fedglb.federation.preload import preload
from tests.service.federated import AGREED, COORDINATOR, SERVER, Federated, Killer
from tests.service.load import load

SECONDS = float(os.environ.get("FEDGLB_SOAK_SECONDS", "3600"))
SPARED, KILLED = "a", ("b", "c", COORDINATOR, SERVER)
BETWEEN = 15.0  # seconds between two kills, on average
WARM = 2000  # calls of a process's life before its first reading counts
MB = 2**20
#: What a process may grow by, and per 1,000 calls of the whole run. Samples are kept in memory,
#: less than 100 kB of them per 1,000 calls; a kilobyte lost per call would be 1,000 kB.
SLACK, PER_THOUSAND = 64 * MB, 1 * MB
#: What the file of a service may have per decision, and that of the coordinator per update.
FILE_SLACK, PER_DECISION, PER_UPDATE = 64 * MB, 2048, 4096


def rss(pid: int) -> int:
    """Return the memory of a process in bytes; 0 where the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_soak(tmp_path, capsys):
    preload(AGREED.build())
    rng = random.Random(15)
    with Federated(tmp_path, (SPARED, *KILLED[:2])) as place:
        with load(place.urls, 4, tmp_path, pause=0.05) as running:
            killer = Killer(place, running, seed=15)
            readings = defaultdict(list)  # of a process: acknowledged calls, and its memory
            begin = time.monotonic()
            strike = begin + rng.expovariate(1.0 / BETWEEN)
            while time.monotonic() < begin + SECONDS:
                time.sleep(0.5)
                running.check()
                place.check()
                for name in place.deaths:
                    pid = place.pid(name)
                    readings[name, pid].append((running.calls, rss(pid)))
                if time.monotonic() > strike:
                    killer.strike(rng.choice(KILLED))
                    strike = time.monotonic() + rng.expovariate(1.0 / BETWEEN)
            running.stop()
            place.settle(running)
        updates = place.count("updated")
        place.stop()
    with capsys.disabled():
        print(f"\n{running.calls:,} calls, {updates:,} updates, kills: {place.deaths}")
    for name in place.names:
        place.check_log(name, running)
        rows = len(running.acknowledged(name))
        assert place.path(name).stat().st_size <= FILE_SLACK + PER_DECISION * rows, (name, rows)
    place.check_models()
    assert place.path(COORDINATOR).stat().st_size <= FILE_SLACK + PER_UPDATE * updates, updates
    for process, read in readings.items():
        warm = [each for each in read if each[0] - read[0][0] >= WARM]
        if warm:
            (first_calls, first), (last_calls, last) = warm[0], warm[-1]
            allowed = SLACK + PER_THOUSAND * (last_calls - first_calls) / 1000
            assert last - first <= allowed, (process, warm[0], warm[-1])
