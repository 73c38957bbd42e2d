"""An agent's learner, the coordinator's side: it answers rounds and takes over models."""

from __future__ import annotations

from bisect import bisect_right

from fedglb.federation.agent.durable_client import Choosing
from fedglb.federation.agent.store import AdoptedModel, Snapshot
from fedglb.protocol.client import Adoption
from fedglb.protocol.messages import Covariance, CovarianceRequest, Derivatives, Evaluate, NewModel


class Learner(Choosing):
    """A learner that takes part in global updates.

    Nothing of that holds the application up: a pass over the samples, and the replay of samples
    on a new model, run beside the lock.
    """

    def freeze(self, request: CovarianceRequest) -> Covariance | None:
        """Fix which samples belong to an update, and answer; None: of no update to take part in."""
        with self._locked():
            self._ready()
            client = self.client
            mark = self._marks.get(request.update)
            if mark is not None and mark.withdrawn:
                return None
            if request.update > max(client.update, client.adopted):
                last = self._places[-1] if self._places else 0
                self._stale = True
                self._file.freeze(request.update, last)
                self._marks[request.update] = Snapshot(last)
                answer = client.receive(request)
                self._stale = False
            elif client.frozen == len(client.samples):
                answer = client.receive(request)
            else:
                answer = None
        if answer is None:  # asked again, after a restart: a pass over older samples, no lock
            answer = client.receive(request)
            if not self.takes_part(request.update):
                return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def takes_part(self, update: int) -> bool:
        """Whether samples are frozen for this update."""
        with self._locked():
            self._ready()
            mark = self._marks.get(update)
            return mark is not None and not mark.withdrawn

    def asks(self) -> int:
        """Return the step in which the trigger fired, if the samples so far say so, or 0."""
        with self._locked():
            self._ready()
            client = self.client
            state, trigger = client.state, client.algorithm.trigger
            fired = len(client.samples) > client.covered and trigger.fires(
                client.last_t, state.t_last, state.log_gain
            )
            return client.last_t if fired else 0

    def newest(self) -> tuple[int, int]:
        """Return the last update that the agent knows of, and the place of its newest sample."""
        with self._locked():
            self._ready()
            update = max(self.client.update, self.client.adopted)
            return update, self._places[-1] if self._places else 0

    def covers(self, place: int) -> bool:
        """Whether the model that the agent holds covers its samples up to this place."""
        with self._locked():
            self._ready()
            return bisect_right(self._places, place) <= self.client.covered

    def clock(self) -> int:
        """Return the newest step that the agent knows of: its own or the shared model's."""
        with self._locked():
            self._ready()
            return self._clock()

    def evaluate(self, request: Evaluate) -> Derivatives | None:
        """Answer a round on the samples of its update; None: this agent is no part of it."""
        client = self.client
        if not self.takes_part(request.update):
            return None
        answer = client.receive(request)  # samples are only appended: no lock
        if not self.takes_part(request.update):
            return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def adopt(self, message: NewModel) -> bool:
        """Hold a new model, own later samples on top; False: it is held already."""
        while True:
            with self._locked():
                self._ready()
                client, last = self.client, self._covered_place(message)
                covered = bisect_right(self._places, last)
            translated = NewModel(message.client, message.update, covered, message.model)
            adoption = client.prepare(translated)
            if adoption is None:
                return False
            held = AdoptedModel(adoption.update, last, adoption.base)
            _ = held.packed  # takes a while: not under the lock
            with self._locked():
                self._ready()
                if self.client is client:
                    self._install(adoption, held)
                    return True
            # a sample was forgotten meanwhile: work it out again

    def _covered_place(self, message: NewModel) -> int:
        """Return the place of the last sample that a model covers."""
        mark = self._marks.get(message.update)
        if message.covered == 0 or not self._places:
            return 0
        if mark is not None:  # also where it withdrew too late, and is in the model
            return mark.sample
        # The mark is lost (a power cut, an older copy of the file): the oldest ones, as many as
        # there are.
        return self._places[min(message.covered, len(self._places)) - 1]

    def _install(self, adoption: Adoption, held: AdoptedModel) -> None:
        self._stale = True
        self._file.hold(held)
        self.client.install(adoption)
        self._marks = {k: v for k, v in self._marks.items() if k > adoption.update}
        self._stale = False
