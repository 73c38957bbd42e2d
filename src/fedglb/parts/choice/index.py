"""Rules that rank arms by an upper bound of the prediction: `Ucb`, `Greedy`, `Sigma`, `Bayes`.

The last three add standard deviations sd(x) of an arm's prediction xᵀθ, the Laplace
approximation's: sd(x)² = D·‖x‖²_{A⁻¹}, with D the dispersion that belongs to A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from fedglb.errors import number, one_of
from fedglb.kernels.compile import kernel
from fedglb.kernels.elementary import normal_quantile
from fedglb.kernels.layout import CENTRE, INVERSE, SCORES, in_order
from fedglb.kernels.scoring import arm_bounds
from fedglb.parts.choice.base import KernelChoice
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: Which of equal scores is played.
Ties: TypeAlias = Literal["random", "first"]
#: Places in the constants: multiples of √D, of which one is fixed and one grows with t.
FIXED, GROWING = range(2)


@kernel
def multiple(t: int, constants: FloatArray) -> float:
    """Return m(t) = fixed + growing·Φ⁻¹(1 − 1/(t + 1))."""
    if constants[GROWING] == 0.0:
        return float(constants[FIXED])
    # By symmetry: 1 − 1/(t + 1) would round the tail away as t grows.
    return float(constants[FIXED] - normal_quantile(1.0 / (t + 1.0)) * constants[GROWING])


@kernel
def index_scores(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    work: FloatArray,
    factor: FloatArray,
    constants: FloatArray,
    t: int,
    key: int,
    number: int,
    client: int,
    draw: int,
) -> int:
    """Write xᵀθ + m(t)·‖x‖_{A⁻¹} of every arm x."""
    arm_bounds(arms, vectors[CENTRE], matrices[INVERSE], multiple(t, constants), work, work[SCORES])
    return 0


@dataclass(frozen=True)
class Ucb(KernelChoice):
    """Play the arm of the largest upper confidence bound, as in the paper.

    Parameters
    ----------
    ties
        Which of equal bounds: one at "random" (default), or the "first", as the presets of
        published algorithms do. The first arm flatters where data have their best arms in front.

    Raises
    ------
    InvalidInput
        If `ties` is neither.

    References
    ----------
    Li and Wang (2022), Eq. (5).

    Examples
    --------
    >>> from fedglb.parts.choice import Ucb
    >>> Ucb()
    Ucb(ties='random')
    >>> Ucb().needs_sets, Ucb().randomised, Ucb().caveats()
    (True, False, ())
    """

    stored_name = "Ucb"

    ties: Ties = "random"

    def __post_init__(self) -> None:
        one_of("ties", self.ties, get_args(Ties))

    @property
    def first_of_ties(self) -> bool:
        """Whether `ties` says so."""
        return self.ties == "first"

    def caveats(self) -> tuple[str, ...]:
        """Return nothing: the proofs of the confidence sets are for this rule."""
        return ()


@dataclass(frozen=True)
class Greedy(KernelChoice):
    """Play the arm of the largest prediction xᵀθ: no exploration but by chance.

    References
    ----------
    Bastani, Bayati and Khosravi (2021), Mostly exploration-free algorithms for contextual bandits:
    enough where the arms on offer vary enough.

    Examples
    --------
    >>> from fedglb.parts.choice import Greedy
    >>> Greedy().needs_sets
    False
    >>> Greedy().caveats()
    ('Greedy(): no bound on the regret is proven',)
    """

    stored_name = "Greedy"

    formula = staticmethod(index_scores)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return zeros."""
        return in_order({FIXED: 0.0, GROWING: 0.0})

    def caveats(self) -> tuple[str, ...]:
        """Return that nothing is proven."""
        return (f"{self}: no bound on the regret is proven",)


@dataclass(frozen=True)
class Sigma(KernelChoice):
    """Play the arm of the largest xᵀθ + c·sd(x), with sd(x) the prediction's standard deviation.

    Parameters
    ----------
    width
        c ≥ 0.

    Raises
    ------
    InvalidInput
        If `width` is not a finite number ≥ 0.

    References
    ----------
    docs/theory.md: the index is calibrated, not proven.

    Examples
    --------
    >>> from fedglb.parts.choice import Sigma
    >>> Sigma()
    Sigma(width=2.0)
    >>> Sigma(1.5).caveats()
    ('Sigma(width=1.5): the index is calibrated, not proven',)
    """

    stored_name = "Sigma"

    formula = staticmethod(index_scores)
    width: float = 2.0

    def __post_init__(self) -> None:
        number("width", self.width, at_least=0.0)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return c·√D, fixed."""
        return in_order({FIXED: self.width * math.sqrt(dispersion), GROWING: 0.0})

    def caveats(self) -> tuple[str, ...]:
        """Return that the index is not proven."""
        return (f"{self}: the index is calibrated, not proven",)


@dataclass(frozen=True)
class Bayes(KernelChoice):
    """Play the arm of the largest xᵀθ + Φ⁻¹(1 − 1/(t + 1))·sd(x), t being the step.

    It is a quantile of the approximate posterior, with nothing to tune. An agent's t is the number
    of its decision.

    References
    ----------
    Kaufmann, Cappé and Garivier (2012), On Bayesian upper confidence bounds for bandit problems:
    proven there for independent arms, not for these.

    Examples
    --------
    >>> from fedglb.parts.choice import Bayes
    >>> Bayes().needs_sets
    False
    >>> Bayes().caveats()
    ('Bayes(): the index is calibrated, not proven',)
    """

    stored_name = "Bayes"

    formula = staticmethod(index_scores)

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return √D, growing with t."""
        return in_order({FIXED: 0.0, GROWING: math.sqrt(dispersion)})

    def caveats(self) -> tuple[str, ...]:
        """Return that the index is not proven."""
        return (f"{self}: the index is calibrated, not proven",)
