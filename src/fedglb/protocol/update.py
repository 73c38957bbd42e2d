"""One global update, from the first request to the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.model import SharedModel
from fedglb.parts.global_update import GlobalUpdate, Query, Refit, Solve, Sums
from fedglb.protocol.assembly import (
    Contribution,
    UpdateRecord,
    objective,
    shared_model,
    sum_replies,
)
from fedglb.protocol.bounds import Batch, Limits, limits
from fedglb.protocol.checks import check_covariance, check_derivatives, check_model_sums
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    ModelSums,
)
from fedglb.protocol.persistence import Arrays, nested, prefixed, stack, unstack
from fedglb.setting import Setting

IDLE, GATHERING, SOLVING = range(3)  # IDLE: a coordinator without an update


@dataclass
class Update:
    """An update in progress: who takes part, what they sent, and where the solver stands.

    First all participants send their covariances, or their derivatives at the last model where
    the solver starts there; then the solver asks for derivatives, round by round, until it has a
    solution.

    Parameters
    ----------
    algorithm, setting
        The algorithm and the setting of the federation.
    rewards
        The smallest and the largest reward: they bound what an answer may be.
    number, t, asked_by
        Its number, its step, and the client whose trigger fired (None: a schedule's).
    participants
        The clients that take part, in sorted order; sums are added in this order.
    previous, base
        The model of the update before, None in the first, and the number of that update.
    kept
        Per client, the samples that `previous` covers and that are not fitted again; empty if every
        update fits all samples.
    rounds
        How many rounds of derivatives have begun.
    gathered, replies
        The covariances (or derivatives at the last model) so far, and the derivatives of this
        round so far.
    solve
        The solver; None until all of those have arrived.
    """

    algorithm: Algorithm
    setting: Setting
    rewards: tuple[float, float]
    number: int
    t: int
    asked_by: ClientId | None
    participants: dict[ClientId, None]
    previous: SharedModel | None
    base: int
    kept: Mapping[ClientId, Contribution]
    rounds: int = 0
    gathered: dict[ClientId, Contribution] = field(default_factory=dict)
    replies: dict[ClientId, Derivatives] = field(default_factory=dict)
    solve: Solve | None = None
    _known_limits: list[Limits] = field(default_factory=list)  # of the last queries
    _batches: dict[ClientId, Batch] = field(default_factory=dict)  # of `gathered`, for its rounds

    @property
    def phase(self) -> int:
        """GATHERING (of covariances, or of derivatives at the last model) or SOLVING."""
        return GATHERING if self.solve is None else SOLVING

    @property
    def query(self) -> Query | None:
        """What the solver asks for now; None before it begins and once it has a solution."""
        return None if self.solve is None else self.solve.query

    @property
    def _solver(self) -> GlobalUpdate:
        solver = self.algorithm.global_update
        assert solver is not None
        return solver

    @property
    def _at_model(self) -> bool:
        """Whether participants first send their derivatives at the last model."""
        return self._solver.starts_at_model

    # -- messages ------------------------------------------------------------------------------

    def request(self, client: ClientId) -> CovarianceRequest | Evaluate:
        """Return the request that `client` has to answer now."""
        if self.solve is None:
            return CovarianceRequest(client, self.number, self.base if self._at_model else 0)
        query = self.solve.query
        assert query is not None
        kept = self.kept.get(client)
        return Evaluate(
            client, self.number, self.rounds, 0 if kept is None else kept.samples,
            query.theta, query.hessian, query.loss,
        )  # fmt: skip

    def missing(self) -> list[ClientId]:
        """Return the participants whose answer is outstanding."""
        answers = self._answers()
        return [client for client in self.participants if client not in answers]

    @property
    def answered(self) -> int:
        """How many answers of this phase or round have arrived."""
        return len(self._answers())

    @property
    def complete(self) -> bool:
        """Whether all answers of this phase or round have arrived, so that it can `advance`."""
        return self.answered == len(self.participants)

    def _answers(self) -> Mapping[ClientId, object]:
        return self.gathered if self.solve is None else self.replies

    def awaits(self, message: Covariance | ModelSums | Derivatives | BatchSums) -> bool:
        """Whether this message is an answer that the update waits for now."""
        if message.update != self.number or message.client not in self.participants:
            return False
        if message.client in self._answers() or isinstance(message, BatchSums):
            return False
        if isinstance(message, Covariance | ModelSums):
            return self.phase == GATHERING and isinstance(message, ModelSums) == self._at_model
        return self.phase == SOLVING and message.round == self.rounds

    def accept(self, message: Covariance | ModelSums | Derivatives) -> None:
        """Accept an expected answer; a bad one raises `InvalidInput` and changes nothing."""
        client, kept = message.client, self.kept.get(message.client)
        if isinstance(message, Covariance):
            check_covariance(message, kept, self.rewards, self.algorithm, self.setting)
            self.gathered[client] = Contribution(message.samples, message.matrix, message.b)
        elif isinstance(message, ModelSums):
            check_model_sums(message, self._limits(self._first_query), self.setting)
            part = Contribution(message.samples, message.hessian, message.gradient)
            self.gathered[client] = part
        else:
            query = self.query
            assert query is not None
            check_derivatives(message, self._batch(client), self._limits(query), self.setting)
            self.replies[client] = message

    def _batch(self, client: ClientId) -> Batch:
        """Return what a client's derivatives are checked against, the same in all rounds."""
        found, part = self._batches.get(client), self.gathered[client]
        if found is None or found.part is not part:
            slope = self._limits(self._first_query).slope if self._at_model else None
            found = self._batches[client] = Batch(part, self.kept.get(client), slope)
        return found

    @cached_property
    def _first_query(self) -> Query:
        """What participants answer first, where the solver starts at the last model."""
        dim = self.setting.problem.dim
        previous = None if self.previous is None else self.previous.theta
        return Query(np.zeros(dim) if previous is None else previous, hessian=True)

    def _limits(self, query: Query) -> Limits:
        """What one sample can add to a query; cached, as custom links need a search for it."""
        for known in self._known_limits:
            before = known.query
            if before is query:
                return known
            asks = (before.hessian, before.loss) == (query.hessian, query.loss)
            if asks and np.array_equal(before.theta, query.theta):
                return known
        found = limits(self.setting.problem.link, self.rewards, query)
        self._known_limits = [*self._known_limits[-1:], found]
        return found

    # -- from phase to phase -------------------------------------------------------------------

    def advance(self) -> None:
        """Give the solver the complete answers: it asks for another round, or has the solution."""
        if self.solve is None:
            self.start_solving()
            return
        ordered = [self.replies[client] for client in self.participants]
        self.replies = {}
        self.tell(sum_replies(ordered, self.setting.problem.dim))

    def start_solving(self) -> None:
        """Start the solver on what is gathered."""
        if self._at_model:  # that was the first round
            self.rounds += 1
        self.solve = self._solve([])
        self._count_round()

    def tell(self, sums: Sums) -> None:
        """Give the solver the sums over all participants that it asked for."""
        assert self.solve is not None
        self.solve.tell(sums)
        self._count_round()

    def _count_round(self) -> None:
        if self.query is not None:
            self.rounds += 1

    def _solve(self, told: list[Sums]) -> Solve:
        algorithm, local = self.algorithm, self.algorithm.local_update
        solver, rule = self._solver, algorithm.ridge_rule
        with_hessian = local.metric == "hessian"
        if rule is not None or with_hessian:
            solver = Refit(solver, rule, local.prior, with_hessian)
        fitted = objective(
            self.algorithm, self.setting, list(self.participants),
            self.gathered, self.kept, self.previous,
        )  # fmt: skip
        return Solve(solver, fitted, told)

    def exclude(self, clients: Iterable[ClientId]) -> None:
        """Go on without these participants; the solver starts again if it had begun."""
        for client in clients:
            del self.participants[client]
            self.gathered.pop(client, None)
        self.replies, self.solve = {}, None

    # -- the end -------------------------------------------------------------------------------

    @property
    def solved(self) -> bool:
        """Whether there is a solution: then there is a `model`."""
        return self.solve is not None and self.solve.solution is not None

    def model(self) -> SharedModel:
        """Return the model that all clients get."""
        assert self.solve is not None
        assert self.solve.solution is not None
        return shared_model(self.algorithm, self.t, self.solve.objective, self.solve.solution)

    def fitted(self) -> dict[ClientId, Contribution]:
        """Return the contribution of each participant."""
        return {client: self.gathered[client] for client in self.participants}

    def record(self) -> UpdateRecord:
        """Return the record of this update."""
        assert self.solve is not None
        assert self.solve.solution is not None
        fitted: Mapping[ClientId, Contribution] = self.fitted()
        if self._solver.alone:  # the others' samples are in the model too
            fitted = {**self.kept, **fitted}
        return UpdateRecord(
            t=self.t,
            client=self.asked_by,
            samples=sum(part.samples for part in fitted.values()),
            rounds=self.rounds,
            gradient_norm=float(np.linalg.norm(self.solve.solution.gradient)),
            gap=self.solve.solution.gap,
            projected=self.solve.solution.projected,
        )

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return as plain arrays what the coordinator does not store itself."""
        told = [] if self.solve is None else self.solve.transcript
        return {
            "phase": np.array(self.phase),
            "rounds": np.array(self.rounds),
            "participants": np.array(list(self.participants)),
            **({} if self.asked_by is None else {"asked_by": np.array(self.asked_by)}),
            **prefixed(stack(self.gathered), "gathered"),
            **prefixed(stack(self.replies), "replies"),
            **prefixed(stack(dict(enumerate(told))), "transcript"),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore into this new update the state that `to_arrays` returned."""
        self.rounds = int(arrays["rounds"])
        self.participants = dict.fromkeys(arrays["participants"].tolist())
        self.asked_by = arrays["asked_by"].item() if "asked_by" in arrays else None
        self.gathered = unstack(Contribution, nested(arrays, "gathered"))
        self.replies = unstack(Derivatives, nested(arrays, "replies"))
        if int(arrays["phase"]) == SOLVING:
            # A solver that is told the same sums again is in the same state again.
            self.solve = self._solve(list(unstack(Sums, nested(arrays, "transcript")).values()))
