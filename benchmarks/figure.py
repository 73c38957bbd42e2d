"""A figure of the paper, from the search to the report: time of each stage, and memory.

Run from the repository's root: `.venv/bin/python -m benchmarks.figure NAME PROFILE FOLDER`. CPU
seconds count all processes; on a machine that has other work they say more than wall time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl

STAGES = ("start", "search", "sweep", "fixed models", "report")
_TICK = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> Iterator[tuple[int, float]]:
    """Yield memory in bytes and CPU seconds of a process and all below it (Linux).

    CPU seconds are its own, and those of children that have ended.
    """
    parents, found = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                pages = int((entry / "statm").read_text().split()[1])
            except OSError:  # ended in between
                continue
            parents[int(entry.name)] = int(fields[1])
            found[int(entry.name)] = pages * 4096, sum(map(int, fields[11:15])) / _TICK
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return (found[pid] for pid in below if pid in found)


class Watch:
    """Looks at a command while it runs: how long each stage takes, and what all of it holds."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.peak, self.stage, self.cpu = process, 0, "start", 0.0
        self.wall = dict.fromkeys(STAGES, 0.0)
        self.cpus = dict.fromkeys(STAGES, 0.0)
        self.last = time.perf_counter()

    def look(self) -> None:
        """Add the time since the last call to the stage."""
        now, seen = time.perf_counter(), list(tree(self.process.pid))
        cpu = max(self.cpu, sum(seconds for _, seconds in seen))
        self.wall[self.stage] += now - self.last
        self.cpus[self.stage] += cpu - self.cpu
        self.peak = max(self.peak, sum(size for size, _ in seen))
        self.last, self.cpu = now, cpu

    def run(self) -> int:
        """Follow the command to its end; its lines on standard error name the stages."""

        def read() -> None:
            assert self.process.stderr is not None
            for line in self.process.stderr:
                sys.stderr.write(line)
                self.stage = next((s for s in STAGES if line.startswith(s)), self.stage)

        reader = threading.Thread(target=read)
        reader.start()
        while self.process.poll() is None:
            self.look()
            time.sleep(0.2)
        reader.join()
        return self.process.wait()


def make(name: str, profile: str, folder: Path) -> None:
    """Make a figure, and print its time."""
    command = [
        sys.executable, "-m", "fedglb.cli", "reproduce", name,
        "--profile", profile, "--out", str(folder.resolve()),
    ]  # fmt: skip
    watch = Watch(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    code = watch.run()
    if code != 0:
        sys.exit(code)
    played = [pl.read_parquet(p)["interactions"] for p in folder.glob("sweeps/*/runs.parquet")]
    print(f"{name} {profile}: {sum(map(len, played))} whole runs, ", end="")
    print(f"{sum(int(p.sum()) for p in played):,} interactions in them, ", end="")
    print(f"peak memory {watch.peak / 2**30:.2f} GiB\n")
    print("| stage | minutes | CPU seconds |\n|---|---|---|")
    for stage in STAGES:
        print(f"| {stage} | {watch.wall[stage] / 60:.2f} | {watch.cpus[stage]:.1f} |")
    wall, cpu = sum(watch.wall.values()), sum(watch.cpus.values())
    print(f"| all | {wall / 60:.2f} | {cpu:.1f} |\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("profile")
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    make(given.name, given.profile, given.folder)


if __name__ == "__main__":
    main()
