"""An export, a backup and a `forget` beside `choose`: rows per second, and what the calls wait.

Run from the repository's root: `.venv/bin/python -m benchmarks.export_beside_choose [--rows N]`.
In turns, `choose` alone and `choose` beside each of the three; the ratios of 99th percentiles are
of one run. A loaded machine has long tails in both: look at the ratio.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fedglb as fg
from fedglb.typing import FloatArray

D, K, PAUSE = 10, 25, 0.0005
PROBLEM = fg.Problem(dim=D)


def filled(path: Path, rows: int, waiting: bool) -> None:
    """Make an agent's file of so many decisions, which have their rewards or wait for them."""
    fg.Agent.open(path, PROBLEM).close()
    db = sqlite3.connect(path)
    rng = np.random.default_rng(0)
    shown = rng.standard_normal((1000, D))
    shown /= np.linalg.norm(shown, axis=1, keepdims=True)
    db.execute("CREATE TEMP TABLE shown(k INTEGER PRIMARY KEY, x)")
    db.executemany(
        "INSERT INTO shown VALUES (?, ?)", [(k, x.tobytes()) for k, x in enumerate(shown)]
    )
    then = time.time() - 3600.0
    learned = "NULL, NULL, NULL, NULL" if waiting else f"n, n, n % 2, {then}"
    db.execute(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers "
        f"WHERE n < {rows}) INSERT INTO decisions SELECT n, 'before00', {then}, NULL, {K}, n % {K},"
        f" NULL, x, 0.5, 0.1, 1.0, 0, {learned}, 0.0 FROM numbers JOIN shown ON k = n % 1000"
    )
    db.commit()
    db.close()


def beside(
    agent: fg.Agent, offer: FloatArray, seconds: float, work: Callable[[], object] | None
) -> tuple[FloatArray, float]:
    """Return the seconds of each `choose` while `work` runs, and how long that took."""
    took, done = [seconds], threading.Event()

    def run() -> None:
        begun = time.perf_counter()
        if work is not None:
            work()
        took[0] = time.perf_counter() - begun
        done.set()

    thread = threading.Thread(target=run)
    until = time.perf_counter() + seconds
    if work is not None:
        thread.start()
    times = []
    while not done.is_set() if work is not None else time.perf_counter() < until:
        begun = time.perf_counter()
        agent.choose(offer)
        times.append(time.perf_counter() - begun)
        time.sleep(PAUSE)
    if work is not None:
        thread.join()
    return np.array(times), took[0]


def measure(folder: Path, rows: int, repeats: int) -> dict[str, object]:
    """Measure the calls beside each other."""
    filled(folder / "samples.db", rows, waiting=False)
    offer = np.random.default_rng(1).standard_normal((K, D))
    offer /= np.linalg.norm(offer, axis=1, keepdims=True)
    seen: dict[str, list[FloatArray]] = {}
    took: dict[str, list[float]] = {}
    with fg.Agent.open(folder / "samples.db", PROBLEM) as agent:

        def export() -> None:
            for _ in agent.export_batches():
                pass

        for k in range(repeats):
            works: dict[str, Callable[[], object]] = {
                "export": export,
                "backup": functools.partial(agent.backup, folder / f"copy-{k}.db"),
                "forget": functools.partial(agent.forget, [f"before00-{k + 1}"]),
            }
            for name, work in works.items():
                alone, _ = beside(agent, offer, 2.0, None)
                times, seconds = beside(agent, offer, 0.0, work)
                seen.setdefault("alone", []).append(alone)
                seen.setdefault(name, []).append(times)
                took.setdefault(name, []).append(seconds)
            (folder / f"copy-{k}.db").unlink()
    every = {name: np.concatenate(times) for name, times in seen.items()}
    found: dict[str, object] = {
        name: {
            "calls": len(times),
            **{f"p{q}_us": round(float(np.percentile(times, q)) * 1e6) for q in (50, 99)},
            "longest_ms": round(float(times.max()) * 1e3, 1),
            "p99_ratio": round(
                float(np.percentile(times, 99) / np.percentile(every["alone"], 99)), 2
            ),
            "seconds": round(float(np.median(took.get(name, [0.0]))), 2),
        }
        for name, times in every.items()
    }
    return {
        "rows": rows,
        "export_rows_per_second": round(rows / np.median(took["export"])),
        **found,
    }


def waiting(folder: Path, rows: int) -> dict[str, object]:
    """Measure an agent of which so many decisions wait: opening, memory, and its two calls."""
    filled(folder / "waiting.db", rows, waiting=True)
    offer = np.eye(D)

    def memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before, begun = memory(), time.process_time()
    with fg.Agent.open(folder / "waiting.db", PROBLEM) as agent:
        opened, held = time.process_time() - begun, memory() - before
        times = []
        for k in range(300):
            begun = time.perf_counter()
            agent.observe(f"before00-{k * (rows // 300) + 1}", 1.0)
            agent.choose(offer)
            times.append(time.perf_counter() - begun)
    return {
        "waiting": rows, "opened_cpu_seconds": round(opened, 2),
        "memory_mb": round(held / 2**20), "file_mb": os.path.getsize(folder / "waiting.db") >> 20,
        "choose_and_observe_p50_us": round(float(np.median(times)) * 1e6),
    }  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), given.rows, given.repeats), indent=1))
        print(json.dumps(waiting(Path(folder), given.waiting), indent=1))


if __name__ == "__main__":
    main()
