"""FedLinUCB (He et al., 2022): federated linear bandits without a common clock."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SIMULATED, documented
from fedglb.algorithms.exchange import Exchange
from fedglb.errors import InvalidInput, number
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import LOG_GAIN, UPDATES
from fedglb.kernels.linalg import add_sample
from fedglb.links import Identity
from fedglb.model import SharedModel
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import Confidence, ConfidenceLike
from fedglb.parts.confidence.fixed import constant_radius
from fedglb.parts.local_update.base import LocalState, Matrix, Vector, adopt_matrix, recentre
from fedglb.parts.local_update.ridge import LinearModel
from fedglb.parts.trigger import Growth
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray, IntArray

#: Places in `vectors` and `matrices`, behind those of every state.
DIRECTION = 2
AHEAD, AHEAD_INVERSE = 2, 3


@kernel
def follow_gain(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Add the last row of X to the trigger's matrix; A, for choices, stays."""
    n, count = X.shape[0] - 1, int(counters[UPDATES])
    counters[LOG_GAIN] += add_sample(
        matrices[AHEAD], matrices[AHEAD_INVERSE], X[n], 1.0, count, vectors[DIRECTION]
    )
    counters[UPDATES] += 1.0
    return 0


@dataclass
class FrozenRidgeState(LocalState):
    """State of a client that plays θ = A⁻¹b of its last model; A and b stay until the next."""

    direction = Vector(DIRECTION)  # the last sample times `ahead_inverse`
    #: A with the client's own samples since the last model, and its inverse, shape (d, d)
    ahead = Matrix(AHEAD)
    ahead_inverse = Matrix(AHEAD_INVERSE)


@dataclass(frozen=True)
class FrozenRidge(LinearModel[FrozenRidgeState]):
    """Keep θ and A of the last model; track how own samples would raise det A.

    He et al. (2022), Algorithm 1 (FedLinUCB); docs/theory.md, section 9.1.
    """

    stored_name = "FrozenRidge"

    state_type = FrozenRidgeState
    step = staticmethod(follow_gain)

    def begin(self, setting: Setting) -> FrozenRidgeState:
        """Return the state before any sample."""
        state = super().begin(setting)
        _look_ahead(state)
        return state

    def adopt(self, setting: Setting, state: FrozenRidgeState, model: SharedModel) -> None:
        """Take over A_t and b_t; θ and the centre are A⁻¹b."""
        assert model.b is not None
        adopt_matrix(state, model)
        recentre(state, model.b)
        state.theta[:] = state.centre
        state.direction[:] = 0.0
        _look_ahead(state)


def _look_ahead(state: FrozenRidgeState) -> None:
    """Start the trigger's matrix at A."""
    state.ahead[:] = state.matrix
    state.ahead_inverse[:] = state.inverse


@dataclass(frozen=True)
class FedLinUCB(Confidence[FrozenRidgeState]):
    """The radius of FedLinUCB, for the identity link.

    β = √λS + (√(1 + NC) + N√(2C))·(R√(d log((1 + T/(min(C, 1)λ))/δ)) + √λS), with C of the
    trigger, and T the interactions of all clients together.

    He et al. (2022), Theorem 5.1, with L = 1; the constant is written down from memory and not
    checked against the printed text: docs/theory.md, section 9.1, derives it with its failure
    probability.
    """

    stored_name = "FedLinUCB"

    state_type = FrozenRidgeState
    formula = staticmethod(constant_radius)
    threshold: float  # C > 0 of the trigger `Growth`

    def __post_init__(self) -> None:
        number(
            "threshold", self.threshold, above=0.0,
            allowed="a finite number C > 0, or another radius, e.g. confidence=fg.Fixed(0.5)",
        )  # fmt: skip

    def caveats(self, problem: Problem) -> tuple[str, ...]:
        """Return the limits of the proof: nothing is proven for other links than the identity."""
        if isinstance(problem.link, Identity):
            what = "FedLinUCB's radius has no union over clients and their exchanges"
            return (f"{what}: docs/theory.md, section 9.1, has the cases in which it is proven",)
        return (f"a linear model of {problem.link.name} rewards: no coverage is claimed",)

    def constants(self, setting: Setting) -> tuple[float, ...]:
        """Return β."""
        if setting.horizon is None:
            allowed = "the number of steps T, for the radius of FedLinUCB"
            raise InvalidInput("horizon", None, allowed)
        problem, N, C = setting.problem, setting.clients, self.threshold
        T = N * setting.horizon
        prior = math.sqrt(setting.ridge) * problem.S
        depth = math.log1p(T / (min(C, 1.0) * setting.ridge)) - math.log(setting.delta)
        noise = problem.R * math.sqrt(problem.dim * depth)
        spread = math.sqrt(1.0 + N * C) + N * math.sqrt(2.0 * C)
        return (prior + spread * (noise + prior),)


@documented(
    returns=SIMULATED,
    threshold=(
        "C > 0: a client exchanges sums once its own samples since the last exchange raise det Σ "
        "by more than the factor 1 + C. The paper's α: 1/N² in its theory, 1 in its experiments."
    ),
    exploration=(
        "Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius, "
        "which is large. It does not multiply `Fixed`; the paper's experiments have "
        "``fg.Fixed(0.5)``."
    ),
    radius="the paper's, `FedLinUCB`",
)
def fedlinucb(
    threshold: float,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """FedLinUCB: a client with enough new samples exchanges sums with the coordinator.

    It uploads Σ x xᵀ and Σ x y over its samples since its last exchange, and downloads the sums of
    all uploads so far. Until the next exchange it plays by these; its own newer samples wait. The
    model is linear whatever the problem's link.

    References
    ----------
    He, Wang, Min and Gu (2022), *A simple and provably efficient algorithm for asynchronous
    federated contextual linear bandits*, NeurIPS, Algorithm 1; docs/theory.md, section 9.1.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3, link=fg.Identity()), clients=4, arms=5)
    >>> run = fg.simulate(fg.fedlinucb(1.0, confidence=fg.Fixed(0.5)), env, horizon=50, seed=1)
    >>> run.transfers == 2 * run.syncs
    True
    """
    return Algorithm(
        name="FedLinUCB",
        local_update=FrozenRidge(),
        global_update=Exchange(),
        trigger=Growth(threshold),
        confidence=FedLinUCB(threshold) if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
