"""An agent's two calls beside their minimum: kernels and an insert into SQLite.

Run from the repository's root: `.venv/bin/python -m benchmarks.agent`. The pieces take
turns, call by call, so that all of them meet the same moments of a shared machine; ratios are of
medians of this one run.
"""

from __future__ import annotations

import argparse
import math
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from benchmarks.local_federation import coordinator, federation
from fedglb.federation import Agent
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.agent.store import Durability
from fedglb.federation.agreement import Agreement
from fedglb.kernels.scoring import pick, tie_level, upper_bounds
from fedglb.protocol import Client
from fedglb.protocol.messages import Evaluate, SumsRequest
from fedglb.typing import FloatArray

D, K, SAMPLES, SHOWN = 10, 25, 100_000, 64
ALGORITHM = fg.fedglb_ucb(threshold=1e12, solver=fg.Newton())
Times = dict[str, list[float]]


def arms() -> FloatArray:
    """Return some sets of arms, to be offered in turn."""
    found = np.random.default_rng(0).standard_normal((SHOWN, K, D))
    found /= np.linalg.norm(found, axis=-1, keepdims=True)
    return found


# -- the bare pieces -------------------------------------------------------------------------


class Bare:
    """What the two calls need at least: compiled code, and a row in a file."""

    def __init__(self, folder: Path) -> None:
        problem = fg.Problem(D)
        agreement = Agreement(problem, ALGORITHM, 1)
        self.client = Client("bare", ALGORITHM, agreement.setting)
        self._confidence, self._local = ALGORITHM.confidence, ALGORITHM.local_update
        self._radius = np.array(self._confidence.constants(agreement.setting))
        self._step = np.array(self._local.constants(agreement.setting), dtype=float)
        self._functions = problem.functions
        self._columns = [np.ascontiguousarray(table.T) for table in arms()]
        self._scores, self._widths = np.empty((2, K))
        self._X, self._y = arms()[:, 0].copy(), np.ones(SHOWN)
        self._files = {mode: _bare_file(folder / f"{mode}.db", mode) for mode in ("NORMAL", "FULL")}
        self._row = (
            "0123abcd", time.time(), None, K, 3, None, self._X[0].tobytes(), 0.5, 0.5, 1.0, 0,
        )  # fmt: skip

    def choose(self, k: int) -> None:
        """The radius and the scoring kernel, from Python."""
        state = self.client.state
        alpha = self._confidence.formula(state.vectors, state.counters, np.empty(0), self._radius)
        upper_bounds(
            self._columns[k % SHOWN], state.centre, state.inverse, alpha, self._scores, self._widths
        )
        pick(self._scores, tie_level(self._scores), 0)

    def learn(self, k: int) -> None:
        """The online Newton step, from Python."""
        state, n = self.client.state, k % SHOWN + 1
        self._local.step(
            state.vectors, state.matrices, state.counters, self._X[:n], self._y[:n],
            self._functions, self._step,
        )  # fmt: skip

    def insert(self, mode: str) -> Callable[[int], None]:
        """A row of a decision's size, committed."""
        execute, row = self._files[mode].execute, self._row

        def call(k: int) -> None:
            execute(_INSERT, row)

        return call

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


_INSERT = f"INSERT INTO decisions VALUES (NULL{', ?' * 11}, NULL, NULL, NULL, NULL)"


def _bare_file(path: Path, mode: str) -> sqlite3.Connection:
    file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute(f"PRAGMA synchronous={mode}")
    file.execute(
        "CREATE TABLE decisions(number INTEGER PRIMARY KEY, prefix TEXT, made REAL, t INTEGER, "
        "arms INTEGER, arm INTEGER, arm_id, x BLOB, score REAL, width REAL, propensity REAL, "
        "model INTEGER, sequence INTEGER, step INTEGER, reward REAL, rewarded REAL)"
    )
    return file


# -- an update in progress -------------------------------------------------------------------


def filled(path: Path, problem: fg.Problem, **options: Any) -> None:
    """Make an agent's file that holds many samples already."""
    Agent.open(path, problem, **options).close()
    rng = np.random.default_rng(1)
    X = rng.standard_normal((SAMPLES, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, SAMPLES).astype(float)
    with sqlite3.connect(path) as file:
        file.executemany(
            "INSERT INTO decisions VALUES (?, 'before', 0, NULL, 25, 0, NULL, ?, 0, 0, 1, 0, "
            "?, ?, ?, 0, 0)",
            ((k, X[k - 1].tobytes(), k, k, y[k - 1]) for k in range(1, SAMPLES + 1)),
        )
    file.close()


@contextmanager
def nothing(_: Agent) -> Iterator[None]:
    """No update."""
    yield


@contextmanager
def rounds(agent: Agent) -> Iterator[None]:
    """A thread that answers rounds of an update without a pause."""
    session: AgentSession = agent._session
    done = threading.Event()
    session.receive(SumsRequest("alone", 1))

    def answer() -> None:
        number = 0
        while not done.is_set():
            number += 1
            theta = np.full(D, 0.01 / number)
            session.receive(Evaluate("alone", 1, number, 0, theta, hessian=True, loss=False))

    with _beside(answer, done):
        yield


@contextmanager
def real_updates(agent: Agent) -> Iterator[None]:
    """Updates over NATS, one after the other."""
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            agent.request_update()
            agent.wait_for_model(agent.status.model + 1, 5.0)

    with _beside(ask, done):
        yield


@contextmanager
def _beside(work: Callable[[], None], done: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# -- measurements ----------------------------------------------------------------------------


def in_turn(agent: Agent, bare: Bare, count: int, durable: str) -> Times:
    """Call each piece once, then each again, and so on; return the seconds of every call.

    What waits for the disk is only there where the agent waits for it, too: whatever comes after
    such a wait is slower.
    """
    offered, clock = arms(), time.perf_counter
    pieces = {
        "kernel of choose": bare.choose,
        "kernel of observe": bare.learn,
        "insert, NORMAL": bare.insert("NORMAL"),
    }
    if durable == "power":
        pieces["insert, FULL"] = bare.insert("FULL")
    times: Times = {name: [] for name in ("choose", "observe", *pieces)}
    for k in range(count):
        table = offered[k % SHOWN]
        start = clock()
        decision = agent.choose(table)
        chosen = clock()
        agent.observe(decision.id, 1.0)
        observed = clock()
        times["choose"].append(chosen - start)
        times["observe"].append(observed - chosen)
        for name, piece in pieces.items():
            start = clock()
            piece(k)
            times[name].append(clock() - start)
    return {name: found[count // 10 :] for name, found in times.items()}  # warm


def per_second(agent: Agent, seconds: float) -> float:
    """Return the number of decisions with rewards that an agent handles, in one thread."""
    offered, count, stop = arms(), 0, time.perf_counter() + seconds
    while time.perf_counter() < stop:
        decision = agent.choose(offered[count % SHOWN])
        agent.observe(decision.id, 1.0)
        count += 1
    return count / seconds


# -- report ----------------------------------------------------------------------------------


def percentile(found: Sequence[float], share: float) -> float:
    """Return a percentile in µs."""
    return float(np.percentile(found, share)) * 1e6


def calls(title: str, times: Times, durable: str) -> None:
    """Print a table of the pieces; the ratio is to the insert and the kernel together."""
    print(f"\n{title}\n\n| | p50, µs | p99, µs | max, ms | p50 / (insert + kernel) |")
    print("|---|---|---|---|---|")
    half = {name: percentile(found, 50) for name, found in times.items()}
    for name, found in times.items():
        ratio = math.nan
        if name in ("choose", "observe"):
            mode = "FULL" if name == "observe" and durable == "power" else "NORMAL"
            ratio = half[name] / (half[f"insert, {mode}"] + half[f"kernel of {name}"])
        row = (half[name], percentile(found, 99), max(found) * 1e3, ratio)
        shown = "" if math.isnan(ratio) else f"{ratio:.2f}"
        print(f"| {name} | {row[0]:.1f} | {row[1]:.1f} | {row[2]:.1f} | {shown} |", flush=True)


def measure(folder: Path, count: int) -> None:
    """Run everything once."""
    problem = fg.Problem(D)
    bare = Bare(folder)
    durabilities: dict[Durability, int] = {"process": count, "power": count // 4}
    for durable, calls_each in durabilities.items():
        path = folder / f"{durable}.db"
        filled(path, problem, algorithm=ALGORITHM)
        with Agent.open(path, problem, algorithm=ALGORITHM, durable=durable) as agent:
            for title, beside in (("no update", nothing), ("rounds without a pause", rounds)):
                with beside(agent):
                    times = in_turn(agent, bare, calls_each, durable)
                calls(f'durable="{durable}", {title}', times, durable)
            rate = per_second(agent, 3.0)
            print(f'\ndurable="{durable}", decisions with their rewards per second: {rate:,.0f}')
    with federation(folder / "federation", ["shop"], D) as place, coordinator(place) as head:
        path, bundle = folder / "nats.db", place.bundle("shop")
        filled(path, problem, bundle=bundle.folder)
        with Agent.open(path, problem, bundle=bundle.folder) as agent, real_updates(agent):
            head.next_event("updated", 60.0)
            before, start = agent.status.model, time.perf_counter()
            times = in_turn(agent, bare, count, "process")
            rate = (agent.status.model - before) / (time.perf_counter() - start)
        title = f'durable="process", updates over NATS without a pause ({rate:.0f} a second)'
        calls(title, times, "process")
    bare.close()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000, help="calls of each piece")
    given = parser.parse_args(arguments)
    print(f"d={D} K={K}, FedGLB-UCB, logistic, {SAMPLES:,} samples")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), given.calls)


if __name__ == "__main__":
    main()
