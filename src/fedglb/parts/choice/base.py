"""The interface of choice rules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fedglb.kernels.decide import ChoiceParams
from fedglb.kernels.pointers import INDEX, address_of
from fedglb.setting import Setting
from fedglb.typing import FloatArray


class Choice(ABC):
    """A rule by which a client chooses among the arms on offer. Subclasses are frozen dataclasses.

    A rule ranks the arms by a score. The score is a kernel, so that both engines round alike; a
    tie goes to the lowest index. A rule around another rule (`Certified`, `EpsilonGreedy`) ranks
    by the score of that rule. docs/research.md shows a rule with another score.

    Examples
    --------
    A rule that ranks the arms as `Sigma` does, with a width that falls with the dimension:

    >>> import math
    >>> from dataclasses import dataclass
    >>> import fedglb as fg
    >>> from fedglb.setting import Setting
    >>> @dataclass(frozen=True)
    ... class Narrow(fg.Sigma):
    ...     def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
    ...         fixed, growing = super().constants(setting, dispersion)
    ...         return fixed / math.sqrt(setting.problem.dim), growing
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> fg.simulate(fg.fedglb_auto(choice=Narrow()), env, horizon=5).choices.shape
    (5, 2)
    """

    #: The kernel that writes the scores, with the signature `kernels.pointers.INDEX`; None: the
    #: score is the upper confidence bound.
    formula: ClassVar[Callable[..., int] | None] = None
    #: ε, the probability of an arm drawn uniformly.
    epsilon: float = 0.0

    @property
    def slack(self) -> float:
        """C: arms with U − low > C·(high − low) are not played. Infinity: all may be."""
        return math.inf

    @property
    def draws(self) -> int:
        """How many further draws estimate a propensity; −1 where the score is not random."""
        return -1

    @property
    def ranked_by(self) -> Choice:
        """The rule whose score ranks the arms: this one, or the wrapped one."""
        return self

    @property
    def needs_sets(self) -> bool:
        """Whether the choice depends on confidence sets, and not on the model alone."""
        return self.ranked_by.formula is None or self.slack < math.inf

    @property
    def randomised(self) -> bool:
        """Whether the choice depends on the stream of random numbers."""
        return self.epsilon > 0.0 or self.draws >= 0

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return the numbers that the score needs and that no sample changes.

        Only the rule that `ranked_by` names is asked.

        Parameters
        ----------
        setting
            The setting of the run.
        dispersion
            D with variance D·‖x‖²_{A⁻¹} of the prediction of an arm x.

        Returns
        -------
        tuple of float
            In the order in which `formula` reads them. None by default.
        """
        return ()

    @abstractmethod
    def caveats(self) -> tuple[str, ...]:
        """Return the limits of the proofs with this rule, one sentence each.

        Returns
        -------
        tuple of str
            Empty if all proofs of the confidence sets hold.
        """


def choice_params(
    choice: Choice,
    bounds: int,
    radius_constants: FloatArray,
    setting: Setting,
    dispersion: float,
    seed: int,
) -> ChoiceParams:
    """Return a rule as the kernel `fedglb.kernels.decide.decide` takes it.

    `bounds` is the address of the confidence's kernel of bounds; `seed` counts modulo 2⁶⁴.
    """
    formula = choice.ranked_by.formula
    return ChoiceParams(
        bounds=bounds,
        index=0 if formula is None else address_of(formula, INDEX),
        index_constants=np.array(choice.ranked_by.constants(setting, dispersion), dtype=float),
        radius_constants=radius_constants,
        with_bounds=choice.needs_sets,
        with_interval=choice.slack < math.inf,
        slack=float(choice.slack),
        epsilon=float(choice.epsilon),
        draws=choice.draws,
        key=(seed + 2**63) % 2**64 - 2**63,  # the same 64 bits as a signed number
    )
