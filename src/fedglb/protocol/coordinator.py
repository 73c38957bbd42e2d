"""The coordinator: members, the model, the ledger, and the global update in progress."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer
from fedglb.model import SharedModel
from fedglb.parts.global_update import Holding
from fedglb.parts.memory import Adaptive, Filters, NewSums
from fedglb.parts.spread import covariance
from fedglb.protocol.checks import LARGEST, check_identities, reward_range
from fedglb.protocol.losses import Losses, of_theta
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    Covariance,
    Derivatives,
    Entry,
    Ledger,
    Message,
    ModelSums,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.one_pass import OnePassUpdate, SumOfReleases
from fedglb.protocol.persistence import (
    Arrays,
    from_arrays,
    nested,
    prefixed,
    stack,
    to_arrays,
    unstack,
)
from fedglb.protocol.update import IDLE, Contribution, Update, UpdateRecord
from fedglb.setting import Setting
from fedglb.typing import IntArray

_NUMBERS = ("syncs", "rounds", "started", "finished", "t")


class Coordinator:
    """The coordinator of a federation: a state machine without input or output.

    Its methods return the messages to deliver. It sees sums over samples, never a sample. It keeps
    each client's contribution to the model, so that an update can exclude a client: A, n and F
    then range over the samples of the remaining participants. If the solver's updates are
    `alone`, the requesting client is the only participant.

    Parameters
    ----------
    algorithm
        The federation's algorithm.
    setting
        From `algorithm.setting(problem, clients, horizon)`.
    clients
        The identities of the members; others `join` later. Sums are taken in sorted order, whatever
        the order of joining or answering.
    reward_limit
        The largest |reward|, where the link's rewards have no bound: it bounds gradients.

    Raises
    ------
    InvalidInput
        If there are more clients than in the setting, duplicate identities, or names among
        numbers; or `reward_limit` is invalid.

    References
    ----------
    Li and Wang (2022), Algorithm 1, the server's part; docs/reference.md.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_ucb(threshold=0.0, solver=fg.Newton())  # asks after every reward
    >>> setting = algorithm.setting(fg.Problem(dim=2), clients=2, horizon=None)
    >>> clients = [fg.Client(i, algorithm, setting) for i in range(2)]
    >>> coordinator = fg.Coordinator(algorithm, setting, [client.id for client in clients])
    >>> up = clients[0].observe([1.0, 0.0], reward=1.0, t=1)
    >>> while up:  # deliver messages until none is left
    ...     down = [sent for m in up for sent in coordinator.receive(m)]
    ...     up = [sent for m in down for sent in clients[int(m.client)].receive(m)]
    >>> coordinator.syncs, [client.adopted for client in clients]
    (1, [1, 1])
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setting: Setting,
        clients: Iterable[ClientId] = (),
        *,
        reward_limit: float | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.setting = setting
        # In sorted order; a dict, for a federation has many members and each is looked up often.
        self.clients = dict.fromkeys(check_identities(clients, setting.clients))
        self.rewards = reward_range(setting.problem.link, reward_limit)
        self.ledger = Ledger()
        self.asked: dict[ClientId, None] = {}  # all clients ever asked for sums
        self.model: SharedModel | None = None
        self.base: SharedModel | None = None  # the one before, at which its sums were taken
        self.covered: dict[ClientId, Contribution] = {}  # each client's part of the model
        self.holdings: dict[ClientId, Holding] = {}  # used if only clients that lag get the model
        self.releases: dict[int, SumOfReleases] = {}  # of one-pass updates, by their numbers
        self.update: Update | None = None  # the one in progress
        memory, d = algorithm.memory, setting.problem.dim
        self.filters = Filters.begin(memory, d) if isinstance(memory, Adaptive) else None
        self.last_update: UpdateRecord | None = None  # the last successful one
        self.started = 0  # the number of the last update that began
        self.finished = 0  # the number of the last successful update
        self.t = 0  # the step of the last update that began
        #: the time by which samples age, if it is not the step; the caller sets it
        self.now: int | None = None
        self.syncs = 0  # successful updates
        self.rounds = 0  # rounds of all updates that are over

    # -- members -------------------------------------------------------------------------------

    def join(self, client: ClientId) -> None:
        """Make `client` a member: of the next update; it also gets the model of a running one.

        Parameters
        ----------
        client
            Its identity; no effect for a member.

        Raises
        ------
        InvalidInput
            If the setting has no room for another client, beside all that ever took part, or names
            and numbers would be mixed.
        """
        if client not in self.clients:
            # N bounds the number of all clients ever, also of those that have left
            check_identities({**self.asked, **self.clients, client: None}, self.setting.clients)
            self.clients = dict.fromkeys(sorted([*self.clients, client]))

    def leave(self, client: ClientId) -> list[Message]:
        """Send `client` nothing more, and go on without it; its samples stay in the model.

        Parameters
        ----------
        client
            The client that leaves; no effect for an unknown one.

        Returns
        -------
        list of Message
            For the others, as for `exclude`.
        """
        self.clients.pop(client, None)
        return self.exclude(client)

    def drop_samples(self, client: ClientId) -> list[Message]:
        """Go on without the samples of `client`, which has lost them.

        If updates do not refit, samples in the model stay in it.

        Parameters
        ----------
        client
            The client that has lost its samples.

        Returns
        -------
        list of Message
            For the others, as for `exclude`.
        """
        self.covered.pop(client, None)
        return self.exclude(client)

    def model_for(self, client: ClientId, *, again: bool = False) -> NewModel | None:
        """Return the newest model for a member that may have missed it.

        Parameters
        ----------
        client
            The member.
        again
            Whether this model was sent to it before: the ledger counts it once.

        Returns
        -------
        NewModel or None
            None: there is no model yet.
        """
        self._check_member(client)
        if self.model is None:
            return None
        message = self._new_model(client, self.model)
        if not again:
            self.ledger.count(message)
        return message

    def _new_model(self, client: ClientId, model: SharedModel) -> NewModel:
        covered = self.covered[client].samples if client in self.covered else 0
        return NewModel(client, self.finished, covered, model, self.syncs)

    def _check_member(self, client: ClientId) -> None:
        if client not in self.clients:
            raise InvalidInput("client", client, "a client of this federation")

    # -- the update in progress ----------------------------------------------------------------

    @property
    def phase(self) -> int:
        """IDLE, or the phase of the update in progress."""
        return IDLE if self.update is None else self.update.phase

    @property
    def participants(self) -> Mapping[ClientId, None]:
        """The clients that take part in the update in progress."""
        return {} if self.update is None else self.update.participants

    def missing(self) -> list[ClientId]:
        """Return the participants whose answer is outstanding."""
        return [] if self.update is None else self.update.missing()

    def outstanding(self) -> list[Message]:
        """Return the requests that are not answered yet, to be sent again.

        The ledger has them already: it counts a message once, however often it is sent.
        """
        return [] if self.update is None else [self.update.request(c) for c in self.missing()]

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from a client; stale replies are ignored.

        Parameters
        ----------
        message
            A `SyncRequest`, a `Covariance`, a `ModelSums`, a `BatchSums` or a `Derivatives`.

        Returns
        -------
        list of Message
            The next request to every participant, or the new model to every member, or nothing
            while answers are missing.

        Raises
        ------
        InvalidInput
            If its sender is not a member, or it is not a message for the coordinator, or its
            content is impossible. Nothing has changed.
        """
        self._check_member(message.client)
        match message:
            case SyncRequest():
                integer("t", message.t, at_most=LARGEST)
                solver = self.algorithm.global_update
                if solver is None:
                    raise InvalidInput("message", message.name, "no message: it has no updates")
                self.ledger.count(message)
                begins = solver.course.begins(message.update, self.finished)
                wanted = self.update is None and begins
                return self.begin(message.t, message.client) if wanted else []
            case Covariance() | ModelSums() | Derivatives() | BatchSums():
                if self.update is None or not self.update.awaits(message):
                    return []
                self.update.accept(message)
                self.ledger.count(message)
                return self._go_on(self.update)
        raise InvalidInput("message", type(message).__name__, "a message for the coordinator")

    def end_step(self, t: int) -> list[Message]:
        """Begin an update if the trigger's schedule has one at the end of step t.

        Parameters
        ----------
        t
            The step, 1 ≤ t ≤ T.

        Returns
        -------
        list of Message
            A request to every member, or nothing.
        """
        due = self.update is None and self.algorithm.trigger.due(self.setting, t)
        return self.begin(t) if due else []

    def accept_total(self, clients: int, numbers: IntArray) -> list[Message]:
        """End a one-pass update with a secure sum over its participants.

        Parameters
        ----------
        clients
            The number of clients in the sum.
        numbers
            The sum, d + d(d+1)/2 whole numbers.

        Returns
        -------
        list of Message
            The new model, to every member.
        """
        if not isinstance(self.update, OnePassUpdate):
            raise InvalidInput("update", self.phase, "a one-pass update in progress")
        self.update.accept_total(clients, numbers)
        return self._go_on(self.update)

    def again(self) -> list[Message]:
        """Begin another update at once if the last one changed the memory: sums with new weights.

        Returns
        -------
        list of Message
            A request to every member, or nothing.
        """
        return self.begin(self.t) if self.repeats else []

    @property
    def repeats(self) -> bool:
        """Whether another update is to follow at once, for the sums with new weights."""
        return self.filters is not None and self.filters.switched and self.update is None

    def begin(self, t: int, client: ClientId | None = None) -> list[Message]:
        """Begin a global update in step t, at the request of `client` if not None.

        Without members, or once the privacy budget is spent, nothing happens.

        Parameters
        ----------
        t
            The step.
        client
            The requesting client; None: a schedule.

        Returns
        -------
        list of Message
            A request to every member.

        Raises
        ------
        InvalidInput
            If an update is in progress, or the algorithm has none.
        """
        able = bool(self.clients) and not self.budget_spent
        return self._ask(self.start_update(t, client)) if able else []

    @property
    def budget_spent(self) -> bool:
        """Whether all agreed updates are done: clients release nothing more."""
        most = self.algorithm.max_updates
        return most is not None and self.started >= most

    def exclude(self, *clients: ClientId) -> list[Message]:
        """Go on with the update without `clients`, from the start if rounds included them.

        Without participants, the update is abandoned.

        Parameters
        ----------
        *clients
            The clients to leave out; no effect for others.

        Returns
        -------
        list of Message
            The next request or the model, if no answer of those left is missing; else nothing.
        """
        leaving = [client for client in clients if client in self.participants]
        if self.update is None or not leaving:
            return []
        self.update.exclude(leaving)
        if not self.update.participants:  # no participant is left
            self.abandon()
            return []
        return self._go_on(self.update)

    def abandon(self) -> None:
        """End the update in progress without a model; the next one has a higher number."""
        if self.update is not None:
            self.rounds += self.update.rounds
            self.update = None

    def start_update(self, t: int, client: ClientId | None) -> Update:
        """Start an update as `begin` does, without sending any request.

        Parameters
        ----------
        t, client
            As for `begin`.

        Returns
        -------
        Update
            The update in progress.
        """
        solver = self.algorithm.global_update
        if solver is None or self.update is not None:
            raise InvalidInput("begin", f"phase {self.phase}", "an idle coordinator with a solver")
        participants = solver.course.participants(self.clients, client)
        self.started, self.t = self.started + 1, t
        self.asked |= dict.fromkeys(participants)
        self.update = self._update(participants, client)
        return self.update

    def finish_update(self) -> tuple[SharedModel, list[ClientId]]:
        """Return the model and its recipients; the update, which is solved, ends."""
        update = self.update
        assert update is not None
        assert update.solve is not None
        model = self._remembering(update)
        self.base, self.model = self.model, model
        self.last_update = update.record()
        keeps = not update.solver.refits
        if isinstance(update, OnePassUpdate):
            assert update.total is not None
            self.releases[update.number] = update.total
            keeps = False
        self.covered = (self.covered if keeps else {}) | update.fitted()
        self.finished = update.number
        self.syncs += 1
        self.rounds += update.rounds
        self.update = None
        prior = self.algorithm.local_update.prior(self.setting)
        return model, update.solver.course.recipients(
            self.clients, update.participants, update.solve.objective, prior, self.holdings
        )

    @property
    def _time(self) -> int:
        return self.t if self.now is None else self.now

    def _remembering(self, update: Update) -> SharedModel:
        """Return an update's model, with the memory in force from now on if it is chosen here.

        Sums of a client that lies can leave no finite result: then the filters begin anew.
        """
        model, memory = update.model(), self.algorithm.memory
        if self.filters is None or not isinstance(memory, Adaptive):
            return model
        try:
            with np.errstate(all="ignore"):
                self.filters = self._judged(update, self.filters)
            finite = all(np.isfinite(getattr(self.filters, n)).all() for n in ("P", "w", "log_v"))
        except np.linalg.LinAlgError:
            finite = False
        if not finite:
            self.filters = Filters.begin(memory, self.setting.problem.dim)
        return dataclasses.replace(model, memory=self.filters.in_force)

    def _judged(self, update: Update, filters: Filters) -> Filters:
        """Return the filters after an update."""
        assert update.solve is not None
        objective = update.solve.objective
        theta, setting, arms = objective.start, objective.setting, None
        if objective.at_model is not None:
            arms = objective.at_model.arms
        new, old = self._earlier(update)
        everything = Losses.of(
            [update.gathered[c] for c in update.participants], self.model, theta.size
        )
        known = setting.effect_ridge, math.inf if arms is None else arms.buckets
        S, q = of_theta([everything], *known)
        before = None
        if old is not None:
            earlier, pull = of_theta(old, *known)
            before = earlier @ theta - pull
        spread = None
        if self.algorithm.local_update.personal:
            spread = covariance(self.base, theta.size), covariance(self.model, theta.size)
        batch = NewSums(S, S @ theta - q, theta, new, before, spread, len(update.participants))
        return filters.after(batch, setting, float(update.now))

    def _earlier(self, update: Update) -> tuple[int, list[Losses] | None]:
        """Return the number of new samples, and the losses of the others.

        These are the sums of the last update, client by client, with their weights of now. A client
        that was not in that update has no new samples, unless none was; nor has one that begins or
        ends to learn alone, as it sends other sums of its old ones. Where the memory has changed
        since, or none was in that update, the others are not known apart.
        """
        assert self.filters is not None
        fade = float(self.filters.faded(float(update.now))[self.filters.taken])
        any_then = not self.covered.keys().isdisjoint(update.participants)
        new, last, whole = 0, [], []
        for client in update.participants:
            part, then = update.gathered[client], self.covered.get(client)
            if isinstance(then, ModelSums) and then.alone == part.alone:
                last.append(then)
                new += part.samples - then.samples
            elif any_then:
                whole.append(part)
            else:
                new += part.samples
        if self.filters.switched or not any_then:
            return max(new, 0), None
        d = self.setting.problem.dim
        old = Losses.of(last, self.base, d)
        if self.algorithm.local_update.personal:
            alone = [each.alone[0] for each in last]
            old = old.respread(alone, self.base, self.model, fade)
        else:
            old = old.weighed(fade)
        return max(new, 0), [old, Losses.of(whole, self.model, d)]

    def _update(self, participants: Iterable[ClientId], asked_by: ClientId | None = None) -> Update:
        solver = self.algorithm.global_update
        assert solver is not None
        common: dict[str, Any] = {
            "algorithm": self.algorithm, "setting": self.setting, "rewards": self.rewards,
            "number": self.started, "t": self.t, "asked_by": asked_by,
            "now": self._time if self.algorithm.memory.forgets else 0,
            "participants": dict.fromkeys(participants),
            "previous": self.model, "base": self.finished if self.model is not None else 0,
            "asked": len(self.asked),
        }  # fmt: skip
        if solver.one_pass:
            return OnePassUpdate(**common, kept={}, earlier=self.releases)
        return Update(**common, kept={} if solver.refits else self.covered)

    def _go_on(self, update: Update) -> list[Message]:
        """Advance the update as far as the answers allow."""
        if not update.complete:
            return []
        update.advance()
        if update.solution is None:
            return self._ask(update)
        model, getting = self.finish_update()
        return self._send([self._new_model(client, model) for client in getting])

    def _ask(self, update: Update) -> list[Message]:
        return self._send([update.request(client) for client in update.participants])

    def _send(self, messages: list[Any]) -> list[Message]:
        for message in messages:
            self.ledger.count(message)
        return messages

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, an update in progress included."""
        out: Arrays = {name: np.array(getattr(self, name)) for name in _NUMBERS}
        out["clients"], out["asked"] = np.array(list(self.clients)), np.array(list(self.asked))
        if self.model is not None:
            out |= prefixed(to_arrays(self.model), "model")
        if self.last_update is not None:
            out |= prefixed(to_arrays(self.last_update), "last_update")
        if self.update is not None:
            out |= prefixed(self.update.to_arrays(), "update")
        out |= prefixed(stack(self.covered), "covered")
        out |= prefixed(stack(self.holdings), "holdings")
        out |= prefixed(stack(self.releases), "releases")
        if self.filters is not None:
            out |= prefixed(to_arrays(self.filters), "filters")
            if self.base is not None:
                out |= prefixed(to_arrays(self.base), "base")
        for (kind, direction), entry in self.ledger.entries.items():
            out[f"ledger.{kind}.{direction}"] = np.array(dataclasses.astuple(entry))
        return out

    @classmethod
    def from_arrays(
        cls,
        algorithm: Algorithm,
        setting: Setting,
        arrays: Mapping[str, NDArray[Any]],
        *,
        reward_limit: float | None = None,
    ) -> Coordinator:
        """Return a copy of a coordinator from its `to_arrays`.

        Parameters
        ----------
        algorithm, setting, reward_limit
            As for the original coordinator.
        arrays
            From `to_arrays`.

        Returns
        -------
        Coordinator
            The copy, an update in progress included.
        """
        self = cls(algorithm, setting, arrays["clients"].tolist(), reward_limit=reward_limit)
        for name in _NUMBERS:
            setattr(self, name, int(arrays[name]))
        self.asked = dict.fromkeys(arrays["asked"].tolist())
        if model := nested(arrays, "model"):
            self.model = from_arrays(SharedModel, model)
        if record := nested(arrays, "last_update"):
            self.last_update = from_arrays(UpdateRecord, record)
        solver = algorithm.global_update
        kind = ModelSums if solver is not None and solver.starts_at_model else Covariance
        self.covered = unstack(kind, nested(arrays, "covered"))
        self.holdings = unstack(Holding, nested(arrays, "holdings"))
        self.releases = unstack(SumOfReleases, nested(arrays, "releases"))
        if filters := nested(arrays, "filters"):
            self.filters = from_arrays(Filters, filters)
        if base := nested(arrays, "base"):
            self.base = from_arrays(SharedModel, base)
        for name, totals in nested(arrays, "ledger").items():
            message, direction = name.split(".")
            self.ledger.entries[message, direction] = Entry(*(int(v) for v in totals))
        if update := nested(arrays, "update"):
            self.update = self._update(self.clients)  # `restore` sets the participants
            self.update.restore(update)
        return self
