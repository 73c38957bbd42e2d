"""A client: chooses arms, learns from its rewards, and takes part in global updates."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer
from fedglb.kernels.scoring import choose, upper_bounds
from fedglb.kernels.sums import add_derivatives, add_moments, sum_loss
from fedglb.local_update import LocalState
from fedglb.protocol.checks import check_model
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
    base
        The state before any own sample, as `to_arrays` gives it: what a client that is loaded
        again begins from.
    state
        The state with the samples so far.
    """

    update: int
    covered: int
    base: Arrays
    state: LocalState
    taken: int = -1

    def catch_up(self, client: Client) -> None:
        """Learn the client's samples that the model does not cover, up to the newest.

        Samples that another thread appends while this runs are left for the next call.
        """
        samples = client.samples.so_far()
        first, self.taken = max(self.taken, self.covered), len(samples)
        client.algorithm.local_update.replay(client.setting, self.state, samples, first)


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

    References
    ----------
    Li and Wang (2022), Algorithm 1, the clients' part, and Algorithm 2, the local update of
    FedGLB-UCB; docs/protocol.md.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_ucb(threshold=1.0)
    >>> client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=2), 1, None))
    >>> arm = client.choose([[1.0, 0.0], [0.0, 1.0]])
    >>> client.observe([1.0, 0.0], reward=1.0, t=1)
    []
    """

    def __init__(self, id: ClientId, algorithm: Algorithm, setting: Setting) -> None:  # noqa: A002
        self.id = id
        self.algorithm = algorithm
        self.setting = setting
        d = setting.problem.dim
        self.samples = Samples(d)
        self.state: LocalState = algorithm.local_update.begin(setting)
        self.covariance = np.zeros((d, d))  # Σ x xᵀ over all own samples
        self.moment = np.zeros(d)  # Σ x y over the same
        self.covered = 0  # how many own samples the shared model covers, the oldest ones
        self.frozen = 0  # how many the update in progress covers
        self.update = 0  # the update in progress, or the last one that this client took part in
        self.adopted = 0  # the last update whose model this client holds
        self.last_t = 0

    # -- the application's two calls --------------------------------------------------------

    @property
    def alpha(self) -> float:
        """The radius by which the next arm is chosen.

        Raises
        ------
        InvalidInput
            If it is too large for a double.
        """
        radius = self.algorithm.confidence.radius(self.setting, self.state)
        scalable = self.algorithm.confidence.scalable
        if not math.isfinite(radius):
            raise InvalidInput(
                "radius",
                radius,
                "a problem within the range of doubles: a smaller S, a larger ridge or curvature",
            )
        return radius * self.algorithm.exploration if scalable else radius

    def choose(self, arms: ArrayLike) -> int:
        """Return the arm to play: the one of the largest upper confidence bound. Changes nothing.

        Parameters
        ----------
        arms
            Shape (K, d), K ≥ 1, each arm of Euclidean norm at most 1.

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
        Li and Wang (2022), Eq. (5): arm selection.
        """
        return self.choose_unchecked(self._columns(arms))

    def choose_unchecked(self, columns: FloatArray) -> int:
        """`choose` for arms that are checked already. Internal: engines call it.

        Parameters
        ----------
        columns
            The arms as columns, shape (d, K).

        Returns
        -------
        int
            The index of the arm, the first of equal ones (up to rounding).
        """
        scores, widths = np.empty((2, columns.shape[1]))
        return choose(columns, self.state.centre, self.state.inverse, self.alpha, scores, widths)

    def scores(self, arms: ArrayLike) -> FloatArray:
        """Return the upper confidence bound of each arm. Changes nothing.

        Parameters
        ----------
        arms
            As for `choose`, shape (K, d).

        Returns
        -------
        array
            xᵀθ + α‖x‖_{A⁻¹} of each arm x, θ being the centre of the ellipsoid; shape (K,).

        Raises
        ------
        InvalidInput
            If `arms` is not allowed, as for `choose`.
        """
        columns = self._columns(arms)
        scores, widths = np.empty((2, columns.shape[1]))
        upper_bounds(columns, self.state.centre, self.state.inverse, self.alpha, scores, widths)
        return scores

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
        return self.algorithm.trigger.fires(t, self.state.t_last, self.state.log_gain)

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
        if message.update > self.update:
            self.update = message.update
            self.frozen = len(self.samples)
        covariance, moment = self._sums(self.frozen)
        b = moment if self.algorithm.local_update.shares_moment else None
        return [Covariance(self.id, message.update, self.frozen, covariance, b)]

    def _sums(self, n: int) -> tuple[FloatArray, FloatArray]:
        """Σ x xᵀ and Σ x y over the first n samples, in the order in which they came."""
        if n == len(self.samples):
            return self.covariance.copy(), self.moment.copy()
        covariance, moment = np.zeros_like(self.covariance), np.zeros_like(self.moment)
        add_moments(self.samples.X[:n], self.samples.y[:n], covariance, moment)
        return covariance, moment

    def _evaluate(self, message: Evaluate) -> list[Message]:
        if message.update != self.update or message.update <= self.adopted:
            return []  # of an update that is over, or that this client has no part in
        link, d = self.setting.problem.link, self.setting.problem.dim
        theta = array("theta", message.theta, (d,))
        first = integer("since", message.since, at_least=0, at_most=self.frozen)
        X, y = self.samples.X[first : self.frozen], self.samples.y[first : self.frozen]
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        add_derivatives(
            X, y, theta, link.compiled_mean.address, link.compiled_variance.address,
            gradient, hessian, message.hessian,
        )  # fmt: skip
        loss = sum_loss(X, y, theta, link.compiled_cumulant.address) if message.loss else None
        return [
            Derivatives(
                self.id, message.update, message.round, gradient,
                hessian if message.hessian else None, loss,
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
        local, state = self.algorithm.local_update, copy.deepcopy(self.state)
        local.adopt(self.setting, state, message.model)
        adoption = Adoption(message.update, message.covered, to_arrays(state), state)
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
        self.state = adoption.state

    def _add(self, x: FloatArray, y: float) -> None:
        index = self.samples.append(x, y)
        row = slice(index, index + 1)
        add_moments(self.samples.X[row], self.samples.y[row], self.covariance, self.moment)
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
            `covered`, `frozen`, `update`, `adopted` and `last_t`; 0 where not given.

        Returns
        -------
        Client
            With the state that follows from `base` and the samples.
        """
        client = cls(id, algorithm, setting)
        client.samples = samples
        add_moments(samples.X, samples.y, client.covariance, client.moment)
        local = algorithm.local_update
        if base is not None:
            client.state = from_arrays(local.state_type, base)
        for name, value in numbers.items():
            setattr(client, name, value)
        local.replay(setting, client.state, samples, client.covered)
        return client

    # -- persistence -----------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """Return the whole state as plain arrays."""
        return {
            "X": self.samples.X.copy(),
            "y": self.samples.y.copy(),
            "covariance": self.covariance.copy(),
            "moment": self.moment.copy(),
            **{name: np.array(getattr(self, name)) for name in _NUMBERS},
            **prefixed(to_arrays(self.state), "state"),
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
        client.covariance = np.array(arrays["covariance"])
        client.moment = np.array(arrays["moment"])
        for name in _NUMBERS:
            setattr(client, name, int(arrays[name]))
        client.state = from_arrays(algorithm.local_update.state_type, nested(arrays, "state"))
        return client
