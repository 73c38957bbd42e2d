"""The coordinator: gathers covariances, drives the solver round by round, sends the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer
from fedglb.global_update import Query, Solve, Sums
from fedglb.model import SharedModel
from fedglb.protocol.arrays import Arrays, from_arrays, nested, prefixed, stack, to_arrays, unstack
from fedglb.protocol.checks import check_covariance, check_derivatives, check_identities
from fedglb.protocol.fit import Contribution, UpdateRecord, objective, shared_model, sum_replies
from fedglb.protocol.ledger import Entry, Ledger
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
from fedglb.setting import Setting

IDLE, GATHERING, SOLVING = range(3)
_NUMBERS = ("syncs", "rounds", "phase", "update", "finished", "t", "update_rounds")


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
        The identities of the clients. Sums are taken in their sorted order, whatever the order
        in which answers arrive.
    """

    def __init__(self, algorithm: Algorithm, setting: Setting, clients: Iterable[ClientId]) -> None:
        self.algorithm = algorithm
        self.setting = setting
        # In sorted order; a dict, for a federation has many members and each is looked up often.
        self.clients = dict.fromkeys(check_identities(clients, setting.clients))
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

    # -- input ---------------------------------------------------------------------------------

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from a client. A bad one raises `InvalidInput` and changes nothing."""
        if message.client not in self.clients:
            raise InvalidInput("client", message.client, "a client of this federation")
        match message:
            case SyncRequest():
                integer("t", message.t)
                if self.algorithm.global_update is None:
                    raise InvalidInput("message", "SyncRequest", "none: there are no updates here")
                self.ledger.count(message)
                wanted = self.phase == IDLE and message.update >= self.finished
                return self.begin(message.t, message.client) if wanted else []
            case Covariance():
                check_covariance(message, self.algorithm, self.setting)
                self.ledger.count(message)
                return self._gather(message)
            case Derivatives():
                query = None if self.solve is None else self.solve.query
                current = message.update == self.update and message.round == self.update_rounds
                check_derivatives(message, query if current else None, self.setting)
                self.ledger.count(message)
                return self._collect(message)
        raise InvalidInput("message", type(message).__name__, "a message that goes up")

    def end_step(self, t: int) -> list[Message]:
        """Begin an update if one is due at the end of step t."""
        due = self.phase == IDLE and self.algorithm.trigger.due(self.setting, t)
        return self.begin(t) if due else []

    def begin(self, t: int, client: ClientId | None = None) -> list[Message]:
        """Begin a global update in step t, on behalf of `client` where one asked for it."""
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

    def leave_out(self, client: ClientId) -> list[Message]:
        """Go on with the update without `client`, from the start if rounds were made with it."""
        if self.phase == IDLE or client not in self.participants:
            return []
        del self.participants[client]
        self.gathered.pop(client, None)
        if not self.participants:  # nobody is left: the update is off
            self._end()
            return []
        return self._solve_if_complete()

    def outstanding(self) -> list[Message]:
        """Return the requests that are not answered yet, to be sent again (after a restart)."""
        answered = self.gathered if self.phase == GATHERING else self.replies
        return self._send([m for m in self._requests() if m.client not in answered])

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
        solver = self.algorithm.global_update
        assert solver is not None
        return 0 if solver.refits else self._covers(client)

    def _covers(self, client: ClientId) -> int:
        """How many of a client's samples are in the model."""
        return self.covered[client].samples if client in self.covered else 0

    def _gather(self, message: Covariance) -> list[Message]:
        if self.phase != GATHERING or not self._takes_part(message.client, message.update):
            return []
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
        if self.phase != SOLVING or not self._takes_part(message.client, message.update):
            return []
        if message.round != self.update_rounds:
            return []  # an answer to a round that is over
        self.replies[message.client] = message
        if len(self.replies) < len(self.participants):
            return []
        assert self.solve is not None
        ordered = [self.replies[client] for client in self.participants]
        self.replies = {}
        self.solve.tell(sum_replies(ordered, self.setting.problem.dim))
        return self._next_round()

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

    def _takes_part(self, client: ClientId, update: int) -> bool:
        return update == self.update and client in self.participants

    def _send(self, messages: list[Any]) -> list[Message]:
        for message in messages:
            self.ledger.count(message)
        return messages

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, an update in progress included."""
        out: Arrays = {name: np.array(getattr(self, name)) for name in _NUMBERS}
        for name in ("clients", "participants"):
            out[name] = np.array(list(getattr(self, name)))
        if self.asked_by is not None:
            out["asked_by"] = np.array(self.asked_by)
        if self.model is not None:
            out |= prefixed(to_arrays(self.model), "model")
        if self.last_update is not None:
            out |= prefixed(to_arrays(self.last_update), "last_update")
        told = [] if self.solve is None else self.solve.transcript
        for name, parts in (
            ("gathered", self.gathered),
            ("covered", self.covered),
            ("replies", self.replies),
            ("transcript", dict(enumerate(told))),
        ):
            out |= prefixed(stack(parts), name)
        for (kind, direction), entry in self.ledger.entries.items():
            out[f"ledger.{kind}.{direction}"] = np.array(dataclasses.astuple(entry))
        return out

    @classmethod
    def from_arrays(
        cls, algorithm: Algorithm, setting: Setting, arrays: Mapping[str, NDArray[Any]]
    ) -> Coordinator:
        """Return the coordinator whose state `to_arrays` gave: it goes on exactly as that one."""
        self = cls(algorithm, setting, arrays["clients"].tolist())
        self.participants = dict.fromkeys(arrays["participants"].tolist())
        for name in _NUMBERS:
            setattr(self, name, int(arrays[name]))
        if "asked_by" in arrays:
            self.asked_by = arrays["asked_by"].item()
        if model := nested(arrays, "model"):
            self.model = from_arrays(SharedModel, model)
        if record := nested(arrays, "last_update"):
            self.last_update = from_arrays(UpdateRecord, record)
        self.gathered = unstack(Contribution, nested(arrays, "gathered"))
        self.covered = unstack(Contribution, nested(arrays, "covered"))
        self.replies = unstack(Derivatives, nested(arrays, "replies"))
        if self.phase == SOLVING:
            # The solver stands where it stood once it has been told the same again.
            self.solve = self._solve(list(unstack(Sums, nested(arrays, "transcript")).values()))
        for name, totals in nested(arrays, "ledger").items():
            kind, direction = name.split(".")
            self.ledger.entries[kind, direction] = Entry(*(int(v) for v in totals))
        return self
