"""The coordinator: gathers covariances, drives the solver round by round, sends the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, array, integer
from fedglb.global_update import Objective, Solution, Solve, Sums
from fedglb.kernels.types import FloatArray
from fedglb.model import SharedModel
from fedglb.protocol.arrays import Arrays, from_arrays, nested, prefixed, to_arrays
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


@dataclass(frozen=True)
class UpdateRecord:
    """What happened in one global update.

    Parameters
    ----------
    t, client
        The step, and the client whose trigger fired (None: a schedule's).
    samples
        n, the samples that the model was fitted to.
    rounds
        Derivative evaluations over all clients.
    gradient_norm
        ‖n∇F‖ at the model (for variant 3: of the batch, at the model before).
    gap
        The proven bound on F(θ) − min F (nan where there is none).
    projected
        Whether the constraint ‖θ‖ ≤ S was active.
    """

    t: int
    client: ClientId | None
    samples: int
    rounds: int
    gradient_norm: float
    gap: float
    projected: bool


@dataclass(frozen=True)
class Contribution:
    """What one client's samples amount to: their number, Σ x xᵀ, and Σ x y where shared."""

    samples: int
    matrix: FloatArray
    b: FloatArray | None


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
        self.clients: list[ClientId] = sorted(clients)
        if len(self.clients) > setting.clients:
            raise InvalidInput(
                "clients", len(self.clients), f"at most the setting's {setting.clients}"
            )
        self.ledger = Ledger()
        self.model: SharedModel | None = None
        self.syncs = 0
        self.rounds = 0
        self.last_update: UpdateRecord | None = None
        self.phase = IDLE
        self.update = 0
        self.t = 0
        self.asked_by: ClientId | None = None
        self.update_rounds = 0  # rounds of the update in progress
        self.participants: list[ClientId] = []
        self.gathered: dict[ClientId, Contribution] = {}  # in the update in progress
        self.covered: dict[ClientId, Contribution] = {}  # in the last model
        self.replies: dict[ClientId, Derivatives] = {}
        self.solve: Solve | None = None

    # -- input ------------------------------------------------------------------------------------

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from a client. A bad one raises `InvalidInput` and changes nothing."""
        if message.client not in self.clients:
            raise InvalidInput("client", message.client, "a client of this federation")
        match message:
            case SyncRequest():
                integer("t", message.t)
                self.ledger.count(message)
                return self._begin(message.t, message.client) if self.phase == IDLE else []
            case Covariance():
                self._check_covariance(message)
                self.ledger.count(message)
                return self._gather(message)
            case Derivatives():
                self._check_derivatives(message)
                self.ledger.count(message)
                return self._collect(message)
        raise InvalidInput("message", type(message).__name__, "a message that goes up")

    def end_step(self, t: int) -> list[Message]:
        """Begin an update if one is due at the end of step t."""
        if self.phase == IDLE and self.algorithm.trigger.due(self.setting, t):
            return self._begin(t, None)
        return []

    def leave_out(self, client: ClientId) -> list[Message]:
        """Go on with the update without `client`, from the start if rounds were made with it."""
        if self.phase == IDLE or client not in self.participants:
            return []
        self.participants = [c for c in self.participants if c != client]
        self.gathered.pop(client, None)
        if not self.participants:  # nobody is left: the update is off
            self._end()
            return []
        return self._solve_if_complete()

    # -- an update, phase by phase ----------------------------------------------------------------

    def _begin(self, t: int, client: ClientId | None) -> list[Message]:
        self.update += 1
        self.phase, self.t, self.asked_by = GATHERING, t, client
        self.participants = list(self.clients)
        self.update_rounds = 0
        return self._send([CovarianceRequest(c, self.update) for c in self.participants])

    def _gather(self, message: Covariance) -> list[Message]:
        if self.phase != GATHERING or not self._takes_part(message.client, message.update):
            return []
        self.gathered[message.client] = Contribution(message.samples, message.matrix, message.b)
        return self._solve_if_complete()

    def _solve_if_complete(self) -> list[Message]:
        if any(c not in self.gathered for c in self.participants):
            return []
        solver = self.algorithm.global_update
        assert solver is not None
        self.phase = SOLVING
        self.replies = {}
        self.solve = Solve(solver, self._objective())
        return self._next_round()

    def _objective(self) -> Objective:
        """What is to be fitted: sums over the participants, in their order."""
        solver, d = self.algorithm.global_update, self.setting.problem.dim
        assert solver is not None
        n, M, moment = 0, np.zeros((d, d)), np.zeros(d)
        for client in self.participants:
            part = self.gathered[client]
            n += part.samples
            M = M + part.matrix
            if part.b is not None:
                moment = moment + part.b
            if not solver.refits and client in self.covered:
                before = self.covered[client]
                n -= before.samples
                M = M - before.matrix
        prior = self.algorithm.local_update.prior(self.setting) * np.eye(d)
        if not solver.refits and self.model is not None:
            prior = self.model.matrix
        shared = self.algorithm.local_update.shares_moment
        return Objective(
            setting=self.setting,
            samples=max(n, 1),  # F of no samples is the regulariser alone
            covariance=M,
            matrix=prior + M,
            previous=self.model,
            moment=moment if shared else None,
        )

    def _next_round(self) -> list[Message]:
        assert self.solve is not None
        query = self.solve.query
        if query is None:
            return self._finish()
        self.update_rounds += 1
        self.rounds += 1
        return self._send(
            [
                Evaluate(c, self.update, self.update_rounds, query.theta, query.hessian, query.loss)
                for c in self.participants
            ]
        )

    def _collect(self, message: Derivatives) -> list[Message]:
        if self.phase != SOLVING or not self._takes_part(message.client, message.update):
            return []
        if message.round != self.update_rounds:
            return []  # an answer to a round that is over
        self.replies[message.client] = message
        if len(self.replies) < len(self.participants):
            return []
        assert self.solve is not None
        sums = self._sum_replies()
        self.replies = {}
        self.solve.tell(sums)
        return self._next_round()

    def _sum_replies(self) -> Sums:
        d = self.setting.problem.dim
        gradient, hessian, loss = np.zeros(d), np.zeros((d, d)), 0.0
        with_hessian, with_loss = False, False
        for client in self.participants:
            reply = self.replies[client]
            gradient = gradient + reply.gradient
            if reply.hessian is not None:
                hessian, with_hessian = hessian + reply.hessian, True
            if reply.loss is not None:
                loss, with_loss = loss + reply.loss, True
        return Sums(gradient, hessian if with_hessian else None, loss if with_loss else None)

    def _finish(self) -> list[Message]:
        assert self.solve is not None
        assert self.solve.solution is not None
        solution, objective = self.solve.solution, self.solve.objective
        self.model = self._share(objective, solution)
        self.syncs += 1
        if not self.solve.solver.refits:
            self.covered |= {c: self.gathered[c] for c in self.participants}
        self.last_update = UpdateRecord(
            t=self.t,
            client=self.asked_by,
            samples=sum(self.gathered[c].samples for c in self.participants),
            rounds=self.update_rounds,
            gradient_norm=float(np.linalg.norm(solution.gradient)),
            gap=solution.gap,
            projected=solution.projected,
        )
        messages = [
            NewModel(c, self.update, c in self.participants, self.model) for c in self.clients
        ]
        self._end()
        return self._send(messages)

    def _share(self, objective: Objective, solution: Solution) -> SharedModel:
        solver = self.algorithm.global_update
        assert solver is not None
        numbers = self.algorithm.confidence.at_sync(self.setting, objective, solution)
        return SharedModel(
            t=self.t,
            matrix=objective.matrix,
            numbers=np.array(numbers, dtype=np.float64),
            theta=solution.theta if solver.shares_theta else None,
            b=solution.b,
            gradient_matrix=solution.gradient_matrix,
        )

    def _end(self) -> None:
        self.phase = IDLE
        self.participants, self.gathered, self.replies, self.solve = [], {}, {}, None

    def _takes_part(self, client: ClientId, update: int) -> bool:
        return update == self.update and client in self.participants

    def _send(self, messages: list[Any]) -> list[Message]:
        for message in messages:
            self.ledger.count(message)
        return messages

    # -- what is refused ------------------------------------------------------------

    def _check_covariance(self, message: Covariance) -> None:
        d = self.setting.problem.dim
        integer("samples", message.samples, at_least=0)
        array("matrix", message.matrix, (d, d))
        if self.algorithm.local_update.shares_moment:
            if message.b is None:
                raise InvalidInput("b", None, f"an array of shape ({d},)")
            array("b", message.b, (d,))

    def _check_derivatives(self, message: Derivatives) -> None:
        d = self.setting.problem.dim
        array("gradient", message.gradient, (d,))
        if message.hessian is not None:
            array("hessian", message.hessian, (d, d))
        if message.loss is not None:
            array("loss", message.loss, ())
        query = None if self.solve is None else self.solve.query
        if query is None or message.round != self.update_rounds:
            return
        if query.hessian and message.hessian is None:
            raise InvalidInput(
                "hessian", None, f"an array of shape ({d}, {d}), which was asked for"
            )
        if query.loss and message.loss is None:
            raise InvalidInput("loss", None, "a number, which was asked for")

    # -- persistence ------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, an update in progress included."""
        out: Arrays = {
            name: np.array(getattr(self, name)) for name in ("clients", "participants", *_NUMBERS)
        }
        if self.asked_by is not None:
            out["asked_by"] = np.array(self.asked_by)
        if self.model is not None:
            out |= prefixed(to_arrays(self.model), "model")
        if self.last_update is not None:
            out |= prefixed(to_arrays(self.last_update), "last_update")
        for name in ("gathered", "covered"):
            out |= prefixed(_stack(getattr(self, name)), name)
        out |= prefixed(_stack(self.replies), "replies")
        if self.solve is not None:
            told = dict(enumerate(self.solve.transcript))
            out |= prefixed(_stack(told), "transcript")
        for (kind, direction), entry in self.ledger.entries.items():
            out[f"ledger.{kind}.{direction}"] = np.array(dataclasses.astuple(entry))
        return out

    @classmethod
    def from_arrays(
        cls, algorithm: Algorithm, setting: Setting, arrays: Mapping[str, NDArray[Any]]
    ) -> Coordinator:
        """Return the coordinator whose state `to_arrays` gave: it goes on exactly as that one."""
        self = cls(algorithm, setting, arrays["clients"].tolist())
        self.participants = arrays["participants"].tolist()
        for name in _NUMBERS:
            setattr(self, name, int(arrays[name]))
        if "asked_by" in arrays:
            self.asked_by = arrays["asked_by"].item()
        if model := nested(arrays, "model"):
            self.model = from_arrays(SharedModel, model)
        if record := nested(arrays, "last_update"):
            self.last_update = from_arrays(UpdateRecord, record)
        self.gathered = _unstack(Contribution, nested(arrays, "gathered"))
        self.covered = _unstack(Contribution, nested(arrays, "covered"))
        self.replies = _unstack(Derivatives, nested(arrays, "replies"))
        if self.phase == SOLVING:
            solver = algorithm.global_update
            assert solver is not None
            told = _unstack(Sums, nested(arrays, "transcript"))
            # The solver stands where it stood once it has been told the same again.
            self.solve = Solve(solver, self._objective(), list(told.values()))
        for name, totals in nested(arrays, "ledger").items():
            kind, direction = name.split(".")
            self.ledger.entries[kind, direction] = Entry(*(int(v) for v in totals))
        return self


_NUMBERS = ("syncs", "rounds", "phase", "update", "t", "update_rounds")


def _stack(parts: Mapping[Any, Any]) -> Arrays:
    """Turn equal dataclasses under keys into arrays with one row a key."""
    if not parts:
        return {}
    rows = [to_arrays(part) for part in parts.values()]
    out = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {"keys": np.array(list(parts)), **out}


def _unstack(kind: type[Any], arrays: Mapping[str, NDArray[Any]]) -> dict[Any, Any]:
    """Rebuild what `_stack` flattened."""
    if not arrays:
        return {}
    fields = {name: rows for name, rows in arrays.items() if name != "keys"}
    return {
        key: from_arrays(kind, {name: rows[k] for name, rows in fields.items()})
        for k, key in enumerate(arrays["keys"].tolist())
    }
