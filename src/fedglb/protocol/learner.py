"""A learner: chooses arms and learns from its own rewards, between two shared models."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer
from fedglb.kernels.decide import ChoiceParams, decide, ellipsoid_bounds
from fedglb.kernels.effects import KEYS, OFFERS, name_arms, shift_arms
from fedglb.kernels.effects import known_names as write_known_names
from fedglb.kernels.layout import NAME, OFFSET, SCORES, SHIFTED, UPPER, WIDTHS, work_rows
from fedglb.model import SharedModel
from fedglb.parts.choice import check_first, choice_params, scores_of
from fedglb.parts.local_update import LocalState
from fedglb.protocol.messages import ClientId, Message, SyncRequest
from fedglb.samples import Samples
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray


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
        if confidence.by_formula:
            radius = confidence.formula(state.vectors, state.counters, self.terms, self.constants)
        else:  # a custom one, in plain Python
            radius = confidence.radius(self.setting, state)
        if not math.isfinite(radius):
            confidence.radius(self.setting, state)  # of a user's function: raises with the reason
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

    def scores_in_python(
        self, columns: FloatArray, state: LocalState, work: FloatArray, t: int
    ) -> FloatArray | None:
        """Return the scores of a user's rule, by Python; raise if they are invalid.

        None for a rule of the package, which has a kernel only.
        """
        rule = self.algorithm.choice.ranked_by
        if not rule.has_score:
            return None
        return scores_of(rule, columns, state.vectors, state.matrices, work, self._dispersion, t)


@dataclass(frozen=True)
class Chosen:
    """A chosen arm and its statistics."""

    arm: int  # its index
    score: float  # by which the rule ranks arms: an upper confidence bound for `Ucb`
    width: float  # score − xᵀθ: α‖x‖ in the norm of A⁻¹ for `Ucb` and an ellipsoid
    propensity: float  # the probability of this arm; nan if the rule does not estimate it
    propensity_error: float  # its standard error: 0 if exact, nan as above
    charge: float  # what it takes from the bank
    row: FloatArray  # the arm's features and, where arms have effects, its name: for a sample
    runner_up: int | None = None  # the index of the arm with the next score, if that is asked for


@functools.lru_cache(maxsize=2**16)  # of the arms that recur
def stream_of(client: ClientId) -> int:
    """Return the number of a client's random stream: its id, or a hash of its name."""
    if isinstance(client, int | np.integer):
        return int(client)
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=4).digest(), "little")


def names_of(ids: Sequence[int | str] | IntArray, count: int) -> FloatArray:
    """Return the names of arms with ids: whole numbers modulo 2³², and hashes of texts."""
    if len(ids) != count:
        raise InvalidInput("len(ids)", len(ids), f"{count}, one id per arm")
    for k, each in enumerate(ids):
        if type(each) not in (int, str) and not isinstance(each, np.integer | np.str_):
            raise InvalidInput(f"ids[{k}]", each, "a whole number or a text")
    return np.array([stream_of(each) % KEYS for each in ids], dtype=float)


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
        self.samples = Samples(setting.width)
        self.state: LocalState = algorithm.local_update.begin(setting)
        self.choosing = Choosing.after(algorithm, setting, None, seed)  # with the λ in force
        self.adopted = 0  # the update of the shared model; 0: no model yet
        self.last_t = 0  # the newest step of an own sample
        self.bank = 0.0  # the sum of the charges of arms played, for `Bank`
        self._checked = not algorithm.choice.ranked_by.has_score  # the rule, on its first call
        #: what was offered, counted by slots, where arms have effects (`kernels.effects`)
        self.offers = np.zeros(OFFERS, dtype=np.int64) if setting.effect_ridge else None

    @property
    def setting(self) -> Setting:
        """The setting in force: the agreed one, with the λ of the shared model if it has one."""
        return self.choosing.setting

    @property
    def alpha(self) -> float:
        """The radius by which the next arm is chosen; `InvalidInput` if that is infinite."""
        return self.choosing.alpha(self.state)

    def choose(
        self, arms: ArrayLike, t: int | None = None, ids: Sequence[int | str] | None = None
    ) -> int:
        """Return the arm to play, by the algorithm's choice rule.

        Changes nothing but, without `ids`, the counts by which equal arms are known to recur;
        `Bank` counts the arm as played.

        Parameters
        ----------
        arms
            Shape (K, d), K ≥ 1, each arm of Euclidean norm at most 1 (up to the rounding of
            float32, which is scaled back).
        t
            The step, t ≥ 1, for rules that depend on it. None: the one after the newest known
            step.
        ids
            The arms' ids, whole numbers or texts: arms of one id have an effect of their own, where
            the algorithm learns effects. None: arms recur if their features do.

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
        columns, step = self._columns(arms), self.clock + 1 if t is None else integer("t", t)
        chosen = self.decide(columns, step, names=self.names(columns, ids))
        self.bank += chosen.charge
        return chosen.arm

    def names(
        self, columns: FloatArray, ids: Sequence[int | str] | IntArray | None = None
    ) -> FloatArray:
        """Return the names of arms that are offered, by which effects are found.

        Parameters
        ----------
        columns
            The arms as columns, shape (d, K), or other numbers by which they are told apart.
        ids
            Their ids. None: they are counted by their columns.

        Returns
        -------
        array
            Shape (K,); empty where arms have no effects.

        Raises
        ------
        InvalidInput
            If there are not as many ids as arms, or one is no whole number or text.
        """
        if self.offers is None:
            return np.empty(0)
        if ids is not None:
            return names_of(ids, columns.shape[1])
        names = np.empty(columns.shape[1])
        name_arms(columns, self.offers, names)
        return names

    def rows(
        self,
        X: FloatArray,
        ids: Sequence[int | str] | None = None,
        marks: FloatArray | None = None,
    ) -> FloatArray:
        """Return the rows of samples whose arms were played, in order, elsewhere.

        Parameters
        ----------
        X
            The arms, shape (n, d).
        ids
            Their ids. None: they are counted by their features, as if each had been offered here.
        marks
            Numbers to count them by in place of their features, shape (m, n).

        Returns
        -------
        array
            The arms, and where arms have effects their names; shape (n, `Setting.width`).
        """
        if self.offers is None:
            return X
        columns = np.ascontiguousarray(X.T)
        names = self.names(columns if marks is None else marks, ids)
        return np.column_stack([X, self.with_effects(columns, names)[NAME]])

    @property
    def clock(self) -> int:
        """The newest known step: the client's own, or the last model's."""
        return max(self.last_t, self.state.t_last)

    def decide(
        self,
        columns: FloatArray,
        t: int,
        number: int | None = None,
        stream: int | None = None,
        names: FloatArray | None = None,
        *,
        logged: bool = False,
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
        names
            The arms' names, from `names`. None: by what was offered before; nothing is counted.
        logged
            Whether the probability of the arm is estimated by the rule's `logged_draws`, and the
            runner-up is found.

        Returns
        -------
        Chosen
            The arm and its statistics.

        Raises
        ------
        InvalidInput
            If a score is not finite, or a user's rule returns no valid scores.
        """
        names = self.known_names(columns) if names is None else names
        choosing, state, named = self.choosing, self.state, names.size > 0
        work, outcome = self.with_effects(columns, names), np.empty(3)
        params, alpha = choosing.params, self.alpha
        if logged:
            params = params._replace(draws=self.algorithm.choice.logged_draws)
        place = (t, t if number is None else number, self.stream if stream is None else stream)
        ranked_by_bound = params.index == 0
        expected = None
        if not self._checked:
            expected = choosing.scores_in_python(columns, state, work, t)
        arm = decide(
            columns, names, state.vectors, state.matrices, state.counters, choosing.terms, params,
            alpha, *place, self.bank, work, np.empty_like(state.matrix), outcome,
        )  # fmt: skip
        scores, rule = work[UPPER if ranked_by_bound else SCORES], self.algorithm.choice
        if arm < 0:
            # of a user's rule: raises with the reason
            choosing.scores_in_python(columns, state, work, t)
            k, own = int(np.isfinite(scores).argmin()), rule.ranked_by.has_score
            allowed = "finite numbers" + ", as in plain Python: is each of them written?" * own
            raise InvalidInput(f"scores of {rule} at t={t}: [{k}]", float(scores[k]), allowed)
        if expected is not None:
            check_first(rule.ranked_by, scores, expected)
            self._checked = True
        score = float(scores[arm])
        if ranked_by_bound and self.algorithm.confidence.bounds is ellipsoid_bounds:
            spread = alpha * math.sqrt(max(work[WIDTHS, arm], 0.0))
        else:
            shifted = work[SHIFTED:, arm] if named else columns[:, arm]
            spread = score - float(shifted @ state.centre) - (work[OFFSET, arm] if named else 0.0)
        row = np.append(columns[:, arm], work[NAME, arm : arm + 1] if named else ())
        probability, error, charge = outcome.tolist()
        others = np.delete(scores, arm) if logged and scores.size > 1 else None
        second = None if others is None else int(others.argmax())
        runner_up = None if second is None else second + (second >= arm)
        return Chosen(arm, score, float(spread), probability, error, charge, row, runner_up)

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
        work = self.with_effects(columns, self.known_names(columns))
        self.algorithm.confidence.bounds(
            columns, state.vectors, state.matrices, state.counters, choosing.terms,
            choosing.constants, self.alpha, 0, work,
        )  # fmt: skip
        return np.array(work[UPPER])

    def known_names(self, columns: FloatArray) -> FloatArray:
        """Return the names of arms as `names` does, and count nothing.

        Parameters
        ----------
        columns
            As for `names`, shape (d, K).

        Returns
        -------
        array
            Shape (K,); empty where arms have no effects.
        """
        names = np.empty(0 if self.offers is None else columns.shape[1])
        if self.offers is not None:
            write_known_names(columns, self.offers, names)
        return names

    def with_effects(self, columns: FloatArray, names: FloatArray) -> FloatArray:
        """Return the scratch of a decision, with what effects add to these arms.

        Parameters
        ----------
        columns
            The arms as columns, shape (d, K).
        names
            Their names, from `names`.

        Returns
        -------
        array
            The rows of `kernels.layout`, shape (rows, K).
        """
        work = np.empty((work_rows(names.size > 0, columns.shape[0]), columns.shape[1]))
        if names.size:
            shift_arms(columns, names, self.state.counters, work)
        return work

    def _columns(self, arms: ArrayLike) -> FloatArray:
        table = array("arms", arms, (None, self.setting.problem.dim))
        return np.ascontiguousarray(arms_in_unit_ball("arms", table).T)

    def observe(
        self,
        x: ArrayLike,
        reward: float,
        t: int,
        id: int | str | None = None,  # noqa: A002
    ) -> list[Message]:
        """Learn from a reward, and request a global update if the trigger fires.

        Parameters
        ----------
        x
            The arm that was played, shape (d,).
        reward
            Its reward, as the problem's link allows it.
        t
            The step in which it was played, t ≥ 1.
        id
            The arm's id, if `choose` was given ids.

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
        if self.offers is not None:
            column = features[:, None]
            names = self.known_names(column) if id is None else names_of([id], 1)
            features = np.append(features, self.with_effects(column, names)[NAME])
        fires = self.observe_unchecked(features, y, t)
        return [SyncRequest(self.id, t, self.adopted)] if fires else []

    def observe_unchecked(self, x: FloatArray, y: float, t: int, at: float | None = None) -> bool:
        """Learn from a sample that the caller has checked; engines and agents call this.

        Parameters
        ----------
        x, y, t
            The arm that was played (`Chosen.row`), its reward, and the step.
        at
            The time from which the sample ages; None: the step.

        Returns
        -------
        bool
            Whether the trigger fired: then the caller sends a `SyncRequest`.
        """
        self._learn(x, y, float(t if at is None else at))
        self.last_t = max(self.last_t, t)
        # The next model overwrites this step's changes; without one, nothing is lost.
        return self.triggered(t)

    def _learn(self, x: FloatArray, y: float, at: float = 0.0) -> None:
        """Append a sample and let the local update learn from it."""
        index = self.samples.append(x, y, at)
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
        state = self.state
        return self.trigger.asks(t, state.t_last, state.log_gain, state.updates, len(self.samples))
