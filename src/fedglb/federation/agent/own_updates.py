"""Updates of an agent with a schema that is alone: it is its own coordinator.

Only an update chooses a ridge for each block of features, so without one a schema could not be
generous. Nothing is sent, so the event trigger has nothing to save: an update comes whenever the
samples have grown by a fixed share, and all updates together cost a few passes over the samples.
Where samples count less with age, one also comes four times per half-life.
"""

from __future__ import annotations

import logging
import threading
import time

import numpy as np

from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.update_answers import UpdateAnswers
from fedglb.federation.errors import Unavailable
from fedglb.protocol import Coordinator
from fedglb.protocol.messages import Evaluate, Message, NewModel, SumsRequest, SyncRequest

log = logging.getLogger(__name__)
_FIRST = 10  # samples before the first update, and between two
_GROWTH = 0.3  # of the samples, from update to update
_AGED = 0.25  # of a half-life, between two updates
#: Updates in a row at most, and how much θ may still move in the last one: usually, and after
#: samples were forgotten, when nothing of them may be left in θ.
USUAL, _ANEW = (10, 0.03), (60, 1e-12)


class OwnUpdates:
    """Runs an agent's updates in a thread; the application never waits for them."""

    def __init__(self, durable: DurableClient, answers: UpdateAnswers) -> None:
        self._durable, self._answers = durable, answers
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._running = False
        self._wanted: tuple[int, float] | None = None  # the updates that come next

    def consider(self) -> None:
        """Start an update, if there are enough new samples and none is running."""
        if self._is_due() and not self._running:
            self._start(USUAL)

    def request(self, *, anew: bool = False) -> None:
        """Make an update with all samples so far, after the one that is running, if any.

        `anew`: samples were forgotten.
        """
        self._start(_ANEW if anew else USUAL)

    def _start(self, wanted: tuple[int, float]) -> None:
        with self._lock:
            self._wanted = max(wanted, self._wanted or wanted)
            if not self._running:
                self._running = True
                self._thread = threading.Thread(target=self._run, name="fedglb-update", daemon=True)
                self._thread.start()

    def _is_due(self) -> bool:
        client = self._durable.protocol_client
        new, model = len(client.samples) - client.covered, client.state.base
        aged = False
        if model is not None and model.now is not None:
            shortest = self._durable.agreement.algorithm.memory.shortest
            aged = time.time() - model.now >= _AGED * shortest
        return new >= _FIRST and (aged or new >= _GROWTH * client.covered)

    def _run(self) -> None:
        while (wanted := self._next()) is not None:
            try:
                self._settle(*wanted)
            except Unavailable:
                pass  # closed meanwhile
            except Exception:
                log.exception("an update failed: the agent goes on with the model it has")

    def _next(self) -> tuple[int, float] | None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
            self._running = wanted is not None
            return wanted

    def _settle(self, steps: int, still: float) -> None:
        """Update until θ stands still: an update is one step, shortened far from the fit."""
        for _ in range(steps):
            before = self._durable.protocol_client.shared_theta.copy()
            self._update()
            after = self._durable.protocol_client.shared_theta
            if np.linalg.norm(after - before) <= still * np.linalg.norm(after):
                return

    def coordinator(self) -> Coordinator:
        """Return the coordinator after the last update; without its state it starts at θ = 0."""
        durable, agreement = self._durable, self._durable.agreement
        with durable.locked():
            durable.ready()
            kept, last = durable.store.own_coordinator(), durable.protocol_client.update
        found = Coordinator(agreement.algorithm, agreement.setting, [durable.name])
        if kept is not None:
            before = Coordinator.from_arrays(agreement.algorithm, agreement.setting, kept)
            found = before if before.finished == durable.adopted else found
        found.started = max(durable.adopted, last)  # also updates without a model have a number
        return found

    def _update(self) -> None:
        durable, coordinator = self._durable, self.coordinator()
        request = SyncRequest(durable.name, max(1, durable.clock), durable.adopted)
        coordinator.now = int(time.time())
        messages = coordinator.receive(request)
        while messages:
            message = messages.pop(0)
            if message.upward:
                messages += coordinator.receive(message)
                continue
            answer = self._answer(message)
            messages += [] if answer is None else [answer]
            messages = messages or coordinator.again()
        if coordinator.finished == durable.adopted:  # else something was forgotten meanwhile
            arrays = coordinator.to_arrays()
            with durable.locked():
                durable.ready()
                durable.store.keep_coordinator(arrays)

    def _answer(self, message: Message) -> Message | None:
        match message:
            case SumsRequest():
                return self._answers.freeze(message)
            case Evaluate():
                return self._answers.evaluate(message)
            case NewModel():
                self._answers.adopt(message)
        return None

    def close(self) -> None:
        """Wait for an update in progress."""
        if (running := self._thread) is not None:
            running.join()
