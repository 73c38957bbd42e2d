"""A client: chooses arms, learns from its rewards, and takes part in global updates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer
from fedglb.kernels.decide import decide, ellipsoid_bounds
from fedglb.kernels.layout import SCORES, UPPER, WIDTHS
from fedglb.kernels.merge import Merged
from fedglb.kernels.sums import sum_over_clients
from fedglb.model import SharedModel
from fedglb.parts.local_update import LocalState
from fedglb.privacy.noise import NoiseSource, SystemNoise
from fedglb.protocol.batches import Batches, Release
from fedglb.protocol.checks import check_model
from fedglb.protocol.choosing import Choosing, Chosen, stream_of
from fedglb.protocol.messages import (
    BatchSums,
    ClientId,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    Message,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.own_sums import OwnSums
from fedglb.protocol.persistence import Arrays, from_arrays, nested, prefixed, to_arrays
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray

_NUMBERS = ("covered", "frozen", "update", "adopted", "last_t")


@dataclass
class Adoption:
    """A client's state after it has adopted a shared model, prepared before the client holds it.

    Parameters
    ----------
    update, covered
        The update that made the model, and how many of the client's oldest samples it covers.
    setting
        The setting, with the λ of the model where it has one.
    base
        The state before any own sample, as `to_arrays` gives it: what a client that is loaded
        again begins from.
    state, sums
        The state, and the sums at the model (None where the algorithm has no use for them), with
        the samples so far.
    choosing
        What choices need of the model.
    """

    update: int
    covered: int
    setting: Setting
    base: Arrays
    state: LocalState
    sums: OwnSums | None
    choosing: Choosing
    taken: int = -1

    def catch_up(self, client: Client) -> None:
        """Learn the client's samples that the model does not cover, up to the newest.

        Samples that another thread appends while this runs are left for the next call.
        """
        samples = client.samples.so_far()
        first, self.taken = max(self.taken, self.covered), len(samples)
        client.algorithm.local_update.replay(self.setting, self.state, samples, first)
        if self.sums is not None:
            self.sums.add(samples)


class Client:
    """One client of a federation: a state machine without input or output of its own.

    `choose` and `observe` are the application's calls, `receive` takes the coordinator's messages;
    whoever calls them delivers the messages that they return.

    Parameters
    ----------
    id
        Its identity, a whole number or a name.
    algorithm
        The algorithm that the federation runs.
    setting
        From `algorithm.setting(problem, clients, horizon)`.
    seed
        Seed of a random choice; the client's stream follows from it and from `id`.
    noise
        Where the noise of privacy comes from. None (default): from the system, by an exact
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
        self.id, self.seed, self.stream = id, seed, stream_of(id)
        self.algorithm = algorithm
        self.setting = setting
        self.samples = Samples(setting.problem.dim)
        self.merged: Merged | None = None  # for passes over the samples, from the first one on
        solver, source = algorithm.global_update, noise or SystemNoise()
        one_pass = solver is not None and solver.one_pass
        self.batches = Batches(id, algorithm, setting, source) if one_pass else None
        self.state: LocalState = algorithm.local_update.begin(setting)
        self.covered = 0  # how many own samples the shared model covers, the oldest ones
        self.frozen = 0  # how many the update in progress covers
        self.update = 0  # the update in progress, or the last one that this client took part in
        self.adopted = 0  # the last update whose model this client holds
        self.last_t = 0
        self.hold(None)

    def hold(self, model: SharedModel | None) -> None:
        """Use a model's λ, and begin the sums and sets that go with it. Internal.

        Parameters
        ----------
        model
            The last shared model; None before the first.
        """
        self.setting = self.setting.in_force(model)
        self.sums = OwnSums(self.algorithm, self.setting, model, self.covered)
        self._choosing: Choosing | None = None

    # -- the application's two calls --------------------------------------------------------

    @property
    def alpha(self) -> float:
        """The radius by which the next arm is chosen.

        Raises
        ------
        InvalidInput
            If it is too large for a double.
        """
        return self.choosing.alpha(self.state)

    @property
    def choosing(self) -> Choosing:
        """What choices need of the last model; it is worked out once per model. Internal."""
        if self._choosing is None:
            self._choosing = Choosing.after(
                self.algorithm, self.setting, self.state.base, self.seed
            )
        return self._choosing

    def choose(self, arms: ArrayLike, t: int | None = None) -> int:
        """Return the arm to play, by the algorithm's choice rule. Changes nothing.

        Parameters
        ----------
        arms
            Shape (K, d), K ≥ 1, each arm of Euclidean norm at most 1.
        t
            The step, t ≥ 1, for rules that depend on it. None: the one after the newest that the
            client knows.

        Returns
        -------
        int
            The index of the arm, the first of equal ones (up to rounding).

        Raises
        ------
        InvalidInput
            If `arms` has another shape, numbers that are not finite, or an arm that is too long.

        References
        ----------
        Li and Wang (2022), Eq. (5): arm selection, for `Ucb`.
        """
        columns = self._columns(arms)
        return self.decide(columns, self.clock + 1 if t is None else integer("t", t)).arm

    @property
    def clock(self) -> int:
        """The newest step that the client knows: its own, or the last model's."""
        return max(self.last_t, self.state.t_last)

    def decide(
        self,
        columns: FloatArray,
        t: int,
        number: int | None = None,
        stream: int | None = None,
    ) -> Chosen:
        """`choose` for arms that are checked already, with how it chose. Internal.

        Parameters
        ----------
        columns
            The arms as columns, shape (d, K).
        t
            The step.
        number
            The place of this decision in the client's stream of random numbers; None: t.
        stream
            The number of that stream; None: the client's own. (One learner that plays for all
            clients has one per client.)

        Returns
        -------
        Chosen
            The arm, and how it was chosen.
        """
        choosing, state, (d, K) = self.choosing, self.state, columns.shape
        work, propensity = np.empty((5, K)), np.empty(2)
        params, alpha = choosing.params, self.alpha
        place = (t, t if number is None else number, self.stream if stream is None else stream)
        ranked_by_bound = params.index == 0
        arm = decide(
            columns, state.vectors, state.matrices, state.counters, choosing.terms, params,
            alpha, *place, work, np.empty((d, d)), propensity,
        )  # fmt: skip
        score = float(work[UPPER if ranked_by_bound else SCORES, arm])
        if ranked_by_bound and self.algorithm.confidence.bounds is ellipsoid_bounds:
            width = alpha * math.sqrt(max(work[WIDTHS, arm], 0.0))
        else:
            width = score - float(columns[:, arm] @ state.centre)
        return Chosen(arm, score, float(width), float(propensity[0]), float(propensity[1]))

    def scores(self, arms: ArrayLike) -> FloatArray:
        """Return the upper confidence bound of each arm. Changes nothing.

        Parameters
        ----------
        arms
            As for `choose`, shape (K, d).

        Returns
        -------
        array
            The largest xᵀθ within the confidence set, for each arm x: xᵀθ + α‖x‖_{A⁻¹} with the
            centre θ of an ellipsoid; shape (K,).

        Raises
        ------
        InvalidInput
            If `arms` is not allowed, as for `choose`.
        """
        columns, choosing, state = self._columns(arms), self.choosing, self.state
        work = np.empty((5, columns.shape[1]))
        self.algorithm.confidence.bounds(
            columns, state.vectors, state.matrices, state.counters, choosing.terms,
            choosing.constants, self.alpha, 0, work,
        )  # fmt: skip
        return np.array(work[UPPER])

    def _columns(self, arms: ArrayLike) -> FloatArray:
        table = array("arms", arms, (None, self.setting.problem.dim))
        return np.ascontiguousarray(arms_in_unit_ball("arms", table).T)

    def observe(self, x: ArrayLike, reward: float, t: int) -> list[Message]:
        """Learn from a reward, and ask for a global update if the trigger fires.

        Parameters
        ----------
        x
            The arm that was played, shape (d,).
        reward
            Its reward, as the problem's link allows it.
        t
            The step in which it was played, t ≥ 1.

        Returns
        -------
        list of Message
            What is to be sent to the coordinator: a `SyncRequest`, or nothing.

        Raises
        ------
        InvalidInput
            If `x`, `reward` or `t` is not allowed; the client is then as it was.
        """
        features = array("x", x, (self.setting.problem.dim,))
        arms_in_unit_ball("x", features)
        y = self.setting.problem.check_reward(reward)
        integer("t", t)
        return [self.sync_request(t)] if self.observe_unchecked(features, y, t) else []

    def observe_unchecked(self, x: FloatArray, y: float, t: int) -> bool:
        """`observe` for a sample that is checked already. Internal: engines and agents call it.

        Parameters
        ----------
        x, y, t
            The arm that was played, its reward, and the step.

        Returns
        -------
        bool
            Whether the trigger fired; the caller makes the `sync_request` when it sends it.
        """
        self._add(x, y)
        self.last_t = max(self.last_t, t)
        # An ONS step on this very sample is overwritten when the model comes; if it never comes,
        # the client has missed nothing.
        return self.triggered(t)

    def triggered(self, t: int) -> bool:
        """Return whether the trigger fires with the samples so far. Internal: agents call it.

        Parameters
        ----------
        t
            The step.

        Returns
        -------
        bool
            What the trigger's `fires` says.
        """
        trigger, state = self.algorithm.trigger, self.state
        if not trigger.own_samples:  # a user's own may take no more than these three
            return trigger.fires(t, state.t_last, state.log_gain)
        return trigger.fires(t, state.t_last, state.log_gain, state.updates)

    def sync_request(self, t: int) -> SyncRequest:
        """Return the request for a global update.

        Parameters
        ----------
        t
            The step in which the trigger fired.

        Returns
        -------
        SyncRequest
            For the coordinator. It is void once there is a newer model than the client's.
        """
        return SyncRequest(self.id, t, self.adopted)

    def absorb(self, X: ArrayLike, y: ArrayLike) -> None:
        """Take in existing samples before the first step (warm start).

        Parameters
        ----------
        X
            The arms that were played, shape (n, d).
        y
            Their rewards, shape (n,).

        Raises
        ------
        InvalidInput
            If a sample is not allowed, or the client has made a step or taken part in an update;
            no sample is then taken in.
        """
        if self.last_t > 0 or self.update > 0:
            raise InvalidInput(
                "absorb", f"called after step {self.last_t}", "samples before the first step only"
            )
        table = array("X", X, (None, self.setting.problem.dim))
        arms_in_unit_ball("X", table)
        rewards = array("y", y, (table.shape[0],))
        for k, value in enumerate(rewards):
            self.setting.problem.check_reward(float(value), f"y[{k}]")
        for x, value in zip(table, rewards, strict=True):
            self._add(x, float(value))

    # -- the coordinator's messages ------------------------------------------------------------

    def receive(self, message: Message) -> list[Message]:
        """Handle a message from the coordinator; one that is repeated or too late does no harm.

        Parameters
        ----------
        message
            A `CovarianceRequest`, an `Evaluate` or a `NewModel`.

        Returns
        -------
        list of Message
            What is to be sent to the coordinator: an answer, or nothing.

        Raises
        ------
        InvalidInput
            If the message is none that goes down, or what it says cannot be.
        """
        match message:
            case CovarianceRequest():
                return self._begin_update(message)
            case Evaluate():
                return self._evaluate(message)
            case NewModel():
                self._adopt(message)
                return []
        raise InvalidInput("message", type(message).__name__, "a message that goes down")

    def _begin_update(self, message: CovarianceRequest) -> list[Message]:
        if message.update < self.update or message.update <= self.adopted:
            return []  # of an update that is over
        if message.model not in (0, self.adopted):
            return []  # of a model that has not arrived yet, or is no longer held
        self.freeze(message.update)
        if self.batches is not None:
            return self._release(self.batches)
        theta = None
        if self.sums.at_model and message.model != self.adopted:
            theta = np.zeros(self.setting.problem.dim)  # the coordinator has lost its model
        return [self.sums.of_first(self.samples, self.frozen, theta).answer(self.id, self.update)]

    def _release(self, batches: Batches) -> list[Message]:
        """Answer with the sums for the update in progress: to a repeated request with the same."""
        if batches.refusal(self.update) is None:
            batches.commit(self.prepare_release(self.update))
        if batches.last is None or batches.last.update != self.update:
            return []
        return [BatchSums(self.id, self.update, batches.last.numbers.copy())]

    def prepare_release(self, update: int) -> Release:
        """Return what would be released for an update that is frozen. Changes nothing.

        Parameters
        ----------
        update
            Its number.

        Returns
        -------
        Release
            For `Batches.commit`.
        """
        assert self.batches is not None
        theta = self.shared_theta
        return self.batches.prepare(update, self.samples, self.frozen, theta, self.adopted)

    @property
    def shared_theta(self) -> FloatArray:
        """θ of the shared model, at which batches are taken; 0 before the first. Internal.

        It is not the client's own estimate: that depends on its samples, and then one sample would
        change what all others add.
        """
        model = self.state.base
        if model is None:
            return np.zeros(self.setting.problem.dim)
        assert model.theta is not None
        return model.theta

    def freeze(self, update: int) -> None:
        """Fix which samples belong to an update, if it is a newer one: those so far. Internal.

        Where the update need not bring a model, they count as uploaded from now on.

        Parameters
        ----------
        update
            Its number.
        """
        if update <= self.update:
            return
        self.update, self.frozen = update, len(self.samples)
        solver = self.algorithm.global_update
        if solver is not None and solver.download_level is not None:
            self.algorithm.local_update.uploaded(self.state)

    def has_ready(self, message: CovarianceRequest) -> bool:
        """Return whether the answer takes no pass over the samples. Internal: agents call it.

        Parameters
        ----------
        message
            The request, of an update that is frozen.

        Returns
        -------
        bool
            False where samples came after the update was frozen, or its model is not the one held.
        """
        at_hand = not self.sums.at_model or message.model == self.adopted
        return at_hand and self.frozen == len(self.samples)

    def _evaluate(self, message: Evaluate) -> list[Message]:
        if self.batches is not None:
            return []  # no round of a one-pass update: it would tell sums of samples again
        if message.update != self.update or message.update <= self.adopted:
            return []  # of an update that is over, or that this client has no part in
        link, d = self.setting.problem.link, self.setting.problem.dim
        theta = array("theta", message.theta, (d,))
        first = integer("since", message.since, at_least=0, at_most=self.frozen)
        X, y = self.samples.X, self.samples.y
        if self.merged is None:
            self.merged = Merged.empty(1, d)
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        loss = sum_over_clients(
            X[None], y[None], np.array([first]), np.array([self.frozen]), self.merged, theta,
            link.compiled_functions, gradient, hessian, message.hessian, message.loss,
        )  # fmt: skip
        return [
            Derivatives(
                self.id, message.update, message.round, gradient,
                hessian if message.hessian else None, loss if message.loss else None,
            )
        ]  # fmt: skip

    def _adopt(self, message: NewModel) -> None:
        """Adopt the new model, then learn every own sample that it does not cover."""
        adoption = self.prepare(message)
        if adoption is not None:
            self.install(adoption)

    def prepare(self, message: NewModel) -> Adoption | None:
        """Compute the state that a new model leads to; None: the client holds this model already.

        Changes nothing, and may run in one thread while the client chooses and learns in
        another: samples are only ever appended, and what an adopted state depends on (the
        shared models so far) does not change with them.

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
            If the model does not fit the algorithm and the setting, or covers more samples than
            the client has.
        """
        if message.update <= self.adopted:
            return None  # delivered twice
        check_model(message.model, self.algorithm, self.setting)
        integer("covered", message.covered, at_least=0, at_most=len(self.samples))
        # in a one-pass update nobody is told a number of samples: what was released is covered
        covered = message.covered if self.batches is None else self.batches.taken
        local, state = self.algorithm.local_update, self.state.copied()
        setting, model = self.setting.in_force(message.model), message.model
        local.adopt(setting, state, model)
        sums = None
        if self.sums.at_model:
            sums = OwnSums(self.algorithm, setting, model, covered)
        choosing = Choosing.after(self.algorithm, setting, model, self.seed)
        adoption = Adoption(
            message.update, covered, setting, to_arrays(state), state, sums, choosing
        )
        adoption.catch_up(self)
        return adoption

    def install(self, adoption: Adoption) -> None:
        """Hold a state that `prepare` worked out, with the samples that have come since.

        Parameters
        ----------
        adoption
            From `prepare`.
        """
        adoption.catch_up(self)
        self.adopted, self.covered = adoption.update, adoption.covered
        self.setting, self.state = adoption.setting, adoption.state
        self.sums = self.sums if adoption.sums is None else adoption.sums
        self._choosing = adoption.choosing

    def _add(self, x: FloatArray, y: float) -> None:
        index = self.samples.append(x, y)
        self.sums.add(self.samples)
        self.algorithm.local_update.observe(self.setting, self.state, self.samples, index)

    @classmethod
    def from_samples(
        cls,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        samples: Samples,
        base: Mapping[str, NDArray[Any]] | None = None,
        **numbers: int,
    ) -> Client:
        """Return the client that has these samples: it goes on exactly as the one that met them.

        Parameters
        ----------
        id, algorithm, setting
            As for a new client.
        samples
            All of its samples, in the order in which they came. The client goes on with this
            object, and appends to it.
        base
            That of the last `Adoption`; None before the first.
        **numbers
            `covered`, `frozen`, `update`, `adopted`, `last_t` and `seed`; 0 where not given.

        Returns
        -------
        Client
            With the state that follows from `base` and the samples.
        """
        client = cls(id, algorithm, setting)
        client.samples = samples
        local = algorithm.local_update
        if base is not None:
            client.state = from_arrays(local.state_type, base)
        for name, value in numbers.items():
            setattr(client, name, value)
        client.hold(client.state.base)
        client.sums.add(samples)
        local.replay(client.setting, client.state, samples, client.covered)
        return client

    # -- persistence -----------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays."""
        return {
            "X": self.samples.X.copy(),
            "y": self.samples.y.copy(),
            "sums": self.sums.matrix.copy(),
            "vector_sums": self.sums.vector.copy(),
            **{name: np.array(getattr(self, name)) for name in _NUMBERS},
            **prefixed(to_arrays(self.state), "state"),
            **({} if self.batches is None else prefixed(self.batches.to_arrays(), "batches")),
        }

    @classmethod
    def from_arrays(
        cls,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        arrays: Mapping[str, NDArray[Any]],
    ) -> Client:
        """Return the client whose state `to_arrays` gave: it goes on exactly as that one.

        Parameters
        ----------
        id, algorithm, setting
            As for a new client, and the same as that one's.
        arrays
            From `to_arrays`.

        Returns
        -------
        Client
            With a state of its own: it shares nothing with `arrays`.
        """
        client = cls(id, algorithm, setting)
        for x, y in zip(arrays["X"], arrays["y"], strict=True):
            client.samples.append(x, float(y))
        for name in _NUMBERS:
            setattr(client, name, int(arrays[name]))
        client.state = from_arrays(algorithm.local_update.state_type, nested(arrays, "state"))
        client.hold(client.state.base)
        client.sums.count = len(client.samples)
        client.sums.matrix = np.array(arrays["sums"])
        client.sums.vector = np.array(arrays["vector_sums"])
        if client.batches is not None:
            client.batches.restore(nested(arrays, "batches"))
        return client
