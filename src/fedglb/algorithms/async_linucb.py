"""Async-LinUCB (Li and Wang, AISTATS 2022): federated linear bandits without waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SIMULATED, documented
from fedglb.algorithms.exchange import Exchange
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, in_order
from fedglb.kernels.linalg import log_det
from fedglb.links import Identity
from fedglb.model import SharedModel
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import Confidence, ConfidenceLike
from fedglb.parts.local_update.base import Counter
from fedglb.parts.local_update.ridge import LinearModel, RidgeState, adopt_sums, ridge_step
from fedglb.parts.trigger import Growth
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: A place in `counters`, behind those of every state.
LOG_RATIO = 3


@dataclass
class AsyncRidgeState(RidgeState):
    """State of a client whose uploads need not bring a model: its gain restarts at each."""

    #: log(det A/λ^d) at the last upload or model, whatever was later: with `log_gain`, that of A
    log_ratio = Counter(LOG_RATIO)


@dataclass(frozen=True)
class AsyncRidge(LinearModel[AsyncRidgeState]):
    """Ridge regression, exact after every sample, with the gain since the last upload.

    Li and Wang (AISTATS 2022), Async-LinUCB; docs/theory.md, section 9.1.
    """

    stored_name = "AsyncRidge"

    state_type = AsyncRidgeState
    step = staticmethod(ridge_step)

    def adopt(self, setting: Setting, state: AsyncRidgeState, model: SharedModel) -> None:
        """Take over A_t and b_t, and the determinant; θ and the centre are A⁻¹b."""
        adopt_sums(state, model)
        state.log_ratio = log_det(model.matrix) - setting.problem.dim * math.log(setting.ridge)

    def uploaded(self, state: AsyncRidgeState) -> None:
        """Restart the gain; det A stays known."""
        state.log_ratio += state.log_gain
        super().uploaded(state)


#: Places in the constants of `async_formula`: R, 2 log(1/δ) and √λ·S.
NOISE, TAIL, PRIOR = range(3)


@kernel
def async_formula(
    vectors: FloatArray, counters: FloatArray, radius_terms: FloatArray, constants: FloatArray
) -> float:
    """R√(log(det A/λ^d) + 2 log(1/δ)) + √λ·S, with the A that the client holds."""
    log_ratio = max(counters[LOG_RATIO] + counters[LOG_GAIN], 0.0)
    return float(constants[NOISE] * math.sqrt(log_ratio + constants[TAIL]) + constants[PRIOR])


@dataclass(frozen=True)
class AsyncLinUCB(Confidence[AsyncRidgeState]):
    """The radius of Async-LinUCB, for the identity link.

    α = R√(log(det A/λ^d) + 2 log(1/δ)) + √λS, where A is the client's: its own samples and those
    received.

    Li and Wang (AISTATS 2022), Async-LinUCB. The printed text was not at hand; the authors' program
    has d log(1 + n/(dλ)) instead of the determinants, which is never less. docs/theory.md,
    section 9.1, has the proof.
    """

    stored_name = "AsyncLinUCB"

    state_type = AsyncRidgeState
    formula = staticmethod(async_formula)

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return the limits of the proof: nothing is proven for other links than the identity."""
        if isinstance(problem.link, Identity):
            what = "Async-LinUCB's radius is proven for one client"
            return (f"{what}: docs/theory.md, section 9.1, has a radius that is proven for all",)
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return R, 2 log(1/δ) and √λ·S."""
        problem = setting.problem
        return in_order({
            NOISE: problem.R, TAIL: -2.0 * math.log(setting.delta),
            PRIOR: math.sqrt(setting.ridge) * problem.S,
        })  # fmt: skip


@documented(
    returns=SIMULATED,
    threshold=(
        "C ≥ 0: a client uploads once its own samples since its last upload raise det A by more "
        "than the factor 1 + C; infinity: never. 1 + C is the paper's γ_U: 1, 2, 5, 8 and infinity "
        "in the authors' program."
    ),
    download=(
        "C ≥ 0: a client receives the sums once their determinant exceeds its own by more than "
        "the factor 1 + C, the paper's γ_D; infinity: never. None (default): as `threshold`, as in "
        "the authors' program."
    ),
    exploration=(
        "Multiplies the radius of the confidence ellipsoid; 1 (default) is the paper's "
        "radius. It does not multiply `Fixed`."
    ),
    delta="δ of the radius, in (0, 1): the failure probability of one client's set.",
    radius="the paper's, `AsyncLinUCB`",
)
def async_linucb(
    threshold: float,
    download: float | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """Async-LinUCB: a client uploads its sums; clients that lag behind receive all sums.

    A client plays by ridge regression on its own samples and those received. It uploads Σ x xᵀ
    and Σ x y over its samples since its last upload. After each upload the coordinator sends its
    sums to every client that lacks enough of them; the uploading client keeps its model. The model
    is linear whatever the problem's link.

    References
    ----------
    Li and Wang (2022), *Asynchronous upper confidence bound algorithms for federated linear
    bandits*, AISTATS; docs/theory.md, section 9.1.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3, link=fg.Identity()), clients=4, arms=5)
    >>> every, fewer = fg.compare([fg.async_linucb(0.5), fg.async_linucb(0.5, 4.0)], env, 50)
    >>> every.transfers == 4 * every.syncs  # one up, and one down to each of the others
    True
    >>> fewer.transfers < 4 * fewer.syncs
    True
    """
    trigger = Growth(threshold)  # first: if both are invalid, name `threshold`
    return Algorithm(
        name="Async-LinUCB",
        local_update=AsyncRidge(),
        global_update=Exchange(threshold if download is None else download),
        trigger=trigger,
        confidence=AsyncLinUCB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
