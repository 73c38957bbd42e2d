"""The coordinator: gathers covariances, drives the solver round by round, sends the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer
from fedglb.global_update import Query, Solve, Sums
from fedglb.model import SharedModel
from fedglb.protocol.arrays import Arrays
from fedglb.protocol.assembly import (
    Contribution,
    UpdateRecord,
    objective,
    shared_model,
    sum_replies,
)
from fedglb.protocol.bounds import Batch, Limits, limits, reward_range
from fedglb.protocol.checks import (
    LARGEST,
    check_covariance,
    check_derivatives,
    check_identities,
    check_one_kind,
)
from fedglb.protocol.ledger import Ledger
from fedglb.protocol.messages import (
    ClientId,
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    Message,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.persistence import restore, save
from fedglb.setting import Setting

IDLE, GATHERING, SOLVING = range(3)


class Coordinator:
    """The coordinator of a federation: a state machine without input or output of its own.

    Every method returns the messages that are to be delivered. It sees sums over samples, never
    a sample. It keeps each client's cumulative covariance, so that an update can leave a client
    out: A, n and F then range over the samples of those that answered to the end.

    Parameters
    ----------
    algorithm
        The algorithm that the federation runs.
    setting
        From `algorithm.setting(problem, clients, horizon)`.
    clients
        The identities of the members; others `join` later. Sums are taken in their sorted order,
        whatever the order in which they joined or answers arrive.
    reward_limit
        The largest |reward|, where the link's rewards have no bound: without one, nobody can say
        how large a gradient may be.
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
        self.syncs = 0
        self.rounds = 0
        self.last_update: UpdateRecord | None = None
        self.phase = IDLE
        self.update = 0  # the update in progress, or the last one
        self.finished = 0  # the last update that led to a model
        self.t = 0
        self.asked_by: ClientId | None = None
        self.update_rounds = 0  # rounds of the update in progress
        self.participants: dict[ClientId, None] = {}
        self.gathered: dict[ClientId, Contribution] = {}  # in the update in progress
        self.covered: dict[ClientId, Contribution] = {}  # in the last model
        self.replies: dict[ClientId, Derivatives] = {}
        self.solve: Solve | None = None
        self._last_limits: Limits | None = None  # of the last query that was answered

    # -- members -------------------------------------------------------------------------------

    def join(self, client: ClientId) -> None:
        """Make `client` a member: of the next update, and it gets the model of a running one."""
        if client not in self.clients:
            ids = check_identities([*self.clients, client], self.setting.clients)
            check_one_kind([*self.covered, client])  # some of which may have left
            self.clients = dict.fromkeys(ids)

    def leave(self, client: ClientId) -> list[Message]:
        """Send `client` nothing more, and go on without it; what the model covers stays in it."""
        self.clients.pop(client, None)
        return self.exclude(client)

    def drop_samples(self, client: ClientId) -> list[Message]:
        """Go on without the samples of `client`, which has lost them: none that it has is covered.

        Where updates do not refit, those that the model has stay in it.
        """
        self.covered.pop(client, None)
        return self.exclude(client)

    def model_for(self, client: ClientId, *, again: bool = False) -> NewModel | None:
        """Return the newest model, if there is one, for a member that may have missed it.

        `again`: it was sent this model before, and the ledger counts it once.
        """
        self._check_member(client)
        if self.model is None:
            return None
        message = NewModel(client, self.finished, self._covers(client), self.model)
        if not again:
            self.ledger.count(message)
        return message

    def _check_member(self, client: ClientId) -> None:
        if client not in self.clients:
            raise InvalidInput("client", client, "a client of this federation")

    # -- input ---------------------------------------------------------------------------------

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from a client. A bad one raises `InvalidInput` and changes nothing.

        An answer that nobody waits for (repeated, or to what is over) is dropped unseen.
        """
        self._check_member(message.client)
        match message:
            case SyncRequest():
                integer("t", message.t, at_most=LARGEST)
                if self.algorithm.global_update is None:
                    raise InvalidInput("message", "SyncRequest", "none: there are no updates here")
                self.ledger.count(message)
                wanted = self.phase == IDLE and message.update >= self.finished
                return self.begin(message.t, message.client) if wanted else []
            case Covariance():
                return self._gather(message) if self._awaits(message, GATHERING) else []
            case Derivatives():
                current = message.round == self.update_rounds and self._awaits(message, SOLVING)
                return self._collect(message) if current else []
        raise InvalidInput("message", type(message).__name__, "a message that goes up")

    def end_step(self, t: int) -> list[Message]:
        """Begin an update if one is due at the end of step t."""
        due = self.phase == IDLE and self.algorithm.trigger.due(self.setting, t)
        return self.begin(t) if due else []

    def begin(self, t: int, client: ClientId | None = None) -> list[Message]:
        """Begin a global update in step t, on behalf of `client` where one asked for it.

        Without members there is nothing to be done.
        """
        if not self.clients:
            return []
        self._open(t, client)
        return self._send(self._requests())

    def update_at_once(
        self,
        t: int,
        client: ClientId | None,
        gathered: Mapping[ClientId, Contribution],
        answer: Callable[[Query], Sums],
    ) -> SharedModel:
        """Make a whole update for who holds all clients in one memory; return the model.

        The same update as message by message, and the same entries in the ledger, `client`'s
        request included; `gathered` is what each client's samples amount to, and `answer` gives
        the sums over them: each client's own, then added up in the sorted order of clients.
        """
        first, everybody = next(iter(self.clients)), len(self.clients)
        if client is not None:
            self.ledger.count(SyncRequest(client, t, self.finished))
        self._open(t, client)
        self.gathered = dict(gathered)
        part = self.gathered[first]
        self.ledger.count(CovarianceRequest(first, self.update), everybody)
        self.ledger.count(
            Covariance(first, self.update, part.samples, part.matrix, part.b), everybody
        )
        self.solve, self.phase = self._solve([]), SOLVING
        while self.solve.query is not None:
            query = self.solve.query
            self._count_round()
            self.ledger.count(self._evaluate(first, query), everybody)
            sums = answer(query)
            self.ledger.count(
                Derivatives(
                    first, self.update, self.update_rounds, sums.gradient, sums.hessian, sums.loss
                ),
                everybody,
            )
            self.solve.tell(sums)
        model = self._conclude()
        self.ledger.count(NewModel(first, self.update, self._covers(first), model), everybody)
        return model

    def exclude(self, *clients: ClientId) -> list[Message]:
        """Go on with the update without `clients`, from the start if rounds were made with them."""
        leaving = [client for client in clients if client in self.participants]
        if not leaving:
            return []
        for client in leaving:
            del self.participants[client]
            self.gathered.pop(client, None)
        if not self.participants:  # nobody is left: the update is off
            self._end()
            return []
        return self._solve_if_complete()

    def abandon(self) -> None:
        """End the update in progress without a model; the next one has a higher number."""
        self._end()

    def missing(self) -> list[ClientId]:
        """Return the participants whose answer is outstanding."""
        answered = self._answers()
        return [client for client in self.participants if client not in answered]

    def outstanding(self) -> list[Message]:
        """Return the requests that are not answered yet, to be sent again.

        The ledger has them already: it counts a message once, however often it is sent.
        """
        answered = self._answers()
        return [m for m in self._requests() if m.client not in answered]

    # -- an update, phase by phase -------------------------------------------------------------

    def _open(self, t: int, client: ClientId | None) -> None:
        if self.algorithm.global_update is None or self.phase != IDLE:
            raise InvalidInput("begin", f"phase {self.phase}", "an idle coordinator with a solver")
        self.update += 1
        self.phase, self.t, self.asked_by = GATHERING, t, client
        self.participants = dict(self.clients)
        self.update_rounds = 0

    def _requests(self) -> list[Message]:
        """What the participants are asked at this point."""
        if self.phase == GATHERING:
            return [CovarianceRequest(c, self.update) for c in self.participants]
        query = None if self.solve is None else self.solve.query
        if query is None:
            return []
        return [self._evaluate(c, query) for c in self.participants]

    def _evaluate(self, client: ClientId, query: Query) -> Evaluate:
        return Evaluate(
            client, self.update, self.update_rounds, self.since(client),
            query.theta, query.hessian, query.loss,
        )  # fmt: skip

    def since(self, client: ClientId) -> int:
        """How many of a client's oldest samples an update leaves out: those it does not refit."""
        kept = self._keeps(client)
        return 0 if kept is None else kept.samples

    def _covers(self, client: ClientId) -> int:
        """How many of a client's samples are in the model."""
        return self.covered[client].samples if client in self.covered else 0

    def _keeps(self, client: ClientId) -> Contribution | None:
        """What the model keeps of a client's samples: nothing where it is fitted anew."""
        solver = self.algorithm.global_update
        assert solver is not None
        return None if solver.refits else self.covered.get(client)

    def _answers(self) -> Mapping[ClientId, object]:
        return self.gathered if self.phase == GATHERING else self.replies

    def _awaits(self, message: Covariance | Derivatives, phase: int) -> bool:
        """Whether this client's answer, and no other, is waited for in this phase."""
        return (
            self.phase == phase
            and message.update == self.update
            and message.client in self.participants
            and message.client not in self._answers()
        )

    def _gather(self, message: Covariance) -> list[Message]:
        kept = self._keeps(message.client)
        check_covariance(message, kept, self.rewards, self.algorithm, self.setting)
        self.ledger.count(message)
        self.gathered[message.client] = Contribution(message.samples, message.matrix, message.b)
        return self._solve_if_complete()

    def _solve_if_complete(self) -> list[Message]:
        if len(self.gathered) < len(self.participants):
            return []
        self.solve = self._solve([])
        self.phase = SOLVING
        self.replies = {}
        return self._next_round()

    def _solve(self, told: list[Sums]) -> Solve:
        solver = self.algorithm.global_update
        assert solver is not None
        fitted = objective(
            self.algorithm, self.setting, list(self.participants),
            self.gathered, self.covered, self.model,
        )  # fmt: skip
        return Solve(solver, fitted, told)

    def _next_round(self) -> list[Message]:
        assert self.solve is not None
        if self.solve.query is None:
            model = self._conclude()
            return self._send(
                [NewModel(c, self.update, self._covers(c), model) for c in self.clients]
            )
        self._count_round()
        return self._send(self._requests())

    def _count_round(self) -> None:
        self.update_rounds += 1
        self.rounds += 1

    def _collect(self, message: Derivatives) -> list[Message]:
        batch = Batch(self.gathered[message.client], self._keeps(message.client))
        check_derivatives(message, batch, self._limits(), self.setting)
        self.ledger.count(message)
        self.replies[message.client] = message
        if len(self.replies) < len(self.participants):
            return []
        assert self.solve is not None
        ordered = [self.replies[client] for client in self.participants]
        self.replies = {}
        self.solve.tell(sum_replies(ordered, self.setting.problem.dim))
        return self._next_round()

    def _limits(self) -> Limits:
        """What one sample can add in this round; for a link of somebody's own it takes a search."""
        assert self.solve is not None
        query = self.solve.query
        assert query is not None
        if self._last_limits is None or self._last_limits.query is not query:
            self._last_limits = limits(self.setting.problem.link, self.rewards, query)
        return self._last_limits

    def _conclude(self) -> SharedModel:
        solve = self.solve
        assert solve is not None
        assert solve.solution is not None
        model = shared_model(self.algorithm, self.setting, self.t, solve.objective, solve.solution)
        self.model = model
        self.syncs += 1
        self.finished = self.update
        fitted = {client: self.gathered[client] for client in self.participants}
        self.covered = fitted if solve.solver.refits else self.covered | fitted
        self.last_update = UpdateRecord(
            t=self.t,
            client=self.asked_by,
            samples=sum(part.samples for part in fitted.values()),
            rounds=self.update_rounds,
            gradient_norm=float(np.linalg.norm(solve.solution.gradient)),
            gap=solve.solution.gap,
            projected=solve.solution.projected,
        )
        self._end()
        return model

    def _end(self) -> None:
        self.phase = IDLE
        self.participants, self.gathered, self.replies, self.solve = {}, {}, {}, None

    def _send(self, messages: list[Any]) -> list[Message]:
        for message in messages:
            self.ledger.count(message)
        return messages

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, an update in progress included."""
        return save(self)

    @classmethod
    def from_arrays(
        cls,
        algorithm: Algorithm,
        setting: Setting,
        arrays: Mapping[str, NDArray[Any]],
        *,
        reward_limit: float | None = None,
    ) -> Coordinator:
        """Return the coordinator whose state `to_arrays` gave: it goes on exactly as that one."""
        self = cls(algorithm, setting, arrays["clients"].tolist(), reward_limit=reward_limit)
        told = restore(self, arrays)
        if self.phase == SOLVING:
            # The solver stands where it stood once it has been told the same again.
            self.solve = self._solve(told)
        return self
