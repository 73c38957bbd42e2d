"""A coordinator and honest agents inside the test's process, and what their update must give."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.service import Service
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.model import SharedModel
from tests.federation.helpers.nats_federation import PATIENCE, Running
from tests.federation.helpers.recorded import ITEMS, stream

#: By hand, a client beats when it is told to: only a test that wants it is impatient.
_PATIENT = {"time_limit": 1e4, "absent_after": 1e4}


class Serving:
    """A coordinator's service in a thread; a `with` block starts and stops it."""

    def __init__(self, running: Running, state: Path, **policy: float) -> None:
        self.events: list[CoordinatorEvent] = []
        self._told = threading.Condition()
        self._bundle, self._state = running.coordinator_bundle, state
        self._policy = {**_PATIENT, **policy}
        self._stop: Callable[[], object] = lambda: None

    @property
    def session(self) -> CoordinatorSession:
        return self._service.session

    def _tell(self, event: CoordinatorEvent) -> None:
        with self._told:
            self.events.append(event)
            self._told.notify_all()

    def wait(self, kind: str, **facts: object) -> CoordinatorEvent:
        """Wait for an event of this kind and with these facts; return the first."""

        def found() -> list[CoordinatorEvent]:
            return [
                e for e in list(self.events) if e.kind == kind and facts.items() <= e.facts.items()
            ]

        with self._told:
            assert self._told.wait_for(found, PATIENCE), (kind, facts, self.events)
            return found()[0]

    def texts(self, kind: str) -> list[str]:
        return [e.text for e in list(self.events) if e.kind == kind]

    def __enter__(self) -> Serving:
        self._file = CoordinatorStore(self._state, self._bundle.agreement)
        self._service = Service(
            self._bundle, self._file, CoordinatorPolicy(**self._policy), self._tell  # type: ignore[arg-type]
        )  # fmt: skip
        ready = threading.Event()

        async def serve() -> None:
            task, loop = asyncio.ensure_future(self._service.run()), asyncio.get_running_loop()
            self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
            ready.set()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()))
        self._thread.start()
        ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join(PATIENCE)
        self._file.close()


_files = itertools.count()


@contextmanager
def opened(
    running: Running, folder: Path, name: str, samples: int = 0, file: str | None = None
) -> Iterator[Agent]:
    """An agent that takes the next samples of its `stream`; None: with a new file."""
    bundle = running.bundle(name)
    path, problem = folder / (file or f"{name}-{next(_files)}.db"), bundle.agreement.problem
    with Agent.open(path, problem, bundle=bundle.folder, beat=0.1) as agent:
        play(agent, name, samples)
        yield agent


def play(agent: Agent, name: str, samples: int) -> None:
    """Take this client's next samples."""
    first = agent.status.samples
    X, y = stream(name, agent._client.agreement.problem.dim, first + samples)
    for k in range(first, first + samples):
        agent.observe(agent.choose(X[k : k + 1], [k % ITEMS], t=k + 1).id, float(y[k]))


@contextmanager
def honest(
    running: Running, folder: Path, serving: Serving, samples: Mapping[str, int]
) -> Iterator[dict[str, Agent]]:
    """Agents with so many samples each, all of them admitted."""
    with ExitStack() as stack:
        agents = {
            name: stack.enter_context(opened(running, folder, name, count))
            for name, count in samples.items()
        }
        for name in samples:
            serving.wait("joined", client=name)
        yield agents


def client_of(agreement: Agreement, name: str, samples: int) -> fg.Client:
    """The protocol's client with the first samples of its `stream`."""
    client = fg.Client(name, agreement.algorithm, agreement.setting)
    X, y = stream(name, agreement.problem.dim, samples)
    for k, (x, reward) in enumerate(zip(X, y, strict=True)):
        client.observe(x, float(reward), k + 1, id=k % ITEMS)
    return client


def update(agreement: Agreement, samples: Mapping[str, int]) -> SharedModel:
    """The model of clients with so many samples each, without a network."""
    clients = {name: client_of(agreement, name, samples[name]) for name in sorted(samples)}
    coordinator = fg.Coordinator(agreement.algorithm, agreement.setting, clients)
    messages = coordinator.begin(max(samples.values()))
    while messages:
        message = messages.pop(0)
        receiver = coordinator if message.upward else clients[str(message.client)]
        messages += receiver.receive(message)
    assert coordinator.model is not None
    return coordinator.model


def same(one: SharedModel | None, other: SharedModel | None) -> bool:
    """Whether two models are the same to the bit."""
    assert one is not None
    assert other is not None
    return all(
        (a is None) == (b is None)
        and (a is None or np.asarray(a).tobytes() == np.asarray(b).tobytes())
        for a, b in ((getattr(one, f.name), getattr(other, f.name)) for f in fields(SharedModel))
    )
