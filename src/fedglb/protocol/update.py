"""One global update, from the first request to the model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedglb.algorithms import Algorithm
from fedglb.kernels.personal import REACH
from fedglb.model import SharedModel, shared_theta
from fedglb.parts.effects import ArmSums, effects_of
from fedglb.parts.global_update import GlobalUpdate, Objective, Query, Refit, Solution, Solve, Sums
from fedglb.parts.memory import Adaptive
from fedglb.parts.spread import covariance
from fedglb.protocol.checks import (
    Batch,
    Limits,
    check_covariance,
    check_derivatives,
    check_model_sums,
    limits,
)
from fedglb.protocol.messages import (
    ClientId,
    Covariance,
    Derivatives,
    Evaluate,
    Message,
    ModelSums,
    SumsRequest,
)
from fedglb.protocol.persistence import Arrays, nested, prefixed, stack, unstack
from fedglb.setting import Setting
from fedglb.typing import FloatArray

IDLE, GATHERING, SOLVING = range(3)  # IDLE: a coordinator without an update

#: A client's contribution to a fit: Σ x xᵀ or, if the solver starts at the last model, gradient and
#: Hessian there.
Contribution: TypeAlias = Covariance | ModelSums


@dataclass(frozen=True)
class UpdateRecord:
    """The record of one global update."""

    t: int  # the step
    client: ClientId | None  # the requesting client; None: a schedule
    samples: int  # n, of the clients that took part
    rounds: int  # derivative evaluations over all clients
    #: ‖n∇F‖ at the model (variant 3: of the batch, at the model before); nan: not evaluated.
    gradient_norm: float
    gap: float  # the proven bound on F(θ) − min F; or nan
    projected: bool  # whether the constraint ‖θ‖ ≤ S was active


@dataclass
class Update:
    """An update in progress: participants, their answers, and the solver's state.

    First all participants send their covariances, or their derivatives at the last model if the
    solver starts there; then the solver requests derivatives, round by round, until it has a
    solution. `protocol.one_pass.OnePassUpdate` has another course.
    """

    algorithm: Algorithm
    setting: Setting  # of the federation
    rewards: tuple[float, float]  # smallest and largest: they bound answers
    number: int
    t: int  # its step
    now: int  # the time at which ages are taken
    asked_by: ClientId | None  # the requesting client; None: a schedule
    participants: dict[ClientId, None]  # in sorted order, the order of sums
    previous: SharedModel | None  # the model of the update before
    base: int  # the number of that update
    asked: int  # number of clients ever asked for sums, in this update or an earlier one
    #: The samples that `previous` covers and that are not fitted again; empty if the solver refits.
    kept: Mapping[ClientId, Contribution]
    rounds: int = 0  # number of rounds of derivatives begun
    gathered: dict[ClientId, Any] = field(default_factory=dict)  # contributions so far
    replies: dict[ClientId, Derivatives] = field(default_factory=dict)  # of this round so far
    solve: Solve | None = None  # None until all contributions have arrived
    _limits: dict[tuple[bytes, bool, bool], Limits] = field(default_factory=dict)

    @property
    def phase(self) -> int:
        """GATHERING (of contributions) or SOLVING."""
        return GATHERING if self.solve is None else SOLVING

    @property
    def query(self) -> Query | None:
        """The solver's current query; None before it begins and once it has a solution."""
        return None if self.solve is None else self.solve.query

    @property
    def solver(self) -> GlobalUpdate:
        """The algorithm's solver."""
        solver = self.algorithm.global_update
        assert solver is not None
        return solver

    @property
    def first_answer(self) -> type[Message]:
        """The message with which participants answer the first request."""
        return ModelSums if self.solver.starts_at_model else Covariance

    # -- messages ------------------------------------------------------------------------------

    def request(self, client: ClientId) -> SumsRequest | Evaluate:
        """Return the request that `client` has to answer now."""
        if self.solve is None:
            at_model = self.first_answer is not Covariance
            return SumsRequest(client, self.number, self.base if at_model else 0, self.now)
        query = self.solve.query
        assert query is not None
        kept = self.kept.get(client)
        return Evaluate(
            client, self.number, self.rounds, 0 if kept is None else kept.samples,
            query.theta, query.hessian, query.loss, self.now,
        )  # fmt: skip

    def missing(self) -> list[ClientId]:
        """Return the participants whose answer is outstanding."""
        answers = self._answers()
        return [client for client in self.participants if client not in answers]

    @property
    def answered(self) -> int:
        """Number of answers in this phase or round."""
        return len(self._answers())

    @property
    def complete(self) -> bool:
        """Whether all answers of this phase or round have arrived, so that it can `advance`."""
        return self.answered == len(self.participants)

    def _answers(self) -> Mapping[ClientId, object]:
        return self.gathered if self.solve is None else self.replies

    def awaits(self, message: Any) -> bool:
        """Whether the update waits for this answer."""
        if message.update != self.number or message.client not in self.participants:
            return False
        if message.client in self._answers():
            return False
        if self.phase == GATHERING:
            return isinstance(message, self.first_answer)
        return isinstance(message, Derivatives) and message.round == self.rounds

    def accept(self, message: Any) -> None:
        """Accept an expected answer; a bad one raises `InvalidInput` and changes nothing."""
        client = message.client
        if isinstance(message, Derivatives):
            assert self.query is not None
            allowed = self._limits_at(self.query)
            check_derivatives(
                message, self._batch(client), allowed, self.setting,
                weighed=self.algorithm.memory.forgets,
            )  # fmt: skip
            self.replies[client] = message
            return
        if isinstance(message, ModelSums):
            effects, (_, buckets) = self.algorithm.local_update.effects, effects_of(self.previous)
            check_model_sums(
                message, self._model_limits, self.setting, effects, buckets,
                self.algorithm.local_update.personal,
                self.algorithm.spread is not None and self.algorithm.spread.spikes,
                self._variances,
            )  # fmt: skip
        else:
            kept = self.kept.get(client)
            assert not isinstance(kept, ModelSums)
            check_covariance(message, kept, self.rewards, self.algorithm, self.setting)
        self.gathered[client] = message

    def _batch(self, client: ClientId) -> Batch:
        """Return the bounds for a client's derivatives."""
        part, kept = self.gathered[client], self.kept.get(client)
        if isinstance(part, ModelSums):
            return Batch.of_hessian(part, self._model_limits.slope)
        assert not isinstance(kept, ModelSums)
        return Batch.of(part, kept)

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """The smallest and the largest eigenvalue of the last model's T."""
        last = self.previous
        if last is None or last.spread is None:
            return 0.0, 0.0
        found = np.linalg.eigvalsh(covariance(last, len(last.matrix)))
        return max(float(found[0]), 0.0), float(found[-1])

    @cached_property
    def _model_limits(self) -> Limits:
        """Bounds on what participants answer first, where the solver starts at the last model."""
        d, (rows, _) = self.setting.problem.dim, effects_of(self.previous)
        query = Query(shared_theta(self.previous, d), hessian=True)
        largest = float(np.max(np.abs(rows[2 :: d + 3]), initial=0.0))
        if not self.algorithm.local_update.personal:
            return limits(self.setting.problem.link, self.rewards, query, largest)
        # clients' own models lie within this distance, and their sums are moved over it
        away = 2.0 * REACH + largest + float(np.linalg.norm(query.theta))
        found = limits(self.setting.problem.link, self.rewards, query, largest + away)
        return replace(found, residual=found.residual + found.slope[1] * away)

    def _limits_at(self, query: Query) -> Limits:
        """Bounds on one sample's contribution; cached, because custom links need a search."""
        key = (query.theta.tobytes(), query.hessian, query.loss)
        if key not in self._limits:
            self._limits[key] = limits(self.setting.problem.link, self.rewards, query)
        return self._limits[key]

    # -- from phase to phase -------------------------------------------------------------------

    def advance(self) -> None:
        """Pass the complete answers to the solver, which starts a round or has the solution."""
        if self.solve is None:
            self.rounds += self.solver.starts_at_model  # gathering was the first round
            self.solve = self._solve([])
            self.rounds += self.query is not None
            return
        ordered = [self.replies[client] for client in self.participants]
        self.replies = {}
        self.tell(sum_replies(ordered, self.setting.problem.dim))

    def tell(self, sums: Sums) -> None:
        """Pass the requested sums over all participants to the solver."""
        assert self.solve is not None
        self.solve.tell(sums)
        self.rounds += self.query is not None

    def _solve(self, told: list[Sums]) -> Solve:
        """Start the solver, or replay its sums to reach the same state again."""
        solver, rule, local = self.solver, self.algorithm.ridge_rule, self.algorithm.local_update
        with_hessian = local.metric == "hessian"
        if rule is not None or with_hessian:
            solver = Refit(solver, rule, local.prior, with_hessian)
        return Solve(solver, self._objective(), told)

    def _objective(self) -> Objective:
        """Return the objective: sums over the participants minus those in `kept`."""
        local, d = self.algorithm.local_update, self.setting.problem.dim
        n, matrix, vector = 0, np.zeros((d, d)), np.zeros(d)
        for client in self.participants:
            for sign, part in ((1, self.gathered[client]), (-1, self.kept.get(client))):
                if isinstance(part, ModelSums):
                    matrix += sign * part.hessian
                    vector += sign * part.gradient
                elif part is not None:
                    matrix += sign * part.matrix
                    vector += 0.0 if part.b is None else sign * part.b
                n += 0 if part is None else sign * part.samples
        setting = self.setting.in_force(self.previous)
        prior = local.prior(setting) * np.eye(d)
        if not self.solver.refits and self.previous is not None:
            prior = self.previous.matrix
        starts_at_model, start = self.solver.starts_at_model, shared_theta(self.previous, d).copy()
        arms = None
        if setting.effect_ridge:
            sent = (self.gathered[client].effects for client in self.participants)
            arms = ArmSums.of(sent, start, self.previous, local.effects)
        return Objective(
            setting=setting,
            samples=max(n, 1),  # without samples, F is the regulariser alone
            covariance=None if starts_at_model else matrix,
            matrix=prior + matrix,
            start=start,
            previous=self.previous,
            moment=vector if local.shares_moment else None,
            at_model=Sums(vector, matrix, arms=arms) if starts_at_model else None,
            left_out=self.asked - len(self.participants),
        )

    def exclude(self, clients: Iterable[ClientId]) -> None:
        """Go on without these participants; the solver starts again if it had begun."""
        for client in clients:
            del self.participants[client]
            self.gathered.pop(client, None)
        self.replies, self.solve = {}, None

    # -- the end -------------------------------------------------------------------------------

    @property
    def solution(self) -> Solution | None:
        """The solver's solution, once there is one: then there is a `model`."""
        return None if self.solve is None else self.solve.solution

    def model(self) -> SharedModel:
        """Return the model that all clients get."""
        assert self.solve is not None
        assert self.solve.solution is not None
        solution = self.solve.solution
        fitted = solution.fitted or self.solve.objective
        radius_terms = self.algorithm.confidence.radius_terms(fitted.setting, fitted, solution)
        matrix = fitted.matrix
        if self.algorithm.local_update.metric == "hessian":
            assert solution.hessian is not None
            matrix = solution.hessian + np.diag(fitted.setting.penalty + solution.multiplier)
        return SharedModel(
            t=self.t,
            matrix=matrix,
            radius_terms=np.array(radius_terms, dtype=np.float64),
            theta=solution.theta if "theta" in self.solver.model_fields else None,
            b=solution.b,
            gradient_matrix=solution.gradient_matrix,
            ridge=solution.ridge,
            effects=_effects(fitted, solution),
            ridges=np.array(fitted.setting.ridges) if fitted.setting.ridges else None,
            **self._spread(solution),
            now=self.now if self.algorithm.memory.forgets else None,
        )

    def _spread(self, solution: Solution) -> dict[str, FloatArray | None]:
        """Return how far clients differ, and in which directions; nothing where they do not."""
        rule, last, d = self.algorithm.spread, self.previous, self.setting.problem.dim
        if rule is None:
            return {}
        sent = [self.gathered[client] for client in self.participants]
        spread, directions = rule.next(
            np.zeros(3) if last is None or last.spread is None else last.spread,
            np.zeros((d, d)) if last is None or last.directions is None else last.directions,
            np.array([each.spread for each in sent]),
            [(each.residuals, each.information) for each in sent],
            math.isinf(solution.residual_bound),
        )
        return {"spread": spread, "directions": directions}

    def fitted(self) -> dict[ClientId, Contribution]:
        """Return the contribution of each participant, without what no later update needs."""
        arms = isinstance(self.algorithm.memory, Adaptive)
        return {client: _kept(self.gathered[client], arms) for client in self.participants}

    def record(self) -> UpdateRecord:
        """Return the record of this update."""
        assert self.solution is not None
        # `kept`: samples of other clients may be in the model too
        fitted: Mapping[ClientId, Contribution] = {**self.kept, **self.fitted()}
        return UpdateRecord(
            t=self.t,
            client=self.asked_by,
            samples=sum(part.samples for part in fitted.values()),
            rounds=self.rounds,
            gradient_norm=float(np.linalg.norm(self.solution.gradient)),
            gap=self.solution.gap,
            projected=self.solution.projected,
        )

    # -- persistence ---------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the state as plain arrays, without the coordinator's part."""
        told = [] if self.solve is None else self.solve.transcript
        return {
            "phase": np.array(self.phase),
            "rounds": np.array(self.rounds),
            **({"now": np.array(self.now)} if self.algorithm.memory.forgets else {}),
            "participants": np.array(list(self.participants)),
            **({} if self.asked_by is None else {"asked_by": np.array(self.asked_by)}),
            **prefixed(stack(self.gathered), "gathered"),
            **prefixed(stack(self.replies), "replies"),
            **prefixed(stack(dict(enumerate(told))), "transcript"),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore into this new update the state that `to_arrays` returned."""
        self.rounds, self.now = int(arrays["rounds"]), int(arrays.get("now", self.now))
        self.participants = dict.fromkeys(arrays["participants"].tolist())
        self.asked_by = arrays["asked_by"].item() if "asked_by" in arrays else None
        self.gathered = unstack(self.first_answer, nested(arrays, "gathered"))
        self.replies = unstack(Derivatives, nested(arrays, "replies"))
        if int(arrays["phase"]) == SOLVING:
            self.solve = self._solve(list(unstack(Sums, nested(arrays, "transcript")).values()))


def _kept(part: Contribution, arms: bool) -> Contribution:
    """Return a contribution without rrᵀ or, unless `arms`, the sums of arms, which may be long."""
    if not isinstance(part, ModelSums):
        return part
    effects = part.effects if arms else None
    return replace(part, effects=effects, residuals=None, information=None)


def _effects(fitted: Objective, solution: Solution) -> FloatArray | None:
    """Return the part of a model for arms with effects; None where arms have none."""
    if solution.effects is None:
        return None
    assert fitted.at_model is not None
    assert fitted.at_model.arms is not None
    return fitted.at_model.arms.shared(fitted.setting, solution.effects)


def sum_replies(replies: Iterable[Derivatives], d: int) -> Sums:
    """Return the sums over clients, in the order given; all replies carry the same fields."""
    gradient, hessian, loss = np.zeros(d), np.zeros((d, d)), 0.0
    with_hessian = with_loss = False
    for reply in replies:
        gradient = gradient + reply.gradient
        if reply.hessian is not None:
            hessian, with_hessian = hessian + reply.hessian, True
        if reply.loss is not None:
            loss, with_loss = loss + reply.loss, True
    return Sums(gradient, hessian if with_hessian else None, loss if with_loss else None)
