"""A learner: chooses arms and learns from its own rewards, between two shared models."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer
from fedglb.kernels.decide import ChoiceParams, decide, ellipsoid_bounds
from fedglb.kernels.layout import SCORES, UPPER, WIDTHS
from fedglb.model import SharedModel
from fedglb.parts.choice import check_first, choice_params, scores_of
from fedglb.parts.confidence import Confidence
from fedglb.parts.local_update import LocalState
from fedglb.protocol.messages import ClientId, Message, SyncRequest
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Choosing:
    """Data for a client's choices from the last model, constant until the next one."""

    algorithm: Algorithm
    setting: Setting  # with the λ in force
    seed: int
    constants: FloatArray  # the confidence's constants
    terms: FloatArray  # the confidence's terms from the model

    @classmethod
    def after(
        cls, algorithm: Algorithm, setting: Setting, model: SharedModel | None, seed: int
    ) -> Choosing:
        """Return the data for choices after a model, or before the first one."""
        confidence, setting = algorithm.confidence, setting.in_force(model)
        constants = np.array(confidence.constants(setting), dtype=float)
        return cls(algorithm, setting, seed, constants, confidence.terms(setting, model))

    def alpha(self, state: LocalState) -> float:
        """Return the radius by which a client in this state chooses; raise if it is infinite."""
        confidence = self.algorithm.confidence
        if type(confidence).radius is not Confidence.radius:  # a custom one, in plain Python
            radius = confidence.radius(self.setting, state)
        else:
            radius = confidence.formula(state.vectors, state.counters, self.terms, self.constants)
        if not math.isfinite(radius):
            allowed = "a finite radius: use a smaller S, or a larger ridge or curvature"
            raise InvalidInput("radius", radius, allowed)
        return radius * self.algorithm.exploration if confidence.scalable else radius

    @functools.cached_property
    def params(self) -> ChoiceParams:
        """The choice rule for the kernel `decide`; compiles its functions."""
        algorithm, setting = self.algorithm, self.setting
        choice, bounds = algorithm.choice, 0
        if choice.needs_sets and type(algorithm.confidence).bounds is not ellipsoid_bounds:
            bounds = algorithm.confidence.bounds_address
        return choice_params(choice, bounds, self.constants, setting, self._dispersion, self.seed)

    @property
    def _dispersion(self) -> float:
        return self.algorithm.local_update.dispersion(self.setting)

    def scores_in_python(self, columns: FloatArray, state: LocalState, t: int) -> FloatArray | None:
        """Return the scores of a user's rule, by Python; raise if they are invalid.

        None for a rule of the package, which has a kernel only.
        """
        rule = self.algorithm.choice.ranked_by
        if not rule.has_score:
            return None
        return scores_of(rule, columns, state.vectors, state.matrices, self._dispersion, t)


@dataclass(frozen=True)
class Chosen:
    """A chosen arm and its statistics."""

    arm: int  # its index
    score: float  # by which the rule ranks arms: an upper confidence bound for `Ucb`
    width: float  # score − xᵀθ: α‖x‖ in the norm of A⁻¹ for `Ucb` and an ellipsoid
    propensity: float  # the probability of this arm; nan if the rule does not estimate it
    propensity_error: float  # its standard error: 0 if exact, nan as above
    charge: float  # what it takes from the bank


def stream_of(client: ClientId) -> int:
    """Return the number of a client's random stream: its id, or a hash of its name."""
    if isinstance(client, int):
        return client
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=4).digest(), "little")


class Learner:
    """Chooses by the last shared model and its own samples since: a `Client` without updates."""

    def __init__(
        self,
        id: ClientId,  # noqa: A002
        algorithm: Algorithm,
        setting: Setting,
        seed: int = 0,
    ) -> None:
        self.id, self.seed, self.stream = id, seed, stream_of(id)
        self.algorithm, self.agreed = algorithm, setting
        self.trigger = algorithm.trigger.resolved(setting)
        self.samples = Samples(setting.problem.dim)
        self.state: LocalState = algorithm.local_update.begin(setting)
        self.choosing = Choosing.after(algorithm, setting, None, seed)  # with the λ in force
        self.adopted = 0  # the update of the shared model; 0: no model yet
        self.last_t = 0  # the newest step of an own sample
        self.bank = 0.0  # the sum of the charges of arms played, for `Bank`
        self._checked = not algorithm.choice.ranked_by.has_score  # the rule, on its first call

    @property
    def setting(self) -> Setting:
        """The setting in force: the agreed one, with the λ of the shared model if it has one."""
        return self.choosing.setting

    @property
    def alpha(self) -> float:
        """The radius by which the next arm is chosen; `InvalidInput` if that is infinite."""
        return self.choosing.alpha(self.state)

    def choose(self, arms: ArrayLike, t: int | None = None) -> int:
        """Return the arm to play, by the algorithm's choice rule.

        Changes nothing, except that `Bank` counts the arm as played.

        Parameters
        ----------
        arms
            Shape (K, d), K ≥ 1, each arm of Euclidean norm at most 1 (up to the rounding of
            float32, which is scaled back).
        t
            The step, t ≥ 1, for rules that depend on it. None: the one after the newest known
            step.

        Returns
        -------
        int
            The index of the arm; which of equal ones (up to rounding) is drawn depends on t.

        Raises
        ------
        InvalidInput
            If `arms` has another shape, numbers that are not finite, or an arm that is too long.

        References
        ----------
        Li and Wang (2022), Eq. (5): arm selection, for `Ucb`.
        """
        columns = self._columns(arms)
        chosen = self.decide(columns, self.clock + 1 if t is None else integer("t", t))
        self.bank += chosen.charge
        return chosen.arm

    @property
    def clock(self) -> int:
        """The newest known step: the client's own, or the last model's."""
        return max(self.last_t, self.state.t_last)

    def decide(
        self, columns: FloatArray, t: int, number: int | None = None, stream: int | None = None
    ) -> Chosen:
        """Choose among arms that the caller has checked; engines and agents call this.

        Changes nothing: who plays the arm adds its charge to `bank`.

        Parameters
        ----------
        columns
            The arms as columns, shape (d, K).
        t
            The step.
        number
            The place of this decision in the client's stream of random numbers; None: t.
        stream
            The number of that stream; None: the client's. (A centralised learner draws from one
            stream per client.)

        Returns
        -------
        Chosen
            The arm and its statistics.

        Raises
        ------
        InvalidInput
            If a score is not finite, or a user's rule returns no valid scores.
        """
        choosing, state, (d, K) = self.choosing, self.state, columns.shape
        work, outcome = np.empty((5, K)), np.empty(3)
        params, alpha = choosing.params, self.alpha
        place = (t, t if number is None else number, self.stream if stream is None else stream)
        ranked_by_bound = params.index == 0
        expected = None if self._checked else choosing.scores_in_python(columns, state, t)
        arm = decide(
            columns, state.vectors, state.matrices, state.counters, choosing.terms, params,
            alpha, *place, self.bank, work, np.empty((d, d)), outcome,
        )  # fmt: skip
        scores, rule = work[UPPER if ranked_by_bound else SCORES], self.algorithm.choice
        if arm < 0:
            choosing.scores_in_python(columns, state, t)  # of a user's rule: raises with the reason
            k, own = int(np.isfinite(scores).argmin()), rule.ranked_by.has_score
            allowed = "finite numbers" + ", as in plain Python: is each of them written?" * own
            raise InvalidInput(f"scores of {rule} at t={t}: [{k}]", float(scores[k]), allowed)
        if expected is not None:
            check_first(rule.ranked_by, scores, expected)
            self._checked = True
        score = float(scores[arm])
        if ranked_by_bound and self.algorithm.confidence.bounds is ellipsoid_bounds:
            width = alpha * math.sqrt(max(work[WIDTHS, arm], 0.0))
        else:
            width = score - float(columns[:, arm] @ state.centre)
        return Chosen(arm, score, float(width), *outcome.tolist())

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
        """Learn from a reward, and request a global update if the trigger fires.

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
            For the coordinator: a `SyncRequest`, or nothing.

        Raises
        ------
        InvalidInput
            If `x`, `reward` or `t` is invalid; nothing has changed.
        """
        features = arms_in_unit_ball("x", array("x", x, (self.setting.problem.dim,)))
        y = self.setting.problem.check_reward(reward)
        integer("t", t)
        fires = self.observe_unchecked(features, y, t)
        return [SyncRequest(self.id, t, self.adopted)] if fires else []

    def observe_unchecked(self, x: FloatArray, y: float, t: int) -> bool:
        """Learn from a sample that the caller has checked; engines and agents call this.

        Parameters
        ----------
        x, y, t
            The arm that was played, its reward, and the step.

        Returns
        -------
        bool
            Whether the trigger fired: then the caller sends a `SyncRequest`.
        """
        self._learn(x, y)
        self.last_t = max(self.last_t, t)
        # The next model overwrites this step's changes; without one, nothing is lost.
        return self.triggered(t)

    def _learn(self, x: FloatArray, y: float) -> None:
        """Append a sample and let the local update learn from it."""
        index = self.samples.append(x, y)
        self.algorithm.local_update.observe(self.setting, self.state, self.samples, index)

    def triggered(self, t: int) -> bool:
        """Return whether the trigger fires with the samples so far.

        Parameters
        ----------
        t
            The step.

        Returns
        -------
        bool
            Whether it fires.
        """
        trigger, state = self.trigger, self.state
        if trigger.clocked_by != "own samples":  # custom triggers may take only these three
            return trigger.fires(t, state.t_last, state.log_gain)
        return trigger.fires(t, state.t_last, state.log_gain, state.updates)
