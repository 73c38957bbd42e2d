"""Decisions of an agent: exploration, expiry, what is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.parts.choice import EpsilonGreedy

if TYPE_CHECKING:
    from fedglb.federation.agreement import Agreement

#: Which arms of a decision are kept: the chosen one, or all that were offered.
KeptArms = Literal["chosen", "offered"]
#: What `choose` does if the decision cannot be written.
OnFullDisk = Literal["raise", "choose"]
#: What a change of the schema does if samples have no records: the agent refuses it, or drops them.
WithoutRecords = Literal["refuse", "drop"]
#: What becomes of a reward that comes after the default: it replaces that, or is refused.
Late = Literal["replace", "refuse"]

_LEAST_PROPENSITY = 1e-100  # `compare` squares 1/p
LONGEST_RANKING = 100  # arms; each is a choice among those that are left


@dataclass(frozen=True)
class DecisionRules:
    """An agent's exploration, kept arms, and expiry of decisions.

    `Agent.open` documents them.
    """

    explore: float = 0.0
    expire_after: float = 30 * 86400.0
    max_pending: int = 10_000_000
    log: KeptArms = "chosen"
    on_full_disk: OnFullDisk = "raise"
    without_records: WithoutRecords = "refuse"
    strict: bool = False
    default_reward: float | None = None
    reward_after: float = 1800.0
    late: Late = "replace"

    def __post_init__(self) -> None:
        if not 0.0 <= number("explore", self.explore) <= 1.0:
            raise InvalidInput("explore", self.explore, "a share between 0 and 1")
        number("expire_after", self.expire_after, above=0.0, allow_infinite=True)
        integer("max_pending", self.max_pending)
        one_of("log", self.log, get_args(KeptArms))
        one_of("on_full_disk", self.on_full_disk, get_args(OnFullDisk))
        one_of("without_records", self.without_records, get_args(WithoutRecords))
        one_of("late", self.late, get_args(Late))
        if self.default_reward is None:
            return
        number("reward_after", self.reward_after, above=0.0)
        if self.reward_after >= self.expire_after:
            allowed = f"less than expire_after = {self.expire_after:g}: later ones have expired"
            raise InvalidInput("reward_after", self.reward_after, allowed)

    def check_default(self, agreement: Agreement) -> None:
        """Raise `InvalidInput` if the default reward is none of this agreement's."""
        if self.default_reward is None:
            return
        try:
            agreement.check_reward(self.default_reward)
        except InvalidInput as error:
            error.path = ("default_reward",)
            raise
        solver = agreement.algorithm.global_update
        if self.late == "replace" and solver is not None and not solver.refits:
            allowed = (
                f"'refuse' with {agreement.algorithm.name}, which sends each sample once: what was "
                "sent cannot be replaced"
            )
            raise InvalidInput("late", self.late, allowed)

    def applied_to(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm with `EpsilonGreedy` around its choice, if the agent explores.

        Shared models do not depend on it, so a federation need not agree on it.
        """
        if self.explore == 0.0:
            return algorithm
        if isinstance(algorithm.choice, EpsilonGreedy):
            allowed = f"0, because the algorithm itself explores by {algorithm.choice}"
            raise InvalidInput("explore", self.explore, allowed)
        return replace(algorithm, choice=EpsilonGreedy(self.explore, algorithm.choice))


@dataclass(frozen=True)
class Asked:
    """What is asked for beside the arms: `Agent.choose` and `Agent.rank` document it."""

    count: int = 1
    subject: str | None = None
    prefetch: bool = False
    played: int | None = None
    propensity: float | None = None
    explore: float | None = None

    def __post_init__(self) -> None:
        integer("count", self.count, at_most=LONGEST_RANKING)
        if self.played is None and self.propensity is not None:
            raise InvalidInput("propensity", self.propensity, "None without `played`")
        p = self.propensity
        if p is not None and not _LEAST_PROPENSITY <= number("propensity", p) <= 1.0:
            allowed = f"a probability >= {_LEAST_PROPENSITY:g} and <= 1"
            raise InvalidInput("propensity", p, allowed)
        if self.played is not None and (self.count > 1 or self.prefetch):
            allowed = "None in a ranking, and in a decision that is prefetched"
            raise InvalidInput("played", self.played, allowed)


#: One decision, made by the agent.
ONE = Asked()


@dataclass(frozen=True)
class Decision:
    """The answer of `Agent.choose`.

    Parameters
    ----------
    id
        The id for `Agent.observe`; unique, also after a crash.
    arm
        The index of the chosen arm among those offered.
    arm_id
        Its id, if `choose` got ids.
    score
        Its score, by which the algorithm's choice rule ranks arms: with `Ucb` its upper confidence
        bound, with `Bayes` the quantile.
    width
        The score minus the estimate of xᵀθ. With `Ucb` it is the confidence width, for an
        ellipsoid α‖x‖ in the norm of A⁻¹.
    propensity
        The probability of choosing this arm: 1 where nothing is random, 1/m of m equal arms, nan
        where the rule does not estimate it (`Thompson` without draws for it).
    model
        The update whose model the agent used, 0 before the first.
    propensity_error
        The standard error of `propensity`: 0 if exact, nan if unknown.
    kept
        Whether the decision is in the agent's file. If not, because the disk was full and
        `on_full_disk` is "choose", its reward is refused.
    proposed
        Where another system has decided (``choose(…, played=…)``): the index of the arm that the
        agent would have played. Else None.
    """

    id: str
    arm: int
    arm_id: str | int | None
    score: float
    width: float
    propensity: float
    model: int
    propensity_error: float = 0.0
    kept: bool = True
    proposed: int | None = None
