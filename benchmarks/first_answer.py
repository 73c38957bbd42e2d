"""What it takes until the agent's service answers: CPU seconds from its start, and memory.

`python -m benchmarks first_answer`. Each line is of one fresh process of `fedglb agent serve` with
its kernels on disk: its CPU time (user and system) when `/readyz` answers 200, its resident memory
(MB are 10⁶ bytes) after some calls, and the time of the first `choose` beside the median of the
others.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.local_federation import cpu_seconds

_SCHEMA = """
version = 1
[context.hour]
kind = "number"
knots = [0, 8, 16, 24]
[arm.category]
kind = "category"
levels = ["shoes", "books"]
[crosses]
pairs = [["context.hour", "arm.category"]]
"""
_RECORDS = {"context": {"hour": 9}, "arms": [{"category": "shoes"}, {"category": "books"}]}
_VECTORS = {"arms": [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]]}
_INIT = ("federation", "init", "shops", "--name", "shops", "--clients", "shop-1", "--dim", "3")
#: Options of `fedglb agent serve`, and what is sent to `choose`.
_KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "alone, vectors": (("--dim", "3"), _VECTORS),
    "alone, schema": (("--features", "features.toml"), _RECORDS),
    "in a federation": (("--bundle", "shops/clients/shop-1"), _VECTORS),
}
_NUMBERS = ("CPU s until ready", "MB", "ms of the first choose", "ms of the others")
_CALLS = 20


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def fedglb(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a command in a folder, which has the compiled kernels, too."""
    return subprocess.Popen(
        [sys.executable, "-m", "fedglb", *words], cwd=folder, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "kernels")},
    )  # fmt: skip


def ask(service: http.client.HTTPConnection, path: str, body: object = None) -> Any:
    """Return the service's answer."""
    if body is None:
        service.request("GET", path)
    else:
        service.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = service.getresponse()
    found = json.loads(answer.read())
    assert answer.status == 200, found
    return found


def start(folder: Path, file: str, options: tuple[str, ...], body: object) -> tuple[float, ...]:
    """Start a service and call it; return `_NUMBERS`."""
    words = ("agent", "serve", file, *options, "--http", "127.0.0.1:0", "--json")
    with fedglb(folder, *words) as process:
        assert process.stdout is not None
        url = next(filter(None, (json.loads(line).get("url") for line in process.stdout)))
        service, times = http.client.HTTPConnection(url.rpartition("/")[2]), []
        ask(service, "/readyz")
        spent = cpu_seconds(process.pid)
        for _ in range(_CALLS):
            since = time.perf_counter()
            decision = ask(service, "/v1/choose", body)
            times.append(1e3 * (time.perf_counter() - since))
            ask(service, "/v1/observe", {"id": decision["id"], "reward": 1.0})
        taken = resident(process.pid)
        process.terminate()
    return spent, taken, times[0], statistics.median(times[1:])


def measure() -> dict[str, float]:
    """Return the numbers by name."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "features.toml").write_text(_SCHEMA)
        fedglb(folder, *_INIT).communicate()
        for name, (options, body) in _KINDS.items():
            start(folder, f"{name}, first.db", options, body)  # compiles
            numbers = start(folder, f"{name}.db", options, body)
            found |= {f"{name}: {what}": n for what, n in zip(_NUMBERS, numbers, strict=True)}
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
