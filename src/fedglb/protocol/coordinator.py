"""The coordinator: members, the model, the ledger, and the global update in progress."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer
from fedglb.model import SharedModel
from fedglb.protocol.assembly import Contribution, UpdateRecord
from fedglb.protocol.bounds import reward_range
from fedglb.protocol.checks import LARGEST, check_identities, check_one_kind
from fedglb.protocol.downloads import Holding, recipients
from fedglb.protocol.ledger import Entry, Ledger
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    Covariance,
    Derivatives,
    Message,
    ModelSums,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.one_pass_update import OnePassUpdate, SumOfReleases
from fedglb.protocol.persistence import (
    Arrays,
    from_arrays,
    nested,
    prefixed,
    stack,
    to_arrays,
    unstack,
)
from fedglb.protocol.update import IDLE, Update
from fedglb.setting import Setting
from fedglb.typing import IntArray

_NUMBERS = ("syncs", "rounds", "started", "finished", "t")


class Coordinator:
    """The coordinator of a federation: a state machine without input or output of its own.

    Every method returns the messages that are to be delivered. It sees sums over samples, never
    a sample. It keeps each client's cumulative covariance, so that an update can exclude a
    client: A, n and F then range over the samples of those that answered to the end. Where the
    solver's updates are `alone`, the client that asked is the only participant, and gets the model,
    or those get it that lack enough of it.

    Parameters
    ----------
    algorithm
        The algorithm that the federation runs.
    setting
        From `algorithm.setting(problem, clients, horizon)`.
    clients
        The identities of the members; others `join` later. Sums are taken in their sorted order,
        in whatever order they joined or answer.
    reward_limit
        The largest |reward|, where the link's rewards have no bound: without one, nobody can say
        how large a gradient may be.

    Raises
    ------
    InvalidInput
        If there are more clients than the setting has, two of one identity, or names among
        numbers; or `reward_limit` is not allowed.

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
    >>> while up:  # deliver messages until nobody has any
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
        self.reward_limit = reward_limit
        self.rewards = reward_range(setting.problem.link, reward_limit)
        self.ledger = Ledger()
        self.model: SharedModel | None = None
        self.covered: dict[
            ClientId, Contribution
        ] = {}  # what the model covers of each client's samples
        self.holdings: dict[ClientId, Holding] = {}  # where the solver asks who lacks what of A
        self.releases: dict[int, SumOfReleases] = {}  # of one-pass updates, by their numbers
        self.update: Update | OnePassUpdate | None = None  # the one in progress
        self.last_update: UpdateRecord | None = None  # the last one that led to a model
        self.started = 0  # the number of the last update that began
        self.finished = 0  # the number of the last one that led to a model
        self.t = 0  # the step of the last update that began
        self.syncs = 0  # updates that led to a model
        self.rounds = 0  # rounds of all updates that are over

    # -- members -------------------------------------------------------------------------------

    def join(self, client: ClientId) -> None:
        """Make `client` a member: of the next update, and it gets the model of a running one.

        Parameters
        ----------
        client
            Its identity; that of a member changes nothing.

        Raises
        ------
        InvalidInput
            If there are as many members as the setting has clients, or the identity is a name
            where the others are numbers, or the reverse.
        """
        if client not in self.clients:
            ids = check_identities([*self.clients, client], self.setting.clients)
            check_one_kind([*self.covered, client])  # some of which may have left
            self.clients = dict.fromkeys(ids)

    def leave(self, client: ClientId) -> list[Message]:
        """Send `client` nothing more, and go on without it; what the model covers stays in it.

        Parameters
        ----------
        client
            Who leaves; one that is no member changes nothing.

        Returns
        -------
        list of Message
            What is to be sent to the others, as for `exclude`.
        """
        self.clients.pop(client, None)
        return self.exclude(client)

    def drop_samples(self, client: ClientId) -> list[Message]:
        """Go on without the samples of `client`, which has lost them: none that it has is covered.

        Where updates do not refit, those that the model has stay in it.

        Parameters
        ----------
        client
            Who has lost its samples.

        Returns
        -------
        list of Message
            What is to be sent to the others, as for `exclude`.
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
            Whether it was sent this model before: the ledger counts it once.

        Returns
        -------
        NewModel or None
            None: there is no model yet.

        Raises
        ------
        InvalidInput
            If `client` is no member.
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
        return NewModel(client, self.finished, covered, model)

    @property
    def _alone(self) -> bool:
        """Whether an update has one participant, the client that asked for it."""
        solver = self.algorithm.global_update
        return solver is not None and solver.alone

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
        """Who takes part in the update in progress."""
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
        """Handle a message from a client.

        An answer that nobody waits for (repeated, or to what is over) is dropped unseen.

        Parameters
        ----------
        message
            A `SyncRequest`, a `Covariance`, a `ModelSums`, a `BatchSums` or a `Derivatives`.

        Returns
        -------
        list of Message
            What is to be sent: the next request to every participant, or the new model to every
            member, or nothing while answers are missing.

        Raises
        ------
        InvalidInput
            If the message is bad: its sender is no member, it is none that goes up, or what it
            says cannot be. Nothing has changed.
        """
        self._check_member(message.client)
        match message:
            case SyncRequest():
                integer("t", message.t, at_most=LARGEST)
                if self.algorithm.global_update is None:
                    raise InvalidInput("message", message.name, "none: there are no updates here")
                self.ledger.count(message)
                newest = message.update >= self.finished or self._alone
                wanted = self.update is None and newest
                return self.begin(message.t, message.client) if wanted else []
            case Covariance() | ModelSums() | Derivatives() | BatchSums():
                if self.update is None or not self.update.awaits(message):
                    return []
                self.update.accept(message)  # type: ignore[arg-type]
                self.ledger.count(message)
                return self._go_on(self.update)
        raise InvalidInput("message", type(message).__name__, "a message that goes up")

    def end_step(self, t: int) -> list[Message]:
        """Begin an update if the trigger's schedule has one at the end of step t.

        Parameters
        ----------
        t
            The step, 1 ≤ t ≤ T.

        Returns
        -------
        list of Message
            What is to be sent: a request to every member, or nothing.
        """
        due = self.update is None and self.algorithm.trigger.due(self.setting, t)
        return self.begin(t) if due else []

    def accept_total(self, clients: int, numbers: IntArray) -> list[Message]:
        """End a one-pass update with the sum over its participants, where nobody has its terms.

        Parameters
        ----------
        clients
            How many clients are in it.
        numbers
            The sum, d + d(d+1)/2 whole numbers.

        Returns
        -------
        list of Message
            The new model, to every member.

        Raises
        ------
        InvalidInput
            If no such update is in progress, or these are other numbers.
        """
        if not isinstance(self.update, OnePassUpdate):
            raise InvalidInput("update", self.phase, "a one-pass update in progress")
        self.update.accept_total(clients, numbers)
        return self._go_on(self.update)

    def begin(self, t: int, client: ClientId | None = None) -> list[Message]:
        """Begin a global update in step t, on behalf of `client` where one asked for it.

        Without members there is nothing to be done; nor where the privacy budget is spent.

        Parameters
        ----------
        t
            The step.
        client
            Who asked for it; None: nobody, it is a schedule's.

        Returns
        -------
        list of Message
            What is to be sent: a request to every member.

        Raises
        ------
        InvalidInput
            If an update is in progress, or the algorithm makes none.
        """
        able = bool(self.clients) and not self.budget_spent
        return self._ask(self.start_update(t, client)) if able else []

    @property
    def budget_spent(self) -> bool:
        """Whether clients will release nothing more: there were as many updates as agreed on."""
        most = self.algorithm.most_updates
        return most is not None and self.started >= most

    def exclude(self, *clients: ClientId) -> list[Message]:
        """Go on with the update without `clients`, from the start if rounds were made with them.

        Without anybody left, the update is abandoned.

        Parameters
        ----------
        *clients
            Who is left out; who takes no part changes nothing.

        Returns
        -------
        list of Message
            What is to be sent, if no covariance of those left is missing: the next request, or
            the model. Otherwise nothing.
        """
        leaving = [client for client in clients if client in self.participants]
        if self.update is None or not leaving:
            return []
        self.update.exclude(leaving)
        if not self.update.participants:  # nobody is left
            self.abandon()
            return []
        return self._go_on(self.update)

    def abandon(self) -> None:
        """End the update in progress without a model; the next one has a higher number."""
        if self.update is not None:
            self.rounds += self.update.rounds
            self.update = None

    def start_update(self, t: int, client: ClientId | None) -> Update | OnePassUpdate:
        """Start an update with all members, or alone, without sending any request.

        For who drives the update without messages (`simulation.bulk_update`); others `begin`.

        Parameters
        ----------
        t, client
            As for `begin`.

        Returns
        -------
        Update or OnePassUpdate
            The update in progress.

        Raises
        ------
        InvalidInput
            If an update is in progress, or the algorithm makes none.
        """
        if self.algorithm.global_update is None or self.update is not None:
            raise InvalidInput("begin", f"phase {self.phase}", "an idle coordinator with a solver")
        if client is None and self._alone:
            raise InvalidInput("client", None, "the client that asks: it takes part alone")
        self.started, self.t = self.started + 1, t
        self.update = self._update(client)
        return self.update

    def finish_update(self) -> tuple[SharedModel, list[ClientId]]:
        """Return the model of the update in progress, which is solved, and who gets it.

        The update ends, and the model is now ours. For who drives it without messages, as
        `start_update`.
        """
        update, solver = self.update, self.algorithm.global_update
        assert update is not None
        assert solver is not None
        self.model = model = update.model()
        self.last_update = update.record()
        keeps = not solver.refits and not isinstance(update, OnePassUpdate)  # that has `releases`
        self.covered = (self.covered if keeps else {}) | update.fitted()
        if isinstance(update, OnePassUpdate):
            assert update.total is not None
            self.releases[update.number] = update.total
        self.finished = update.number
        self.syncs += 1
        self.rounds += update.rounds
        self.update = None
        return model, self._recipients(update, model)

    def _recipients(self, update: Update | OnePassUpdate, model: SharedModel) -> list[ClientId]:
        solver = self.algorithm.global_update
        assert solver is not None
        if not solver.alone:
            return list(self.clients)
        if solver.download_level is None:
            return list(update.participants)
        assert update.solve is not None
        prior = self.algorithm.local_update.prior(self.setting)
        nothing = Holding.of(prior * np.eye(self.setting.problem.dim))
        for client in update.participants:
            before = self.holdings.get(client, nothing)
            self.holdings[client] = before.with_upload(update.solve.objective.covariance)
        everything = Holding.of(model.matrix)
        level = solver.download_level
        return recipients(self.clients, self.holdings, nothing, everything, level)

    def _update(self, asked_by: ClientId | None = None) -> Update | OnePassUpdate:
        solver = self.algorithm.global_update
        assert solver is not None
        base = self.finished if self.model is not None else 0
        if solver.one_pass:
            return OnePassUpdate(
                self.algorithm, self.setting, self.started, self.t, asked_by,
                self._participants(asked_by), self.model, base, self.releases,
            )  # fmt: skip
        return Update(
            self.algorithm,
            self.setting,
            self.rewards,
            number=self.started,
            t=self.t,
            asked_by=asked_by,
            participants=self._participants(asked_by),
            previous=self.model,
            base=base,
            kept={} if solver.refits else self.covered,
        )

    def _participants(self, asked_by: ClientId | None) -> dict[ClientId, None]:
        if self._alone and asked_by is not None:  # None: `restore` will say who takes part
            return {asked_by: None}
        return dict(self.clients)

    def _go_on(self, update: Update | OnePassUpdate) -> list[Message]:
        """Advance the update as far as the answers allow."""
        if not update.complete:
            return []
        update.advance()
        if not update.solved:
            return self._ask(update)
        model, getting = self.finish_update()
        return self._send([self._new_model(client, model) for client in getting])

    def _ask(self, update: Update | OnePassUpdate) -> list[Message]:
        return self._send([update.request(client) for client in update.participants])

    def _send(self, messages: list[Any]) -> list[Message]:
        for message in messages:
            self.ledger.count(message)
        return messages

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, an update in progress included."""
        out: Arrays = {name: np.array(getattr(self, name)) for name in _NUMBERS}
        out["clients"] = np.array(list(self.clients))
        if self.model is not None:
            out |= prefixed(to_arrays(self.model), "model")
        if self.last_update is not None:
            out |= prefixed(to_arrays(self.last_update), "last_update")
        if self.update is not None:
            out |= prefixed(self.update.to_arrays(), "update")
        out |= prefixed(stack(self.covered), "covered")
        out |= prefixed(stack(self.holdings), "holdings")
        out |= prefixed(stack(self.releases), "releases")
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
        """Return the coordinator whose state `to_arrays` gave: it goes on exactly as that one.

        Parameters
        ----------
        algorithm, setting, reward_limit
            As for a new coordinator, and the same as that one's.
        arrays
            From `to_arrays`.

        Returns
        -------
        Coordinator
            With an update in progress where that one had one.
        """
        self = cls(algorithm, setting, arrays["clients"].tolist(), reward_limit=reward_limit)
        for name in _NUMBERS:
            setattr(self, name, int(arrays[name]))
        if model := nested(arrays, "model"):
            self.model = from_arrays(SharedModel, model)
        if record := nested(arrays, "last_update"):
            self.last_update = from_arrays(UpdateRecord, record)
        self.covered = unstack(Contribution, nested(arrays, "covered"))
        self.holdings = unstack(Holding, nested(arrays, "holdings"))
        self.releases = unstack(SumOfReleases, nested(arrays, "releases"))
        for name, totals in nested(arrays, "ledger").items():
            kind, direction = name.split(".")
            self.ledger.entries[kind, direction] = Entry(*(int(v) for v in totals))
        if update := nested(arrays, "update"):
            self.update = self._update()
            self.update.restore(update)
        return self
