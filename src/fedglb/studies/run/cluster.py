"""Tasks on a Dask cluster.

This uses `distributed` itself rather than joblib's dask backend. With that backend, a task that the
scheduler gives up (its workers died, or could not import the package) never reaches the generator
of results, which then waits for ever.
"""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from fedglb.errors import InvalidInput
from fedglb.studies.run.task import Outcome, Sources, Task, lacking, packed, work
from fedglb.studies.spec.experiment import Experiment

_CONNECT = 5.0  # seconds
_WAIT_FOR_WORKERS = 60.0


class ClusterLost(Exception):
    """The scheduler is lost, or has had no worker for a minute."""


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a scheduler; the client is closed at the end."""
    try:
        from distributed import Client
    except ImportError:
        allowed = "None, or the required packages: pip install 'fedglb[cluster]'"
        raise InvalidInput("cluster", address, allowed) from None
    _reachable(address)
    try:
        client = Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _no_scheduler(address, str(error).partition("\n")[0]) from None
    try:
        yield client
    finally:
        with contextlib.suppress(OSError):  # the scheduler is gone, or slow
            client.close(timeout=2)


def _reachable(address: str) -> None:
    """Raise unless something listens there: Dask's client takes long to notice."""
    parts = re.fullmatch(r"(?:(\w+)://)?\[?([^\[\]]+)\]?:(\d+)", address)
    if parts is None:
        raise _no_scheduler(address, "no host and port")
    if parts[1] not in (None, "tcp", "tls"):
        return
    try:
        socket.create_connection((parts[2], int(parts[3])), timeout=_CONNECT).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_scheduler(address, str(error)) from None


def _no_scheduler(address: str, reason: str) -> InvalidInput:
    allowed = f"the address of a Dask scheduler, such as tcp://host:8786 ({reason})"
    return InvalidInput("cluster", address, allowed)


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    """Turn all errors of the network into `ClusterLost`."""
    try:
        yield
    except Exception as error:
        text = f"the connection to the scheduler is lost: {type(error).__name__}: {error}"
        raise ClusterLost(text) from None


def check_parts(client: Any, address: str, experiment: Experiment) -> None:
    """Raise for parts that workers cannot import, or have in another version."""
    _, as_code = packed(experiment.tables)
    if as_code:
        allowed = (
            f"no cluster for {', '.join(as_code)}: its workers cannot import definitions in a "
            "script, a notebook or a function; move them into a module that workers have, too"
        )
        raise InvalidInput("cluster", address, allowed)
    if not experiment.own:
        return
    with _asking():
        found = client.run(lacking, experiment.own, on_error="return")
    for worker, reason in found.items():
        if isinstance(reason, str):
            allowed = (
                f"a cluster whose workers have all modules of the parts: {worker} {reason}; "
                "install it there, or send it with Dask's Client.upload_file"
            )
            raise InvalidInput("cluster", address, allowed)


def threads(client: Any) -> int:
    """Return the number of tasks that the cluster can run at a time, at least 1."""
    with _asking():
        workers: dict[str, int] = client.nthreads()
    return max(sum(workers.values()), 1)


def run_on_cluster(
    client: Any, experiment: Experiment, tasks: Sequence[Task]
) -> Generator[Outcome, None, None]:
    """Yield outcomes as they arrive; Dask itself gives a dead worker's tasks to another one."""
    done: queue.Queue[tuple[Any, Outcome | Exception]] = queue.Queue()
    sources = Sources.of(experiment)
    futures = {}

    async def fetch(future: Any) -> None:
        """Bring a result here, in the thread of the client.

        If its worker died before the result arrived, Dask runs the task again. This waits for it
        without a limit, while other results arrive.
        """
        try:
            done.put((future, await future.result()))
        except Exception as error:
            done.put((future, error))

    with _asking():
        for task in tasks:
            future = client.submit(work, sources, task, None, None, pure=False)
            futures[future] = task
            client.loop.add_callback(fetch, future)
    seen = time.monotonic()
    while futures:
        try:
            future, outcome = done.get(timeout=1.0)
        except queue.Empty:
            seen = _check(client, seen)
            continue
        seen = time.monotonic()
        task = futures.pop(future)
        if isinstance(outcome, Exception):
            text = f"{type(outcome).__name__}: {outcome}"
            if future.status != "error":  # the error is the network's, not the task's
                reason = text.partition("\n")[0]
                raise ClusterLost(f"the connection to the scheduler is lost: {reason}")
            outcome = Outcome(task, None, (f"{task.describe(experiment)}: {text}",))
        yield outcome


def _check(client: Any, seen: float) -> float:
    """Return when a worker was last seen; raise if that is too long ago."""
    with _asking():
        workers = client.nthreads()
    if workers:
        return time.monotonic()
    if time.monotonic() - seen > _WAIT_FOR_WORKERS:
        raise ClusterLost(f"the scheduler has had no worker for {_WAIT_FOR_WORKERS:.0f} seconds")
    return seen
