"""A link: the GLM family, which ties an arm's z = xᵀθ to the distribution of its reward."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import kernel
from fedglb.kernels.elementary import normal_quantile
from fedglb.kernels.pointers import (
    DERIVATIVES,
    ScalarFunction,
    address_of,
    call3,
    compile_scalar,
    why_not_compiled,
)
from fedglb.kernels.sums import map1, one_by_one
from fedglb.typing import FloatArray, IntArray


def bernoulli(mean: float, u: float, noise: float) -> float:
    """Return 1 with probability `mean`, else 0, from one uniform u."""
    return 1.0 if u < mean else 0.0


def gaussian(mean: float, u: float, noise: float) -> float:
    """Return a Gaussian reward of standard deviation `noise`, from one uniform u."""
    return mean + noise * normal_quantile(u)


@kernel
def _map_sample(function: int, mean: FloatArray, u: FloatArray, noise: float) -> FloatArray:
    out = np.empty(mean.shape[0])
    for k in range(mean.shape[0]):
        out[k] = call3(function, mean[k], u[k], noise)
    return out


class Link(ABC):
    """Base of all links. A custom link is a subclass with three scalar functions.

    The loss of a sample is l(z, y) = m(z) − y z, with z = xᵀθ.

    Attributes
    ----------
    name
        Name on the command line and in results.
    support
        Smallest and largest reward.
    default_noise
        Sub-Gaussian parameter R of the rewards; None: algorithms that need it ask the caller.
    sub_gaussian
        Whether the rewards have such a parameter at all. False: nothing is proven, whatever
        `noise` is given.
    likelihood
        Whether the loss is a negative log-likelihood (or bounds one) with μ‴ ≤ μ′: what
        `fedglb.parts.confidence.Mixture` rests on. False by default.
    caveats
        What is not proven with this link, one sentence each; it goes into every result.

    Notes
    -----
    A subclass has the static functions `scalar_cumulant`, `scalar_mean` and `scalar_variance` of
    one float z: the cumulant m, the mean μ = m′ and its derivative μ′. They are compiled, so they
    use `math` only, and they must be safe for |z| ≤ 700. `Problem` checks by differences, on
    [−S, S], that they are each other's derivatives.

    It may override `scalar_sampler` (by default rewards are Bernoulli where `support` is (0, 1)
    and Gaussian where it is the whole line), `k_mu` and `c_mu` (by default a fine search),
    `self_concordance` and `dispersion`. A kernel `derivatives`, which
    has μ and μ′ of many z at once with the bits of the scalar functions, makes global updates
    faster.

    References
    ----------
    Li and Wang (2022), Eq. (1) and Assumption 1; docs/theory.md, section 1.

    Examples
    --------
    >>> import math
    >>> import fedglb as fg
    >>> class Hyperbolic(fg.Link):
    ...     name = "hyperbolic"
    ...     support = (0.0, 1.0)
    ...     default_noise = 0.5
    ...     @staticmethod
    ...     def scalar_cumulant(z: float) -> float:
    ...         return 0.5 * (z + math.sqrt(1.0 + z * z))
    ...     @staticmethod
    ...     def scalar_mean(z: float) -> float:
    ...         return 0.5 * (1.0 + z / math.sqrt(1.0 + z * z))
    ...     @staticmethod
    ...     def scalar_variance(z: float) -> float:
    ...         return 0.5 / math.pow(1.0 + z * z, 1.5)
    >>> link = Hyperbolic()
    >>> link.mean(0.0), round(link.c_mu(1.0), 4), round(link.k_mu(1.0), 4)
    (0.5, 0.1768, 0.5)
    """

    name: ClassVar[str]
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    default_noise: ClassVar[float | None] = None
    sub_gaussian: ClassVar[bool] = True
    likelihood: ClassVar[bool] = False
    #: Limits of the proofs with this link, for every result.
    caveats: ClassVar[tuple[str, ...]] = ()
    #: The kernel that computes μ and μ′ of many z, with the signature
    #: `kernels.pointers.DERIVATIVES`.
    derivatives: ClassVar[Callable[..., int]] = staticmethod(one_by_one)

    @staticmethod
    @abstractmethod
    def scalar_cumulant(z: float) -> float:
        """Return the cumulant m(z). It is compiled.

        Parameters
        ----------
        z
            xᵀθ of an arm x.

        Returns
        -------
        float
            m(z).
        """

    @staticmethod
    @abstractmethod
    def scalar_mean(z: float) -> float:
        """Return the mean reward μ(z) = m′(z). It is compiled.

        Parameters
        ----------
        z
            xᵀθ of an arm x.

        Returns
        -------
        float
            μ(z).
        """

    @staticmethod
    @abstractmethod
    def scalar_variance(z: float) -> float:
        """Return the derivative μ′(z). It is compiled.

        Parameters
        ----------
        z
            xᵀθ of an arm x.

        Returns
        -------
        float
            μ′(z), positive up to rounding.
        """

    def scalar_sampler(self) -> Callable[[float, float, float], float]:
        """Return a function (mean, u, noise) → reward, from one uniform u; it is compiled.

        Raises
        ------
        InvalidInput
            If a subclass has neither of the two supports above and does not override this.
        """
        if self.support == (0.0, 1.0):
            return bernoulli
        if self.support == (-math.inf, math.inf):
            return gaussian
        raise InvalidInput(
            f"{type(self).__name__}.scalar_sampler",
            None,
            "a method that returns a function (mean, u, noise) -> reward, for a link whose "
            "support is neither (0, 1) nor the whole line",
        )

    # -- the compiled scalar functions; kernels take their addresses -----------------------

    @cached_property
    def compiled_cumulant(self) -> ScalarFunction:
        """The cumulant m, compiled."""
        return compile_scalar(type(self).scalar_cumulant, 1)

    @cached_property
    def compiled_mean(self) -> ScalarFunction:
        """The mean μ, compiled."""
        return compile_scalar(type(self).scalar_mean, 1)

    @cached_property
    def compiled_variance(self) -> ScalarFunction:
        """The derivative μ′, compiled."""
        return compile_scalar(type(self).scalar_variance, 1)

    @cached_property
    def compiled_functions(self) -> IntArray:
        """Addresses for kernels: MEAN, VARIANCE, CUMULANT and DERIVATIVES of `kernels.layout`."""
        every = (self.compiled_mean, self.compiled_variance, self.compiled_cumulant)
        scalar = [function.address for function in every]
        return np.array([*scalar, address_of(self._derivatives(), DERIVATIVES)], dtype=np.int64)

    def _derivatives(self) -> Callable[..., int]:
        """Return `derivatives` of the class that defines the scalar functions, if it has one.

        A subclass with another mean must not inherit this.
        """
        names = {"derivatives", "scalar_mean", "scalar_variance"}
        owner = next(kind for kind in type(self).__mro__ if names & vars(kind).keys())
        return type(self).derivatives if "derivatives" in vars(owner) else one_by_one

    @cached_property
    def compiled_sample(self) -> ScalarFunction:
        """The sampler, compiled: a reward from a mean and one uniform."""
        return compile_scalar(self.scalar_sampler(), 3)

    # -- what people call ---------------------------------------------------------------------

    @overload
    def mean(self, z: float) -> float: ...
    @overload
    def mean(self, z: FloatArray) -> FloatArray: ...
    def mean(self, z: ArrayLike) -> float | FloatArray:
        """Return the mean reward μ(z), element by element.

        Parameters
        ----------
        z
            A number or an array.

        Returns
        -------
        float or array
            μ(z), of the shape of `z`.
        """
        return _elementwise(self.compiled_mean, z)

    @overload
    def variance(self, z: float) -> float: ...
    @overload
    def variance(self, z: FloatArray) -> FloatArray: ...
    def variance(self, z: ArrayLike) -> float | FloatArray:
        """Return the derivative μ′(z), element by element.

        Parameters
        ----------
        z
            A number or an array.

        Returns
        -------
        float or array
            μ′(z), of the shape of `z`.
        """
        return _elementwise(self.compiled_variance, z)

    @overload
    def cumulant(self, z: float) -> float: ...
    @overload
    def cumulant(self, z: FloatArray) -> FloatArray: ...
    def cumulant(self, z: ArrayLike) -> float | FloatArray:
        """Return the cumulant m(z), element by element.

        Parameters
        ----------
        z
            A number or an array.

        Returns
        -------
        float or array
            m(z), of the shape of `z`.
        """
        return _elementwise(self.compiled_cumulant, z)

    @overload
    def loss(self, z: float, y: float) -> float: ...
    @overload
    def loss(self, z: FloatArray, y: ArrayLike) -> FloatArray: ...
    def loss(self, z: ArrayLike, y: ArrayLike) -> float | FloatArray:
        """Return the negative log-likelihood l(z, y) = m(z) − y z (up to a constant in y).

        Parameters
        ----------
        z
            A number or an array.
        y
            Rewards.

        Returns
        -------
        float or array
            Of the shape to which `z` and `y` broadcast.
        """
        m = _elementwise(self.compiled_cumulant, z)
        out = m - np.asarray(y) * np.asarray(z)
        return float(out) if np.ndim(out) == 0 else out

    def sample(
        self, mean: ArrayLike, u: ArrayLike, noise: float | None = None
    ) -> float | FloatArray:
        """Return rewards with these means, element by element.

        Parameters
        ----------
        mean
            Mean rewards.
        u
            Uniforms in [0, 1), one per reward; the same u gives the same reward.
        noise
            R, the standard deviation of Gaussian rewards; None: `default_noise`. Other links
            do not use it.

        Returns
        -------
        float or array
            Of the shape to which `mean` and `u` broadcast.
        """
        scale = self.default_noise if noise is None else noise
        scale = math.nan if scale is None else scale
        if np.ndim(mean) == 0 and np.ndim(u) == 0:
            return self.compiled_sample.call(float(mean), float(u), scale)  # type: ignore[arg-type]
        means, uniforms = np.broadcast_arrays(
            np.asarray(mean, dtype=np.float64), np.asarray(u, dtype=np.float64)
        )
        flat = _map_sample(self.compiled_sample.address, means.flatten(), uniforms.flatten(), scale)
        return flat.reshape(means.shape)

    # -- constants ---------------------------------------------------------------------------

    def k_mu(self, radius: float) -> float:
        """Return the largest slope of the mean, sup μ′ over |z| ≤ radius.

        By a fine search; override it where it is known.

        Parameters
        ----------
        radius
            ρ ≥ 0; in a problem it is S.

        Returns
        -------
        float
            k_ρ; k_μ for ρ = S.

        References
        ----------
        Li and Wang (2022), Assumption 1; docs/theory.md, section 1.
        """
        return -_search(lambda z: -self.variance(z), radius)

    def c_mu(self, radius: float) -> float:
        """Return the smallest slope of the mean, inf μ′ over |z| ≤ radius.

        By a fine search; override it where it is known.

        Parameters
        ----------
        radius
            ρ ≥ 0; in a problem it is S.

        Returns
        -------
        float
            c_ρ; c_μ for ρ = S.

        References
        ----------
        Li and Wang (2022), Assumption 1; docs/theory.md, section 1.
        """
        return _search(self.variance, radius)

    def self_concordance(self, radius: float) -> float | None:
        """Return the least known s with |μ″| ≤ s μ′ on |z| ≤ radius, or None if none is known.

        With it there are tight certificates for Newton's steps and the exact MLE (docs/theory.md,
        sections 3 to 5), and the sets of section 7; without it there are looser certificates, which
        need `c_mu` only.

        Parameters
        ----------
        radius
            ρ ≥ 0; it may be infinite.

        Returns
        -------
        float or None
            s; None by default.
        """
        return None

    def dispersion(self, noise: float) -> float:
        """Return the dispersion φ: the loss over φ is a negative log-likelihood; 1 by default.

        Parameters
        ----------
        noise
            R.

        Returns
        -------
        float
            The factor.
        """
        return 1.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(type(self))

    def __getstate__(self) -> dict[str, Any]:
        # a compiled function has an address, which means nothing in another process
        return {k: v for k, v in vars(self).items() if not k.startswith("compiled_")}


#: Where links are checked, as shares of the radius: not round, so that no kink of a link is there.
_PLACES = 2.0 * (np.arange(1, 41) * 0.6180339887498949 % 1.0) - 1.0
#: The step of central differences, near ε^{1/3}, and how far they may be from a derivative. Their
#: own errors are of the order of 1e-10: μ‴ h²/6, and rounding ε|f|/h.
_STEP, _RELATIVE, _ABSOLUTE = 1e-5, 1e-4, 1e-8


@functools.cache
def check_link(kind: type[Link], radius: float) -> None:
    """Raise unless, on |z| ≤ radius, m′ = μ and (μ)′ = μ′ by central differences.

    Nothing else would notice: a wrong μ or μ′ gives another model, or sets that do not cover.
    """
    names = ("scalar_cumulant", "scalar_mean", "scalar_variance")
    functions = [_compiled_part(kind, name) for name in names]
    z = radius * _PLACES
    h = _STEP * np.maximum(1.0, np.abs(z))
    wrong = []
    for (name, f), (other, derivative) in pairwise(zip(names, functions, strict=True)):
        up, down, claimed = (
            np.asarray(_elementwise(g, at))
            for g, at in ((f, z + h), (f, z - h), (derivative, z))
        )  # fmt: skip
        with np.errstate(invalid="ignore"):
            slope = (up - down) / ((z + h) - (z - h))
            allowed = _RELATIVE * np.maximum(np.abs(slope), np.abs(claimed))
            excess = np.abs(slope - claimed) - allowed - _ABSOLUTE * np.maximum(1.0, np.abs(up))
        if not (excess <= 0.0).all():  # nan is no agreement
            k = int(np.nan_to_num(excess, nan=math.inf).argmax())
            wrong.append(
                f"at z = {z[k]:.3g} the derivative of {name} is {slope[k]:.6g}, by differences, "
                f"and {other} is {claimed[k]:.6g}"
            )
    if wrong:
        fitting = "a link whose mean is the derivative of its cumulant, and its variance that of "
        raise InvalidInput("link", kind.__name__, f"{fitting}its mean: {'; '.join(wrong)}")


def _compiled_part(kind: type[Link], name: str) -> ScalarFunction:
    function = getattr(kind, name)
    try:
        return compile_scalar(function, 1)
    except Exception as error:  # numba raises many kinds for what it does not know
        allowed = f"a function of one float with `math` only ({why_not_compiled(error)})"
        raise InvalidInput(f"{kind.__name__}.{name}", function, allowed) from None


def _elementwise(function: ScalarFunction, z: ArrayLike) -> float | FloatArray:
    if isinstance(z, float | int):
        return function.call(float(z))
    values = np.asarray(z, dtype=np.float64)
    out = map1(function.address, values.flatten()).reshape(values.shape)
    return float(out) if out.ndim == 0 else out


def _search(function: Callable[[Any], Any], radius: float) -> float:
    """Return the minimum of a smooth function on [−radius, radius]: the best of a grid, refined."""
    if math.isinf(radius):
        return -math.inf
    from scipy.optimize import minimize_scalar  # only here, and slow to import

    grid = np.linspace(-radius, radius, 4001)
    values = function(grid)
    best = int(values.argmin())
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    refined = minimize_scalar(lambda z: function(float(z)), bounds=(low, high), method="bounded")
    return float(min(values[best], refined.fun))
