"""A figure of the paper in full, from the search to the report: wall time and memory.

Run from the repository's root: `.venv/bin/python -m benchmarks.figure NAME PROFILE FOLDER`.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import fedglb as fg


def resident(root: int) -> int:
    """Return the resident memory of a process and all below it, in bytes (Linux)."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                sizes[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * 4096
                parents[int(entry.name)] = int(fields[1])
            except OSError:  # ended in between
                continue
    below, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below, grown = below | more, bool(more)
    return sum(sizes.get(pid, 0) for pid in below)


def main() -> None:
    name, profile, folder = sys.argv[1:4]
    start = time.perf_counter()
    command = [
        sys.executable, "-m", "fedglb.cli", "reproduce", name,
        "--profile", profile, "--out", folder,
    ]  # fmt: skip
    process = subprocess.Popen(command)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.5)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    watcher.join()
    took = time.perf_counter() - start
    if code != 0:
        sys.exit(code)
    sweeps = [fg.load_sweep(path).runs for path in (Path(folder) / "sweeps").iterdir()]
    runs = sum(frame.height for frame in sweeps)
    interactions = sum(int(frame["interactions"].sum()) for frame in sweeps)
    print(f"{name} {profile}: {runs} runs, {interactions:,} interactions, ", end="")
    print(f"{took / 60:.1f} minutes, {interactions / took:,.0f} interactions/s, ", end="")
    print(f"{took / interactions * 1e6:.3f} µs an interaction, peak memory {peak / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
