"""The problem: the known facts about the rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedglb.errors import InvalidInput, instance, integer, number
from fedglb.kernels.ball import projection
from fedglb.links import LINKS, Link, Logistic
from fedglb.links.base import check_link
from fedglb.typing import IntArray


@dataclass(frozen=True)
class Problem:
    """A generalized linear bandit problem: E[y|x] = μ(xᵀθ*), ‖x‖ ≤ 1, ‖θ*‖ ≤ S.

    Parameters
    ----------
    dim
        Number d of features of an arm.
    link
        The GLM family.
    radius
        S, the bound on ‖θ*‖.
    noise
        R, the sub-Gaussian parameter of the rewards; None: the link's own (1/2 for logistic and
        probit, 1 for identity). The Poisson link has none: algorithms whose radii need R refuse a
        Poisson problem without `noise`; `fedglb_auto`, `fedglb_mix` and `fedglb_private` do not.
    curvature
        c_μ; None: the infimum of μ′ on [−S, S], which the proofs need. The infimum gets tiny
        for large S (logistic, S = 10: 4.5e-5), and every proven radius grows with 1/c_μ. A
        larger c_μ is allowed, but then no coverage is proven.
    blocks
        The sizes of blocks of features, in their order: `Evidence` chooses a ridge for each of
        them, where clients learn by `Calibrated` (as in `fedglb_auto`). None: one block.

    Raises
    ------
    InvalidInput
        If a value is outside its range; or if the functions of a custom link are not each other's
        derivatives.

    References
    ----------
    Li and Wang (2022), Section 3.3: the model is Eq. (1), c_μ and k_μ are from Assumption 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> problem = fg.Problem(dim=10, link=fg.Logistic(), radius=1.0)
    >>> problem.R, round(problem.c_mu, 4), problem.k_mu
    (0.5, 0.1966, 0.25)
    """

    stored_name = "Problem"

    dim: int
    link: Link = field(default_factory=Logistic)
    radius: float = 1.0
    noise: float | None = None
    curvature: float | None = None
    blocks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        integer("dim", self.dim)
        if self.blocks is not None:
            object.__setattr__(self, "blocks", tuple(self.blocks))
            for k, size in enumerate(self.blocks):
                integer(f"blocks[{k}]", size)
            if sum(self.blocks) != self.dim:
                raise InvalidInput("sum(blocks)", sum(self.blocks), f"dim = {self.dim}")
        instance("link", self.link, Link, "fg.Logistic()")
        number("radius", self.radius, above=0.0)
        if type(self.link) not in LINKS.values():  # those are tested
            check_link(type(self.link), float(self.radius))
        if self.noise is not None:
            number("noise", self.noise, above=0.0)
        if self.curvature is not None:
            number("curvature", self.curvature, above=0.0)
        elif not self.link.c_mu(self.radius) > 0.0:
            raise InvalidInput(
                "curvature",
                None,
                f"a number > 0: the infimum of the {self.link.name} link's slope on "
                f"[-{self.radius:g}, {self.radius:g}] underflows to 0",
            )

    @property
    def S(self) -> float:
        """Bound on ‖θ*‖."""
        return float(self.radius)

    @cached_property
    def R(self) -> float:
        """Sub-Gaussian parameter of the rewards; nan: unknown."""
        value = self.link.default_noise if self.noise is None else self.noise
        return math.nan if value is None else float(value)

    @cached_property
    def c_mu(self) -> float:
        """c_μ, the curvature that the algorithms use: `curvature`, or else `slope_infimum`."""
        return self.slope_infimum if self.curvature is None else float(self.curvature)

    @cached_property
    def slope_infimum(self) -> float:
        """The infimum of μ′ on [−S, S], whatever `curvature` is, for certificates."""
        return float(self.link.c_mu(self.S))

    @cached_property
    def k_mu(self) -> float:
        """k_μ, the supremum of μ′ on [−S, S]."""
        return float(self.link.k_mu(self.S))

    @cached_property
    def dispersion(self) -> float:
        """The dispersion φ: the loss over φ is a negative log-likelihood; R² for identity."""
        return self.link.dispersion(self.R)

    def __getstate__(self) -> dict[str, object]:
        # addresses are only valid in this process
        return {name: value for name, value in vars(self).items() if name != "functions"}

    @cached_property
    def functions(self) -> IntArray:
        """Addresses for kernels: the link's, and PROJECTION of `kernels.layout`."""
        return np.append(self.link.compiled_functions, projection(self.dim))

    @property
    def provable(self) -> bool:
        """Whether radii are proven for this problem: sub-Gaussian noise, a true curvature."""
        return self.link.sub_gaussian and self.c_mu <= self.slope_infimum

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of the proofs for this problem."""
        notes = self.link.caveats
        if self.c_mu > self.slope_infimum:
            notes += (
                f"curvature {self.c_mu:g} exceeds the link's infimum {self.slope_infimum:g} "
                "on the ball: no coverage is proven",
            )
        return notes

    def check_reward(self, reward: float, argument: str = "reward") -> float:
        """Check a reward and return it as a float.

        Parameters
        ----------
        reward
            The reward.
        argument
            Its name in error messages.

        Returns
        -------
        float
            The reward.

        Raises
        ------
        InvalidInput
            If it is not a finite number within the link's support.

        Examples
        --------
        >>> import fedglb as fg
        >>> fg.Problem(dim=2).check_reward(1)
        1.0
        """
        y = number(argument, reward)
        low, high = self.link.support
        if not low <= y <= high:
            raise InvalidInput(
                argument,
                reward,
                f"a reward in [{low:g}, {high:g}], the range of the {self.link.name} link",
            )
        return y
