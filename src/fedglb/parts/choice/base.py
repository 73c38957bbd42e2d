"""The interface of choice rules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, cast

import numpy as np

from fedglb.kernels.decide import ChoiceParams
from fedglb.kernels.pointers import INDEX, address_of
from fedglb.parts.choice.own import FIRST, KNOWN, MODEL, SCORE, Model, index_of
from fedglb.parts.own import Code, method
from fedglb.setting import Setting
from fedglb.typing import FloatArray


class Choice(ABC):
    """A rule by which a client chooses among the arms on offer. Subclasses are frozen dataclasses.

    A rule ranks the arms by `score`; one of equal scores is drawn, each with the same probability.
    A rule around another rule (`Bank`, `EpsilonGreedy`) ranks by the score of that rule. Where a
    rule is expected, a plain function of any of `arms`, `mean`, `sd`, `theta`, `covariance` and `t`
    is one (docs/own_parts.md).

    Examples
    --------
    The largest prediction plus `scale`·√log(1 + t) of its standard deviations:

    >>> import math
    >>> from dataclasses import dataclass
    >>> import fedglb as fg
    >>> from fedglb.parts.choice import Model
    >>> from fedglb.typing import FloatArray
    >>> @dataclass(frozen=True)
    ... class Growing(fg.Choice):
    ...     scale: float
    ...
    ...     def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
    ...         return model.mean + self.scale * math.sqrt(math.log(1 + t)) * model.sd
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=4)
    >>> run = fg.simulate(fg.fedglb_auto(choice=Growing(0.5)), env, horizon=5)
    >>> run.choices.shape, run.caveats[-1]
    ((5, 2), 'Growing(scale=0.5): nothing is proven')

    Without parameters, a function is enough:

    >>> rule = lambda mean, sd, t: mean + 0.5 * math.sqrt(math.log(1 + t)) * sd
    >>> same = fg.simulate(fg.fedglb_auto(choice=rule), env, horizon=5)
    >>> (same.choices == run.choices).all(), same.caveats[-1]
    (np.True_, '<lambda>: nothing is proven')
    """

    #: ε, the probability of an arm drawn uniformly.
    epsilon: float = 0.0

    def __repr__(self) -> str:  # of a rule that is no dataclass: no address in results
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    @property
    def first_of_ties(self) -> bool:
        """Whether the first of equal scores is played, and not one of them at random."""
        return False

    @property
    def bank(self) -> tuple[float, float] | None:
        """C and G of the bank (see `Bank`) that limits what is played; None: nothing does."""
        return None

    @property
    def draws(self) -> int:
        """How many further draws estimate a propensity; −1 where the score is not random."""
        return -1

    @property
    def logged_draws(self) -> int:
        """The same where decisions are logged, in agents."""
        return self.draws

    @property
    def ranked_by(self) -> Choice:
        """The rule whose score ranks the arms: this one, or the wrapped one."""
        return self

    @property
    def has_score(self) -> bool:
        """Whether `score` ranks the arms, and not a kernel of the package."""
        return True

    @property
    def code(self) -> Code:
        """The score for kernels, if `has_score`."""
        call = f"{type(self).__name__}.score(arms, model, t)"
        return method(SCORE, self, "score", call, (KNOWN["arms"], MODEL, "t"), FIRST)

    @property
    def needs_sets(self) -> bool:
        """Whether the choice depends on confidence sets, and not on the model alone."""
        return self.bank is not None

    @property
    def randomised(self) -> bool:
        """Whether the choice depends on the stream of random numbers, also without ties."""
        return self.epsilon > 0.0 or self.draws >= 0

    @abstractmethod
    def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
        """Return a score per arm: the largest one is played.

        It depends on its arguments and on the rule's fields alone, and may change the arrays.
        numba compiles it, if it can; if not, it runs as plain Python, and a warning says so
        (docs/own_parts.md).

        Parameters
        ----------
        arms
            The arms on offer, shape (K, d).
        model
            The client's model: `theta` (d,) and its `covariance` (d, d); the `mean` xᵀθ of each arm
            x and its standard deviation `sd`, both (K,).
        t
            The step, from 1. An agent's t is the number of its decision.

        Returns
        -------
        array
            Finite floats, shape (K,). The first call of a run checks this in plain Python, and
            that the compiled function returns the same; all later calls are checked, too.
        """

    def caveats(self) -> tuple[str, ...]:
        """Return the limits of the proofs with this rule, one sentence each.

        Returns
        -------
        tuple of str
            By default that nothing is proven; empty if all proofs of the confidence sets hold.
        """
        return (f"{self}: nothing is proven",)


class KernelChoice(Choice):
    """A rule of the package, which a kernel scores: it costs less than `score`."""

    #: The kernel that writes the scores, with the signature `kernels.pointers.INDEX`; None: the
    #: score is the upper confidence bound.
    formula: ClassVar[Callable[..., int] | None] = None

    @property
    def has_score(self) -> bool:
        """Whether a subclass has its own `score`."""
        return type(self).score is not KernelChoice.score

    @property
    def needs_sets(self) -> bool:
        """Whether the choice depends on confidence sets, and not on the model alone."""
        ranked = self.ranked_by
        by_bound = not ranked.has_score and cast("KernelChoice", ranked).formula is None
        return by_bound or self.bank is not None

    def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
        """Raise: the kernel scores."""
        raise NotImplementedError(f"{self} is scored by a kernel: subclass fg.Choice")

    def constants(self, setting: Setting, dispersion: float) -> tuple[float, ...]:
        """Return the numbers that the kernel needs and that no sample changes.

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
        """Return the limits of the proofs with this rule, one sentence each."""


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
    index, constants = _index(choice.ranked_by, setting, dispersion)
    factor, credit = choice.bank or (1.0, math.inf)
    return ChoiceParams(
        bounds=bounds,
        index=index,
        index_constants=np.array(constants, dtype=float),
        radius_constants=radius_constants,
        with_bounds=choice.needs_sets,
        with_interval=choice.bank is not None,
        factor=float(factor),
        credit=float(credit),
        first_of_ties=choice.first_of_ties,
        epsilon=float(choice.epsilon),
        draws=choice.draws,
        key=(seed + 2**63) % 2**64 - 2**63,  # the same 64 bits as a signed number
    )


def _index(rule: Choice, setting: Setting, dispersion: float) -> tuple[int, tuple[float, ...]]:
    """Return the address of the kernel of scores, 0 for the upper bounds, and its constants."""
    if rule.has_score:
        return index_of(rule, dispersion)
    built_in = cast("KernelChoice", rule)
    formula, constants = built_in.formula, built_in.constants(setting, dispersion)
    return 0 if formula is None else address_of(formula, INDEX), constants
