"""The compiled engine: blocks of interactions in one kernel, Python only at global updates.

The states of all learners are stacked in a few arrays, and so are their samples. For one
interaction the kernel calls the same machine code as `Client`; it returns to Python when an update
is due. Then the coordinator solves and counts as for messages. Both engines agree to the
bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.algorithms.strategy import AnyAlgorithm
from fedglb.environments import Block, Environment
from fedglb.errors import InvalidInput
from fedglb.kernels.ageing import add_weighted_model_sums, add_weighted_moments, weigh
from fedglb.kernels.effects import KEYS, OFFERS, name_block
from fedglb.kernels.layout import EPOCH, work_rows
from fedglb.kernels.merge import Merged
from fedglb.kernels.pointers import FIRES, RADIUS, STEP, Signature, address_of
from fedglb.kernels.sums import (
    add_all_model_sums,
    add_all_moments,
    sum_over_clients,
)
from fedglb.model import SharedModel, shared_theta
from fedglb.parts.effects import sum_tables, to_send
from fedglb.parts.global_update import Query, Sums
from fedglb.parts.local_update import LocalState
from fedglb.protocol import Client
from fedglb.protocol.client import replay
from fedglb.protocol.learner import Choosing
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
from fedglb.protocol.one_pass import Release, sums_of
from fedglb.protocol.persistence import prefixed, to_arrays
from fedglb.protocol.personal_sums import Learners, PersonalSums
from fedglb.protocol.update import Update
from fedglb.samples import Samples
from fedglb.simulation.engine import Engine
from fedglb.simulation.play import (
    ASKS,
    BAD_RADIUS,
    BAD_SCORES,
    BAD_STEP,
    BlockArrays,
    KernelParams,
    LearnerArrays,
    Pending,
    Scratch,
    play,
)
from fedglb.typing import FloatArray, IntArray


def block_arrays(block: Block) -> BlockArrays:
    """Lay a block out for the kernel: arms as (d, K), so that its inner loops run over arms."""
    steps, clients = block.arms.shape[:2]
    return BlockArrays(
        first=block.first,
        arms=_flat(block.arms.transpose(0, 1, 3, 2)),
        means=_flat(block.means),
        uniforms=np.empty((0, 0)) if block.uniforms is None else _flat(block.uniforms),
        rewards=np.empty((0, 0, 0)) if block.rewards is None else _flat(block.rewards),
        active=np.empty((0, 0), dtype=np.bool_)
        if block.active is None
        else np.ascontiguousarray(block.active).reshape(steps, clients),
        delays=np.zeros((steps, clients), dtype=np.int64)
        if block.delays is None
        else np.ascontiguousarray(block.delays, dtype=np.int64),
        ids=np.empty((0, 0, 0), dtype=np.int64) if block.ids is None else block.ids,
        weights=np.empty((0, 0)) if block.weights is None else _flat(block.weights),
        benchmark=np.empty((0, 0)) if block.benchmark is None else _flat(block.benchmark),
    )


def _flat(values: FloatArray) -> FloatArray:
    return np.ascontiguousarray(values, dtype=np.float64)


class CompiledEngine(Engine):
    """All learners in a few arrays, played block by block."""

    name = "compiled"

    def __init__(self, algorithm: Algorithm, env: Environment, horizon: int, seed: int) -> None:
        super().__init__(algorithm, env, horizon, seed)
        d, L, width = env.problem.dim, self.setting.clients, self.setting.width
        capacity = horizon * env.clients // L
        #: what each client was offered, counted by slots, where arms have effects
        self._offers = np.zeros((env.clients * (width > d), OFFERS), dtype=np.int64)
        self._begin: LocalState = algorithm.local_update.begin(self.setting)
        self.learners = LearnerArrays(
            vectors=np.repeat(self._begin.vectors[None], L, axis=0),
            matrices=np.repeat(self._begin.matrices[None], L, axis=0),
            counters=np.empty((L, self._begin.counters.size)),
            X=np.empty((L, capacity, width)),
            y=np.zeros((L, capacity)),
            counts=np.zeros(L, dtype=np.int64),
            last=np.zeros(L, dtype=np.int64),
            banks=np.zeros(L),
            at=np.empty((L, capacity)),
        )
        used = algorithm.local_update.counters_in_use(self._begin)
        self.learners.counters[:, :used] = self._begin.counters[:used]
        late = env.longest_delay
        places = late + 1 if late else 0
        self.pending = Pending(
            X=np.empty((env.clients, places, width)),
            y=np.empty((env.clients, places)),
            due=np.zeros((env.clients, places), dtype=np.int64),
        )
        solver = algorithm.global_update
        self.at_model = solver is not None and solver.starts_at_model
        self.one_pass = solver is not None and solver.one_pass
        self._batches: dict[int, IntArray] = {}  # summed over clients, by update, as in `Batches`
        self._last_batch = self._last_release = np.empty((0, 0), dtype=np.int64)
        self._personal = PersonalSums.of(algorithm, self.setting, L)
        self._covariances = np.zeros((L, d, d))  # Σ x xᵀ and Σ x y, where clients send them
        self._moments = np.zeros((L, d))
        self._summed = np.zeros(L, dtype=np.int64)  # samples in these sums
        self._merged = Merged.empty(L, width)
        self._covered = np.zeros(L, dtype=np.int64)  # samples in the last model
        self._frozen = np.zeros(L, dtype=np.int64)  # samples in the learner's last update
        self._took_part = np.zeros(L, dtype=np.int64)  # the number of that update
        self._models: list[SharedModel | None] = [None] * L  # each learner's model
        self._adopted = np.zeros(L, dtype=np.int64)  # the update of that model
        self._t_last = np.zeros(L, dtype=np.int64)  # the step of that update
        self._counted = 0  # steps whose communication is in the trace
        self._checked = not algorithm.choice.ranked_by.has_score  # the rule, on its first call
        self._addresses = (
            _address(algorithm.local_update, "step", STEP),
            _address(algorithm.confidence, "formula", RADIUS),
            env.problem.link.compiled_sample.address,
        )
        self._hold(None)

    def _hold(self, model: SharedModel | None) -> None:
        """Let clients choose and learn with a model, and with its λ if it has one."""
        algorithm, problem = self.algorithm, self.env.problem
        local, confidence = algorithm.local_update, algorithm.confidence
        trigger = algorithm.trigger.resolved(self.setting)
        code = trigger.code
        self._choosing = choosing = Choosing.after(algorithm, self.setting, model, self.seed)
        self._params = KernelParams(
            *self._addresses,
            choice=choosing.params,
            functions=problem.functions,
            step_constants=np.array(local.constants(choosing.setting), dtype=float),
            noise=problem.R,
            scale=float(algorithm.exploration) if confidence.scalable else 1.0,
            level=float(trigger.level),
            max_gain=float(trigger.max_gain),
            share=float(trigger.share),
            own_samples=trigger.clocked_by == "own samples",
            clocked=trigger.clocked_by is not None,
            fires=0 if code is None else address_of(code.kernel, FIRES),
            fires_constants=np.empty(0) if code is None else code.constants,
        )  # fmt: skip

    def play(self, block: BlockArrays) -> None:
        """Play the steps of a block."""
        (steps, _, d, K), first, names = block.arms.shape, block.first, self._names(block)
        rows = work_rows(names.size > 0, d)
        scratch = Scratch(np.empty((rows, K)), np.empty((d, d)), np.empty(3))
        self._check_own_rule(block, names)
        step = client = stop = 0
        while step < steps:
            while stop < steps and (stop <= step or not self._due(first + stop - 1)):
                stop += 1  # stop after the next step at whose end an update is due
            step, client, why = play(
                block, self._params, self.learners, self.pending, self.recorder.log, scratch,
                self._choosing.terms, self._t_last, names, step, client, stop,
            )  # fmt: skip
            t = first + step
            if why == ASKS:
                self._count(t - 1)
                self._update(t, client)
                client += 1
            elif why in (BAD_RADIUS, BAD_STEP):
                raise self._failure(why, 0 if self.algorithm.centralised else client)
            elif why == BAD_SCORES:
                self._decide(block, names, step, client)  # raises with the reason
                raise AssertionError("a score was not finite, and now it is")
            elif self._due(t - 1) and not self.coordinator.budget_spent:
                self._count(t - 2)
                self._update(t - 1, None)
        self._count(first + steps - 1)
        self.recorder.compared(block)

    def _names(self, block: BlockArrays) -> FloatArray:
        """Return the arms' names, shape (s, N, K); empty where arms have no effects."""
        if not self._offers.size:
            return np.empty((0, 0, 0))
        if block.ids.size:
            return (block.ids % KEYS).astype(np.float64)
        steps, clients, _, K = block.arms.shape
        names = np.empty((steps, clients, K))
        name_block(block.arms, self._offers, block.active, names)
        return names

    def _check_own_rule(self, block: BlockArrays, names: FloatArray) -> None:
        """Let the first client that acts choose as in the other engine: that checks its rule."""
        if self._checked:
            return
        acting = np.argwhere(block.active) if block.active.size else np.zeros((1, 2), dtype=int)
        if len(acting):
            self._decide(block, names, *acting[0].tolist())
            self._checked = True

    def _decide(self, block: BlockArrays, names: FloatArray, step: int, client: int) -> None:
        """Let a client choose as in the other engine, which changes nothing."""
        learner = self.client(0 if self.algorithm.centralised else client)
        named = names[step, client] if names.size else names.ravel()
        learner.decide(block.arms[step, client], block.first + step, names=named)

    def _due(self, t: int) -> bool:
        return self.algorithm.trigger.due(self.setting, t)

    def _failure(self, why: int, learner: int) -> Exception:
        if why == BAD_STEP:
            return self.algorithm.local_update.failure(int(self.learners.counts[learner]))
        try:
            alpha = self.client(learner).alpha  # raises with the reason
        except InvalidInput as error:
            return error
        return AssertionError(f"the radius was not finite, and now it is {alpha}")

    def _count(self, last: int) -> None:
        """Record the communication of the steps up to `last`."""
        first, self._counted = self._counted + 1, max(self._counted, last)
        coordinator = self.coordinator
        self.recorder.counted(
            first, last, coordinator.syncs, coordinator.rounds, coordinator.ledger
        )

    # -- global updates ------------------------------------------------------------------------

    def _update(self, t: int, client: int | None) -> None:
        """Run a global update with all clients, or with `client` alone, and adopt its model.

        The ledger is the same as with messages: all participants' messages have the same size, so
        one of each kind is built and counted for all.
        """
        coordinator, count = self.coordinator, self.coordinator.ledger.count
        if client is not None:
            count(SyncRequest(client, t, coordinator.finished))
        update = coordinator.start_update(t, client)
        n, one = len(update.participants), next(iter(update.participants))
        count(update.request(one), n)
        update.gathered = self._first_answers(update)
        sent: dict[ClientId, Any] = update.gathered
        more = 0  # clients have played different arms: their messages differ in size by effects
        if self.setting.effect_ridge:
            sizes = [message.effects.size for message in sent.values()]
            more = sum(sizes) - n * int(sent[one].effects.size)
        count(sent[one], n, more)
        update.advance()
        while (query := update.query) is not None:
            count(update.request(one), n)
            sums = self._answer(query)
            reply = (update.number, update.rounds, sums.gradient, sums.hessian, sums.loss)
            count(Derivatives(one, *reply), n)
            update.tell(sums)
        model, recipients = coordinator.finish_update()
        if recipients:
            count(NewModel(one, update.number, 0, model), len(recipients))
        self._adopt(model, update, [int(i) for i in recipients])
        if coordinator.repeats:
            self._update(t, None)

    def _weighted(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights of all samples in this update, and the rewards times these.

        Without weights where all count 1.
        """
        a, memory = self.learners, self.algorithm.memory.in_force(self.coordinator.model)
        if memory is None:
            return np.empty((0, 0)), a.y
        weights = weigh(memory, a.at, a.counts, float(self.coordinator.t))
        return weights, a.y * weights

    def _first_answers(self, update: Update) -> dict[ClientId, Message]:
        """Return what participants answer to the request for an update."""
        if self.one_pass:
            return self._releases()
        a, number = self.learners, update.number
        samples, ids = a.counts.tolist(), [int(i) for i in update.participants]
        if self._personal is not None:
            weights, y = self._weighted()
            model = self.coordinator.model
            self._personal.take(self._stacked, a.X, y, weights, a.counts, model)
            return dict(self._personal.answers(self._stacked, ids, number))
        if self.at_model:
            L, d = len(a.X), self.env.problem.dim
            gradients, hessians = np.zeros((L, d)), np.zeros((L, d, d))
            rows = self.algorithm.local_update.effects
            tables, buckets = sum_tables(L, self.setting, rows, self.coordinator.model)
            weights, y = self._weighted()
            at = self._shared_theta, self.env.problem.link.compiled_functions, gradients, hessians
            arms = tables, buckets, self.setting.mean_at_zero
            if weights.size:
                add_weighted_model_sums(a.X, y, weights, a.counts, *at, *arms)
            else:
                add_all_model_sums(a.X, y, self._covered, a.counts, *at, self._merged, *arms)
            effects = to_send(tables, d)
            return {
                i: ModelSums(i, number, samples[i], gradients[i], hessians[i], effects[i])
                for i in ids
            }
        weights, y = self._weighted()
        if weights.size:
            self._covariances[:], self._moments[:] = 0.0, 0.0
            add_weighted_moments(a.X, y, weights, a.counts, self._covariances, self._moments)
        else:
            add_all_moments(a.X, y, self._summed, a.counts, self._covariances, self._moments)
        self._summed[:] = a.counts
        covariances, moments = self._covariances.copy(), self._moments.copy()
        b = moments if self.algorithm.local_update.shares_moment else [None] * len(samples)
        return {i: Covariance(i, number, samples[i], covariances[i], b[i]) for i in ids}

    @property
    def _stacked(self) -> Learners:
        return Learners(self.learners.vectors, self.learners.matrices, self.learners.counters)

    @property
    def _shared_theta(self) -> FloatArray:
        """θ of the last model, at which clients sum."""
        return shared_theta(self.coordinator.model, self.env.problem.dim)

    def _releases(self) -> dict[ClientId, Message]:
        """Return the clients' releases in a one-pass update: sums of all samples since the last."""
        a, number = self.learners, self.coordinator.started
        batch = sums_of(self.setting, self._shared_theta, a.X, a.y, self._frozen, a.counts)
        plan, releases = self.setting.noise, batch
        if plan is not None:
            self._batches[number] = batch
            releases = plan.encoded(self._batches, number)
            releases += np.stack([self.noise.draw(i, number, plan) for i in range(len(batch))])
        self._last_batch, self._last_release = batch, releases
        return {i: BatchSums(i, number, numbers) for i, numbers in enumerate(releases)}

    def _adopt(self, model: SharedModel, update: Update, recipients: list[int]) -> None:
        """Let the recipients adopt the model of an update, and record the update."""
        local, ids = self.algorithm.local_update, [int(i) for i in update.participants]
        self._frozen[ids], self._took_part[ids] = self.learners.counts[ids], update.number
        self._hold(model)
        self.learners.counters[recipients, EPOCH] = self.coordinator.syncs + 1
        update.solver.course.uploaded(local, (self._state(i) for i in ids))
        if len(ids) == len(recipients) == len(self.learners.counts):
            self._adopt_together(model)
        else:
            for i in recipients:
                self._adopt_alone(i, model)
        self._adopted[recipients], self._t_last[recipients] = update.number, model.t
        record, choosing = self.coordinator.last_update, self._choosing
        assert record is not None
        holder = self.holder(record)
        if (held := self._models[holder]) is not model:
            choosing = Choosing.after(self.algorithm, self.setting, held, self.seed)
        self.recorder.describe(self.recorder.updated(record), choosing, self._state(holder))

    def _adopt_together(self, model: SharedModel) -> None:
        """Let client 0 adopt the model, and copy its state to all others.

        `LocalUpdate.adopt` promises that the state depends on nothing but the models adopted so
        far. The first update checks this with a second client.
        """
        local, last = self.algorithm.local_update, len(self.learners.counts) - 1
        if self._personal is not None:
            self._personal.adopt(self._stacked, model, self.learners.counts)
            self._models[:] = [model] * len(self._models)
            self._covered[:] = self.learners.counts
            return
        asked = {0, last} if self._models[0] is None else {0}
        for i in asked:
            local.adopt(self._choosing.setting, self._state(i), model)
        used = local.counters_in_use(self._state(0))
        counters = self.learners.counters[:, :used]
        for stacked in (self.learners.vectors, self.learners.matrices, counters):
            if last in asked and stacked[0].tobytes() != stacked[last].tobytes():
                why = f"the state after {local}.adopt depends on the client"
                raise InvalidInput("engine", "compiled", f"{_ELSEWHERE}: {why}")
            stacked[1:] = stacked[0]
        self._models[:] = [model] * len(self._models)
        self._covered[:] = self.learners.counts

    def _adopt_alone(self, i: int, model: SharedModel) -> None:
        """Let client i adopt the model, and replay its samples that the model does not cover."""
        covered = self.coordinator.covered.get(i)
        self._covered[i] = first = 0 if covered is None else covered.samples
        local, choosing, state = self.algorithm.local_update, self._choosing, self._state(i)
        local.adopt(choosing.setting, state, model)
        replay(choosing, state, self._samples(i), first, first)
        self._models[i] = model

    def _answer(self, query: Query) -> Sums:
        """Return the sum of all clients' answers."""
        d = query.theta.shape[0]
        solver = self.algorithm.global_update
        assert solver is not None
        first = np.zeros_like(self._covered) if solver.refits else self._covered
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        weights, y = self._weighted()
        loss = sum_over_clients(
            self.learners.X, y, weights, first, self.learners.counts, self._merged,
            query.theta, self.env.problem.link.compiled_functions, gradient, hessian,
            query.hessian, query.loss,
        )  # fmt: skip
        return Sums(gradient, hessian if query.hessian else None, loss if query.loss else None)

    # -- clients as protocol objects ------------------------------------------------------

    def _state(self, i: int) -> LocalState:
        """Return client i's state; its arrays are the engine's own."""
        a = self.learners
        return type(self._begin)(a.vectors[i], a.matrices[i], a.counters[i], self._models[i])

    def _samples(self, i: int) -> Samples:
        """Return client i's samples; their arrays are the engine's own."""
        a = self.learners
        return Samples.over(a.X[i], a.y[i], int(a.counts[i]), a.at[i])

    def client(self, i: int) -> Client:
        """Return client i as the protocol's `Client`, in its present state."""
        samples = self._samples(i)
        numbers = {
            "covered": self._covered[i], "frozen": self._frozen[i], "update": self._took_part[i],
            "adopted": self._adopted[i], "last_t": self.learners.last[i],
            "batches.taken": self._frozen[i], "bank": self.learners.banks[i],
        }  # fmt: skip
        arrays = {name: np.array(value) for name, value in numbers.items()}
        arrays |= {"X": samples.X, "y": samples.y, "at": samples.at}
        arrays |= prefixed(to_arrays(self._state(i)), "state")
        client = Client.from_arrays(i, self.algorithm, self.setting, arrays, self.seed, self.noise)
        if client.batches is not None and len(self._last_batch):
            client.batches.closed = {j: each[i] for j, each in self._batches.items()}
            client.batches.last = Release(
                client.update, client.frozen, self._last_batch[i], self._last_release[i]
            )
        return client


#: The remedy where a part does not fit this engine.
_ELSEWHERE = 'fg.simulate(..., engine="reference"), one algorithm at a time'


def _address(part: object, name: str, signature: Signature) -> int:
    """Return the address of a part's compiled kernel, or raise `InvalidInput` with the reason."""
    function = getattr(part, name, None)
    try:
        return address_of(function, signature)
    except (AttributeError, TypeError) as error:
        allowed = f"a @kernel function that compiles for {signature}: {error}"
        raise InvalidInput(f"{type(part).__name__}.{name}", function, allowed) from None


def plain_part(algorithm: Algorithm) -> tuple[object, str] | None:
    """Return a part that this engine cannot run, and why; None: it can run them all."""
    for part in (algorithm.local_update, algorithm.confidence, algorithm.trigger):
        if (why := part.why_plain) is not None:
            return part, why
    return None


def runs_compiled(algorithm: AnyAlgorithm, env: Environment) -> bool:
    """Return whether this engine can play an algorithm on an environment."""
    parts = isinstance(algorithm, Algorithm) and plain_part(algorithm) is None
    return parts and env.network is None
