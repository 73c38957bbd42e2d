"""Default rewards at 100 decisions a second, of which 2 % are clicked, with 30 minutes to wait.

Run from the repository's root: `.venv/bin/python -m benchmarks.silence`. Two agents take turns,
decision by decision: one learns silence, the other is told each 0 by its application. Both begin
with the decisions of half an hour that wait for their reward, so the first one learns a hundred
defaults a second from the start. Then late clicks come, which replace defaults.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import threading
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

import fedglb as fg
from fedglb.federation import Agent

RATE, CLICKED, WAIT = 100, 0.02, 1800.0
D, K = 10, 20
PROBLEM = fg.Problem(D)
CLOCK = "fedglb.federation.agent.application_calls.time.time"


def opened(path: Path, learns: bool) -> Agent:
    """Return an agent that learns silence, or does not."""
    given = {"default_reward": 0.0, "reward_after": WAIT} if learns else {}
    return Agent.open(path, PROBLEM, **given)  # type: ignore[arg-type]


def thread_seconds(name: str) -> float:
    """Return the CPU seconds of a thread of this process."""
    [thread] = [each for each in threading.enumerate() if each.name == name]
    stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="How long decisions are made.")
    seconds = parser.parse_args().seconds
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((64, K, D))
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    folder = Path(tempfile.mkdtemp())
    paths = {learns: folder / f"{learns}.db" for learns in (True, False)}
    waiting = int(WAIT) * RATE
    for path in paths.values():
        now = time.time()
        with Agent.open(path, PROBLEM) as agent:
            for k in range(waiting):
                at = now + 30.0 - WAIT * (1.0 - k / waiting)
                with patch(CLOCK, lambda at=at: at):
                    agent.choose(arms[k % 64])
    size = paths[True].stat().st_size
    print(f"{waiting:,} decisions wait: {size / 2**20:.0f} MB, {size / waiting:.0f} bytes each")
    agents = {learns: opened(path, learns) for learns, path in paths.items()}
    print(f"opened: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB resident")
    agents[False].observe(agents[False].choose(arms[0]).id, 0.0)
    start, before = time.perf_counter(), agents[True].status.defaulted
    busy = thread_seconds("fedglb-silence")
    times: dict[tuple[bool, str], list[float]] = {
        (learns, call): [] for learns in agents for call in ("choose", "observe")
    }
    for k in range(seconds * RATE):
        for learns in (
            (True, False) if k % 2 else (False, True)
        ):  # who comes first meets cold caches
            agent, begin = agents[learns], time.perf_counter()
            made = agent.choose(arms[k % 64])
            times[learns, "choose"].append(time.perf_counter() - begin)
            clicked = rng.random() < CLICKED
            if clicked or not learns:
                begin = time.perf_counter()
                agent.observe(made.id, float(clicked))
                times[learns, "observe"].append(time.perf_counter() - begin)
        time.sleep(max(0.0, start + (k + 1) / RATE - time.perf_counter()))
    took = time.perf_counter() - start
    learned = agents[True].status.defaulted - before
    busy = thread_seconds("fedglb-silence") - busy
    print(f"{took:.0f} s: {learned:,} defaults learned, {learned / took:.0f} a second")
    print(f"their thread: {100 * busy / took:.1f} % of a core, {1e6 * busy / learned:.0f} us each")
    for call in ("choose", "observe"):
        for q in (50, 99):
            own, other = (1e6 * np.percentile(times[learns, call], q) for learns in (True, False))
            print(f"{call}, percentile {q}: {own:.0f} us, {own / other:.2f} of the other agent")
    frame = agents[True].export()
    late = frame.filter(frame["defaulted"])["id"].to_list()[:20]
    begin = time.perf_counter()
    for each in late:
        agents[True].observe(each, 1.0)
    answered = time.perf_counter() - begin
    while agents[True].status.replaced < len(late):
        time.sleep(0.01)
    samples = agents[True].status.samples
    print(
        f"{len(late)} late clicks: answered in {1e6 * answered / len(late):.0f} us each, learned "
        f"within {time.perf_counter() - begin:.1f} s, with {samples:,} samples"
    )
    for agent in agents.values():
        agent.close()
    print(f"file: {paths[True].stat().st_size / 2**20:.0f} MB")
    print(f"largest: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB resident")


if __name__ == "__main__":
    main()
