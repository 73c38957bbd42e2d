"""A client: a learner that takes part in global updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer
from fedglb.kernels.ageing import thinned, weigh
from fedglb.kernels.merge import Merged
from fedglb.kernels.sums import sum_over_clients
from fedglb.model import shared_theta
from fedglb.parts.local_update import LocalState, LocalUpdate
from fedglb.privacy.noise import NoiseSource, SystemNoise
from fedglb.protocol.checks import check_model
from fedglb.protocol.learner import Choosing, Learner
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    Derivatives,
    Evaluate,
    Message,
    NewModel,
    SumsRequest,
)
from fedglb.protocol.one_pass import Batches
from fedglb.protocol.own_sums import OwnSums
from fedglb.protocol.persistence import Arrays, from_arrays, nested, prefixed, to_arrays
from fedglb.protocol.personal_sums import Learners, PersonalSums, weighted
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray

_NUMBERS = ("covered", "frozen", "update", "adopted", "last_t")


@dataclass
class Adoption:
    """A client's state after adopting a shared model, prepared before the client uses it."""

    update: int  # of the model
    covered: int  # number of the client's oldest samples in the model
    choosing: Choosing
    base: Arrays  # the state before any own sample, for `Client.from_samples`
    state: LocalState  # with the samples so far
    sums: OwnSums | None  # of the samples so far, if the solver starts at the model
    taken: int = -1  # number of samples in `state`

    def catch_up(self, samples: Samples) -> None:
        """Learn the samples that the model does not cover, up to the newest.

        Samples that another thread appends meanwhile are left for the next call.
        """
        samples, choosing = samples.so_far(), self.choosing
        first, self.taken = max(self.taken, self.covered), len(samples)
        replay(choosing, self.state, samples, self.covered, first)
        if self.sums is not None:
            self.sums.add(samples)


class Client(Learner):
    """One client of a federation: a state machine without input or output.

    The application calls `choose` and `observe`; `receive` takes the coordinator's messages. The
    caller delivers the messages that they return.

    Parameters
    ----------
    id
        Its identity, a whole number or a name.
    algorithm
        The federation's algorithm.
    setting
        From `algorithm.setting(problem, clients, horizon)`.
    seed
        Seed of random choices; the client's stream depends on it and on `id`.
    noise
        The source of the noise for privacy. None (default): the system, by an exact
        sampler; simulations have one with a seed.

    References
    ----------
    Li and Wang (2022), Algorithm 1, the clients' part, and Algorithm 2, the local update of
    FedGLB-UCB; docs/reference.md.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_ucb(threshold=1.0)
    >>> client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=2), 1, None))
    >>> arm = client.choose([[1.0, 0.0], [0.0, 1.0]])
    >>> client.observe([1.0, 0.0], reward=1.0, t=1)
    []
    """

    def __init__(
        self,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        seed: int = 0,
        noise: NoiseSource | None = None,
    ) -> None:
        super().__init__(id, algorithm, setting, seed)
        self.merged: Merged | None = None  # for passes over the samples, from the first one on
        solver, source = algorithm.global_update, noise or SystemNoise()
        one_pass = solver is not None and solver.one_pass
        self.batches = Batches(id, algorithm, setting, source) if one_pass else None
        self.sums = OwnSums(algorithm, setting)
        self.personal = PersonalSums.of(algorithm, setting, 1)
        # Where clients have models of their own: the prior of the last model, the state with the
        # samples of the update in progress, and the update and the model of the sums in `personal`
        self.base: Mapping[str, NDArray[Any]] | None = None
        self.frozen_state: LocalState | None = None
        self._summed = (0, -1)
        self.covered = 0  # number of own samples in the shared model, the oldest ones
        self.frozen = 0  # number in the update in progress
        self.update = 0  # the update in progress, or the client's last one

    def _learn(self, x: FloatArray, y: float, at: float = 0.0) -> None:
        """Append a sample, add it to the sums, and let the local update learn from it."""
        super()._learn(x, y, at)
        self.sums.add(self.samples)

    def absorb(self, X: ArrayLike, y: ArrayLike, ids: Sequence[int | str] | None = None) -> None:
        """Learn existing samples before the first step (warm start).

        Parameters
        ----------
        X
            The arms that were played, shape (n, d).
        y
            Their rewards, shape (n,).
        ids
            The arms' ids, as for `choose`. None: arms recur if their features do.

        Raises
        ------
        InvalidInput
            If a sample is invalid, or the client has made a step or taken part in an update;
            then no sample is learned.
        """
        if self.last_t > 0 or self.update > 0:
            raise InvalidInput(
                "absorb", f"called after step {self.last_t}", "samples before the first step only"
            )
        table = arms_in_unit_ball("X", array("X", X, (None, self.setting.problem.dim)))
        rewards = array("y", y, (table.shape[0],))
        for k, value in enumerate(rewards):
            self.setting.problem.check_reward(float(value), f"y[{k}]")
        for row, value in zip(self.rows(table, ids), rewards, strict=True):
            self._learn(row, float(value))

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from the coordinator; repeated and stale ones are ignored.

        Parameters
        ----------
        message
            A `SumsRequest`, an `Evaluate` or a `NewModel`; other messages and impossible content
            raise `InvalidInput`.

        Returns
        -------
        list of Message
            For the coordinator: an answer, or nothing.
        """
        match message:
            case SumsRequest():
                return self._begin_update(message)
            case Evaluate():
                return self._evaluate(message)
            case NewModel():
                adoption = self.prepare(message)
                if adoption is not None:
                    self.install(adoption)
                return []
        raise InvalidInput("message", type(message).__name__, "a message for clients")

    def _begin_update(self, message: SumsRequest) -> list[Message]:
        if message.update < self.update or message.update <= self.adopted:
            return []  # of an update that is over
        if message.model not in (0, self.adopted):
            return []  # of a model that has not arrived yet, or was replaced
        self.freeze(message.update)
        if self.batches is not None:
            return self._release(self.batches)
        if self.personal is not None:
            frozen = self._sum_at_own(self.personal, message.model, message.now)
            return [*self.personal.answers(_stacked(frozen), [self.id], self.update).values()]
        theta = None
        if self.sums.at_model and message.model != self.adopted:
            theta = np.zeros(self.setting.problem.dim)  # the coordinator has lost its model
        sums = self.sums.of_first(self.samples, self.frozen, theta, message.now)
        return [sums.answer(self.id, self.update)]

    def _sum_at_own(self, personal: PersonalSums, model: int, now: int) -> LocalState:
        """Sum the frozen samples at the client's own model, for an update from `model` at `now`.

        Returns the state in which they were frozen; after a restart it is computed again.
        """
        if self.frozen_state is None:
            known = self.samples.so_far()
            samples = Samples.over(known.X, known.y, self.frozen, known.at)
            again = Client.from_samples(
                self.id, self.algorithm, self.agreed, samples, self.base, self.seed,
                covered=min(self.covered, self.frozen),
            )  # fmt: skip
            self.frozen_state = again.state
        if self._summed != (self.update, model):
            shared = self.frozen_state.base if model else None
            X, counts = self.samples.X[None, : self.frozen], np.array([self.frozen])
            weights = self.sums.weights(self.samples, self.frozen, now)
            y = weighted(self.samples.y[: self.frozen], weights)[None]
            each = weights[None] if weights.size else np.empty((0, 0))
            personal.take(_stacked(self.frozen_state), X, y, each, counts, shared)
            self._summed = (self.update, model)
        return self.frozen_state

    def _release(self, batches: Batches) -> list[Message]:
        """Release sums for the update in progress, once: a repeated request gets the same ones."""
        if batches.refusal(self.update) is None:
            theta = self.shared_theta
            made = batches.prepare(self.update, self.samples, self.frozen, theta, self.adopted)
            batches.commit(made)
        if batches.last is None or batches.last.update != self.update:
            return []
        return [BatchSums(self.id, self.update, batches.last.numbers.copy())]

    @property
    def shared_theta(self) -> FloatArray:
        """θ of the shared model, at which batches are taken; 0 before the first.

        Not the client's own estimate: then one sample would change the terms of all others.
        """
        return shared_theta(self.state.base, self.setting.problem.dim)

    def freeze(self, update: int) -> None:
        """Fix the samples of an update, if it is a newer one: those so far.

        If the update need not bring a model, they count as uploaded from now on.

        Parameters
        ----------
        update
            Its number.
        """
        if update <= self.update:
            return
        self.update, self.frozen = update, len(self.samples)
        if self.personal is not None:
            self.frozen_state = self.state.copied()
        solver = self.algorithm.global_update
        if solver is not None:
            solver.course.uploaded(self.algorithm.local_update, [self.state])

    def has_ready(self, message: SumsRequest) -> bool:
        """Return whether the reply is cached, so that it takes no pass over the samples.

        Parameters
        ----------
        message
            The request, of an update that is frozen.

        Returns
        -------
        bool
            False if samples came after the update was frozen, or the client has another model.
        """
        if self.personal is not None:
            return self._summed == (message.update, message.model)
        at_hand = not self.sums.at_model or message.model == self.adopted
        at_hand &= self.sums.memory is None
        return at_hand and self.frozen == len(self.samples)

    def _evaluate(self, message: Evaluate) -> list[Message]:
        if self.batches is not None or self.offers is not None:
            # one-pass updates have no rounds, which would reveal samples again; nor has an update
            # of effects
            return []
        if message.update != self.update or message.update <= self.adopted:
            return []  # of a finished update, or of one without this client
        link, d = self.setting.problem.link, self.setting.problem.dim
        theta = array("theta", message.theta, (d,))
        first = integer("since", message.since, at_least=0, at_most=self.frozen)
        X, y = self.samples.X, self.samples.y
        weights = self.sums.weights(self.samples, self.frozen, message.now)
        if weights.size:
            y = y[: self.frozen] * weights
        if self.merged is None:
            self.merged = Merged.empty(1, d)
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        loss = sum_over_clients(
            X[None], y[None], weights[None], np.array([first]), np.array([self.frozen]),
            self.merged, theta, link.compiled_functions, gradient, hessian, message.hessian,
            message.loss,
        )  # fmt: skip
        return [
            Derivatives(
                self.id, message.update, message.round, gradient,
                hessian if message.hessian else None, loss if message.loss else None,
            )
        ]  # fmt: skip

    def prepare(self, message: NewModel) -> Adoption | None:
        """Compute the state after adopting a new model; None: the client already has this model.

        Changes nothing, and may run in one thread while the client chooses and learns in another:
        samples are only ever appended, and an adopted state depends only on the shared models so
        far.

        Parameters
        ----------
        message
            The new model.

        Returns
        -------
        Adoption or None
            For `install`.

        Raises
        ------
        InvalidInput
            If the model is impossible, or covers more samples than the client has.
        """
        if message.update <= self.adopted:
            return None  # delivered twice
        check_model(message.model, self.algorithm, self.agreed)
        integer("covered", message.covered, at_least=0, at_most=len(self.samples))
        # one-pass updates send no number of samples: released ones are covered
        covered = message.covered if self.batches is None else self.batches.taken
        choosing = Choosing.after(self.algorithm, self.agreed, message.model, self.seed)
        state, sums = self.state.copied(), None
        state.epoch = max(state.epoch, message.models) + 1  # a coordinator may lose its count
        if self.personal is not None:
            base = self._adopt_own(self.personal, state, message, covered)
        else:
            self.algorithm.local_update.adopt(choosing.setting, state, message.model)
            base = _stored(self.algorithm.local_update, state)
        if self.sums.at_model:
            sums = OwnSums(self.algorithm, self.agreed, message.model, covered)
        adoption = Adoption(message.update, covered, choosing, base, state, sums)
        adoption.catch_up(self.samples)
        return adoption

    def _adopt_own(
        self, personal: PersonalSums, state: LocalState, message: NewModel, covered: int
    ) -> Arrays:
        """Let a state adopt a model, without what this client sent; return the state of the prior.

        A client whose answer to this update is lost takes the model as that of others.
        """
        answered = covered > 0 and self.update == message.update
        if answered and self._summed[0] != self.update:  # after a restart
            self._sum_at_own(personal, self.adopted, message.model.now or 0)
        counts = np.array([covered if answered else 0])
        personal.adopt(_stacked(state), message.model, counts, prior_only=True)
        state.base = message.model
        prior = _stored(self.algorithm.local_update, state)
        personal.complete(state, self.samples, self._covered_weights(state, covered), covered)
        return prior

    def _covered_weights(self, state: LocalState, covered: int) -> FloatArray:
        """Return the weights of the first samples in the model of a state; none if all count 1."""
        now = 0 if state.base is None else state.base.now or 0
        return self.sums.weights(self.samples, covered, now)

    def install(self, adoption: Adoption) -> None:
        """Use a state from `prepare`, with the samples that have come since.

        Parameters
        ----------
        adoption
            From `prepare`.
        """
        adoption.catch_up(self.samples)
        self.adopted, self.covered = adoption.update, adoption.covered
        self.choosing, self.state = adoption.choosing, adoption.state
        self.sums = self.sums if adoption.sums is None else adoption.sums
        if self.personal is not None:
            self.base = adoption.base
            if self.update <= self.adopted:
                self.frozen_state = None

    # -- state -----------------------------------------------------------------------------------

    def _hold(self, samples: Samples, state: LocalState, numbers: Mapping[str, int]) -> None:
        """Use these samples, the state after them, these numbers, and their sums."""
        self.samples, self.state = samples, state
        for name, value in numbers.items():
            setattr(self, name, value)
        self.choosing = Choosing.after(self.algorithm, self.agreed, state.base, self.seed)
        self.sums = OwnSums(self.algorithm, self.agreed, state.base, self.covered)
        self.sums.add(samples)
        self.frozen_state, self._summed = None, (0, -1)

    @classmethod
    def from_samples(
        cls,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        samples: Samples,
        base: Mapping[str, NDArray[Any]] | None = None,
        seed: int = 0,
        noise: NoiseSource | None = None,
        **numbers: int,
    ) -> Client:
        """Return a client that has learned these samples one by one, to the bit.

        Parameters
        ----------
        id, algorithm, setting, seed, noise
            As for a new client.
        samples
            All of its samples, in the order in which they came. The client appends to this object.
        base
            `Adoption.base` of the last model; None before the first.
        **numbers
            `covered`, `frozen`, `update`, `adopted` and `last_t`; 0 by default.

        Returns
        -------
        Client
            With the state that follows from `base` and the samples.
        """
        local = algorithm.local_update
        state = local.begin(setting) if base is None else _restored(local, setting, base)
        client = cls(id, algorithm, setting, seed, noise)
        client._hold(samples, state, numbers)
        if client.personal is not None and base is not None:
            client.base = base
            weights = client._covered_weights(state, client.covered)
            client.personal.complete(state, samples, weights, client.covered)
        replay(client.choosing, client.state, samples, client.covered, client.covered)
        return client

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays, but for the counts of what was offered."""
        return {
            "X": self.samples.X.copy(),
            "y": self.samples.y.copy(),
            "sums": self.sums.matrix.copy(),
            "vector_sums": self.sums.vector.copy(),
            **({"at": self.samples.at.copy()} if self.algorithm.memory.forgets else {}),
            **{name: np.array(getattr(self, name)) for name in _NUMBERS},
            **prefixed(_stored(self.algorithm.local_update, self.state), "state"),
            **({"bank": np.array(self.bank)} if self.bank else {}),
            **self._frozen_arrays(),
            **({} if self.batches is None else prefixed(self.batches.to_arrays(), "batches")),
        }

    def _frozen_arrays(self) -> Arrays:
        if self.frozen_state is None:
            return {}
        return prefixed(_stored(self.algorithm.local_update, self.frozen_state), "frozen_state")

    @classmethod
    def from_arrays(
        cls,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        arrays: Mapping[str, NDArray[Any]],
        seed: int = 0,
        noise: NoiseSource | None = None,
    ) -> Client:
        """Return a copy of a client from its `to_arrays`.

        Parameters
        ----------
        id, algorithm, setting, seed, noise
            As for the original client.
        arrays
            From `to_arrays`.

        Returns
        -------
        Client
            It shares nothing with `arrays`.
        """
        X, y = np.array(arrays["X"]), np.array(arrays["y"])
        state = _restored(algorithm.local_update, setting, nested(arrays, "state"))
        numbers = {name: int(arrays[name]) for name in _NUMBERS}
        client = cls(id, algorithm, setting, seed, noise)
        at = np.array(arrays["at"]) if "at" in arrays else None
        client._hold(Samples.over(X, y, len(y), at), state, numbers)
        client.bank = float(arrays.get("bank", 0.0))
        if frozen := nested(arrays, "frozen_state"):
            client.frozen_state = _restored(algorithm.local_update, setting, frozen)
        if client.batches is not None:
            client.batches.restore(nested(arrays, "batches"))
        return client


def _stacked(state: LocalState) -> Learners:
    """Return views of one state, as those of one client."""
    return Learners(state.vectors[None], state.matrices[None], state.counters[None])


def replay(
    choosing: Choosing, state: LocalState, samples: Samples, covered: int, first: int
) -> None:
    """Learn the samples from `first` on, of those that the state's model does not cover.

    Where old samples count less, so many of those that are older than the model are learned that
    their number follows the sum of their weights.
    """
    local, model = choosing.algorithm.local_update, state.base
    memory = choosing.algorithm.memory.in_force(model)
    if memory is not None and model is not None and covered < len(samples):
        assert model.now is not None
        last = np.array([len(samples) - covered])
        taken = thinned(weigh(memory, samples.at[None, covered:], last, float(model.now))[0])
        kept = covered + np.flatnonzero(taken)
        if kept.size < last[0]:
            first = int(np.searchsorted(kept, first))
            samples = Samples.over(samples.X[kept], samples.y[kept], kept.size)
    local.replay(choosing.setting, state, samples, first)


def _stored(local: LocalUpdate[Any], state: LocalState) -> Arrays:
    """Return a state as arrays, without the room behind its counters."""
    arrays = to_arrays(state)
    arrays["counters"] = arrays["counters"][: local.counters_in_use(state)]
    return arrays


def _restored(
    local: LocalUpdate[Any], setting: Setting, arrays: Mapping[str, NDArray[Any]]
) -> LocalState:
    """Return the state of `_stored`, with room behind its counters."""
    state: LocalState = from_arrays(local.state_type, arrays)
    used, state.counters = state.counters, local.begin(setting).counters
    state.counters[: used.size] = used
    return state
