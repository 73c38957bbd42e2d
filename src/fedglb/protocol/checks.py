"""Checks of messages between clients and coordinator; they raise before anything changes.

No honest client's sums exceed these bounds, for any samples. A false answer within them cannot be
detected: only the client sees its samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, array, finite, integer, number
from fedglb.kernels.effects import BUCKETS
from fedglb.kernels.linalg import asymmetry, cholesky, inverse_quadratic, is_definite
from fedglb.links import Link
from fedglb.model import SharedModel
from fedglb.parts.global_update import Query
from fedglb.parts.memory import Adaptive
from fedglb.protocol.messages import ClientId, Covariance, Derivatives, ModelSums
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The largest count or step: beyond it, doubles do not hold every whole number.
LARGEST = 2**53
_SQUARE_OVERFLOWS = 1e100
_SLACK = 1e-8  # ‖x‖ may exceed 1 by rounding; relative to the number of samples
# Relative. The extremes of a link are searched on a grid, which may be off by this much; rounding
# errors of sums over up to 10⁹ samples are far smaller.
MARGIN = 1e-3
_MORE = 1.0 + MARGIN
_UNIT = 2.0**-53
_FAR = 700.0  # a link's functions may overflow at larger |z|
_TINY = 1e-100  # of slopes
_EVERYTHING = (-math.inf, math.inf)
_UNDERFLOW = 1e-30  # ‖x‖² of a sample may round to 0 where x does not


def check_one_kind(ids: Sequence[ClientId]) -> None:
    """Raise unless all ids are names or all are whole numbers, so that they can be sorted."""
    if not (all(isinstance(c, str) for c in ids) or all(isinstance(c, int) for c in ids)):
        raise InvalidInput("clients", ids, "ids that are all names or all whole numbers")


def check_identities(clients: Iterable[ClientId], most: int) -> list[ClientId]:
    """Return the ids in sorted order, or raise."""
    ids = list(clients)
    check_one_kind(ids)
    if len(set(ids)) < len(ids):
        raise InvalidInput("clients", ids, "ids that all differ")
    if len(ids) > most:
        raise InvalidInput("clients", len(ids), f"at most {most}, the setting's number of clients")
    return sorted(ids)


# -- bounds of sums ----------------------------------------------------------------------


def trace(matrix: FloatArray) -> float:
    """Return the trace, infinite where it overflows: e^z at an extreme θ."""
    return float(sum(matrix.diagonal().tolist()))


@dataclass(frozen=True)
class Batch:
    """The samples of a sum, and bounds on their M = Σ x xᵀ."""

    samples: int  # n
    lower: FloatArray  # lower ≼ M ≼ upper; the same array if M is known
    upper: FloatArray
    slack: float  # an s for which M + sI, as computed and factored, is at least M + (s/2)I

    @classmethod
    def of(cls, part: Covariance, before: Covariance | None = None) -> Batch:
        """Return the samples of a covariance, less those of an earlier one."""
        n, matrix, slack = part.samples, part.matrix, _slack(part.samples, part.matrix)
        if before is not None:
            n, matrix = n - before.samples, matrix - before.matrix
        return cls(n, matrix, matrix, slack)

    @classmethod
    def of_hessian(cls, part: ModelSums, slope: tuple[float, float]) -> Batch:
        """Return the samples of a Hessian Σ μ′ x xᵀ, with μ′ within these two numbers."""
        n, (least, most) = part.samples, slope
        # Below _TINY, weights may underflow and what is divided by them overflow: M ≼ nI.
        upper = part.hessian / least if least > _TINY else n * np.eye(len(part.hessian))
        return cls(n, part.hessian / most, upper, _slack(n, upper))


def _slack(n: int, matrix: FloatArray) -> float:
    """Return the slack of a sum of n terms.

    The sum is off by at most n·u·Σ‖x‖², the Cholesky factor and a solve with it by 3d²·u·‖M‖; a
    difference of two sums by twice as much as the larger one.
    """
    return float(16.0 * _UNIT * (n + len(matrix) ** 2) * (trace(matrix) + _UNDERFLOW))


@dataclass(frozen=True)
class Limits:
    """Bounds on one sample's contribution to a query's sums."""

    query: Query
    residual: float = math.inf  # the largest |μ(z) − y|
    slope: tuple[float, float] = _EVERYTHING  # the smallest and the largest μ′(z)
    loss: tuple[float, float] = _EVERYTHING  # the smallest and the largest m(z) − y z


def reward_range(link: Link, limit: float | None) -> tuple[float, float]:
    """Return the smallest and largest reward: the link's support, within ±limit if there is one."""
    low, high = link.support
    if limit is None:
        return low, high
    number("reward_limit", limit, above=0.0)
    if max(low, -limit) > min(high, limit):
        raise InvalidInput("reward_limit", limit, f"a limit that allows rewards in {link.support}")
    return max(low, -limit), min(high, limit)


def limits(
    link: Link, rewards: tuple[float, float], query: Query, largest_effect: float = 0.0
) -> Limits:
    """Return the limits for |z| ≤ ‖θ‖ + max|u| and y within `rewards`; infinite without a limit.

    μ increases with z, and so the cumulant m, with m′ = μ, is convex. A secant of μ is a mean of
    slopes: weights that are at least the secants have the limits of slopes.
    """
    furthest = float(np.linalg.norm(query.theta)) + largest_effect
    reach = furthest * (1.0 + 1e-8) + 1e-8  # ‖x‖ ≤ 1, and rounding
    if not reach <= _FAR:
        return Limits(query)
    low, high = rewards
    means = link.mean(-reach), link.mean(reach)
    size = max(abs(v) for v in (*means, *rewards))
    residual = max(means[1] - low, high - means[0]) + MARGIN * size
    return Limits(
        query,
        residual if math.isfinite(residual) else math.inf,
        _slopes(link, reach) if query.hessian else _EVERYTHING,
        _losses(link, reach, rewards) if query.loss and math.isfinite(size) else _EVERYTHING,
    )


def _slopes(link: Link, reach: float) -> tuple[float, float]:
    least, most = link.c_mu(reach), link.k_mu(reach)
    return least - MARGIN * abs(least), most + MARGIN * abs(most)


def _losses(link: Link, reach: float, rewards: tuple[float, float]) -> tuple[float, float]:
    """Extremes of a function that is convex in z and linear in y."""
    corners = [link.loss(z, y) for z in (-reach, reach) for y in rewards]
    least = min(link.loss(_inverse_mean(link, y, reach), y) for y in rewards)
    size = max(abs(v) for v in (*corners, least)) + reach * max(abs(y) for y in rewards)
    return least - MARGIN * size, max(corners) + MARGIN * size


def _inverse_mean(link: Link, y: float, reach: float) -> float:
    """The z with |z| ≤ reach where μ(z) is nearest to y."""
    low, high = -reach, reach
    if link.mean(low) >= y:
        return low
    if link.mean(high) <= y:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if link.mean(middle) < y else (low, middle)
    return low


# -- checks --------------------------------------------------------------------------------


def check_covariance(
    message: Covariance,
    covered: Covariance | None,
    rewards: tuple[float, float],
    algorithm: Algorithm,
    setting: Setting,
) -> None:
    """Raise unless this can be Σ x xᵀ (and Σ x y where shared) of `message.samples` samples.

    `covered` is the client's part of the model so far; rewards lie within `rewards`.
    """
    d = setting.problem.dim
    least = 0 if covered is None else covered.samples
    n = integer("samples", message.samples, at_least=least, at_most=LARGEST)
    matrix = array("matrix", message.matrix, (d, d))
    slack = _SLACK * (n + 1)
    if asymmetry(matrix) > slack:
        raise InvalidInput("matrix", "not symmetric", "a symmetric matrix")
    batch = Batch.of(message, covered)
    size = trace(batch.upper)
    if size > batch.samples + slack:
        raise InvalidInput(
            "trace of matrix", size, f"at most the number of samples, {batch.samples}"
        )
    if not is_definite(1.0, batch.upper, 0.0, batch.upper, batch.slack):
        raise InvalidInput("matrix", "indefinite", "a positive semi-definite matrix")
    b = _exactly("b", message.b, (d,), wanted=algorithm.local_update.shares_moment)
    if b is not None:
        _check_sum("b", b, Batch.of(message), max(abs(y) for y in rewards))


def check_model_sums(
    message: ModelSums,
    limits: Limits,
    setting: Setting,
    effects: int = 0,
    buckets: float = BUCKETS,
    personal: bool = False,
    spikes: bool = False,
    variances: tuple[float, float] = (0.0, 0.0),
) -> None:
    """Raise unless these can be gradient and Hessian of `message.samples` samples at the model.

    `effects` is the largest number of arms with an effect, `buckets` bounds their keys; `personal`
    says whether clients have models of their own, `spikes` whether T has directions, and
    `variances` are the smallest and the largest eigenvalue of T.

    M = Σ x xᵀ is not known: the trace of the Hessian is at most n times the largest slope, and
    the gradient is measured by the Hessian over the smallest one, which is at least M. That is
    much more than M at a θ where slopes differ much; so ‖g‖ ≤ n·max|r| is checked, too.
    """
    d = setting.problem.dim
    n = integer("samples", message.samples, at_least=0, at_most=LARGEST)
    gradient = array("gradient", message.gradient, (d,))
    hessian = array("hessian", message.hessian, (d, d))
    _check_weights(hessian, n, limits.slope[1])
    # its own rounding errors are a sum's, whatever the weights in it
    batch, slack = Batch.of_hessian(message, limits.slope), _slack(n, hessian)
    least, most = limits.slope
    if personal and most < math.inf:  # and those of the client's own sums, from which it follows
        S, (narrow, wide) = most * n, variances
        # (I + ST)⁻¹S is at most 1/T, and off by cond(I + ST) of that
        whole = S + (1.0 + S * wide) * min(S, 1.0 / max(narrow, _TINY))
        slack = _slack(n, whole / d * np.eye(d))
        batch = replace(batch, slack=slack / least if least > _TINY else batch.slack)
    if not is_definite(1.0, hessian, 0.0, hessian, slack):
        raise InvalidInput("hessian", "indefinite", "a positive semi-definite matrix")
    _check_sum("gradient", gradient, batch, limits.residual)
    rows = _rows("effects", message.effects, setting, effects, buckets)
    if rows is not None:  # the sums Σ(μ − y) of a client with its own model have no simple bound
        largest = math.inf if personal else limits.residual
        longest = math.inf if spikes else 1.0  # (I + ST)⁻¹b may be longer than b
        _check_arm_sums(rows, n, hessian, replace(limits, residual=largest), longest, 2.0 * slack)
    sizes = (d, effects) if setting.effect_ridge else (d,)
    spread = _exactly("spread", message.spread, (3 * len(sizes),), wanted=personal)
    if spread is not None:
        _check_distances(spread, sizes)
    moments = [
        _exactly(name, getattr(message, name), (d, d), wanted=personal and spikes)
        for name in ("residuals", "information")
    ]
    if spread is not None and moments[0] is not None and moments[1] is not None:
        _check_moments(spread, moments[0], moments[1], limits.slope[1] * (n + 1.0))


def _check_distances(spread: FloatArray, sizes: Sequence[int]) -> None:
    """Raise unless these can be s, f and a flag, for θ and effects; `sizes` are those of V.

    s = ‖r‖²/φ − trV and f = trV², V positive semi-definite of this size: s ≥ −trV ≥ −√(size·f).
    """
    rows = zip(sizes, spread.reshape(-1, 3).tolist(), strict=True)
    for k, (size, (s, f, alone)) in enumerate(rows):
        number(f"spread[{3 * k + 1}]", f, at_least=0.0)
        least = -math.sqrt(size * f) * _MORE
        number(f"spread[{3 * k}]", s, at_least=least)
        if alone not in (0.0, 1.0):
            raise InvalidInput(f"spread[{3 * k + 2}]", alone, "0 or 1")


def _check_moments(spread: FloatArray, E: FloatArray, V: FloatArray, most: float) -> None:
    """Raise unless these can be rrᵀ/φ and V behind s and f; V is at most about `most`."""
    for name, value, slack in (
        ("residuals", E, _SLACK * trace(E)), ("information", V, _SLACK * most),
    ):  # fmt: skip
        if asymmetry(value) > 0.0:
            raise InvalidInput(name, "not symmetric", "a symmetric matrix")
        if not is_definite(1.0, value, 0.0, value, max(slack, _TINY)):
            raise InvalidInput(name, "indefinite", "a positive semi-definite matrix")
    s, f = float(spread[0]), float(spread[1])
    with np.errstate(over="ignore"):
        square = float(np.sum(V * V))
    if not math.isclose(square, f, rel_tol=_SLACK, abs_tol=_TINY):
        raise InvalidInput("information", "another size", "trV² = spread[1]")
    slack = _SLACK * abs(trace(V)) + _TINY
    if not math.isclose(trace(E), s + trace(V), rel_tol=_SLACK, abs_tol=slack):
        raise InvalidInput("residuals", "another size", "a trace of spread[0] + trV")


def _check_arm_sums(
    rows: FloatArray,
    n: int,
    hessian: FloatArray,
    limits: Limits,
    longest: float,
    slack: float,
) -> None:
    """Raise unless these can be the arms' h = Σw, g = Σ(μ − y) and b = Σwx among n samples.

    ‖x‖ ≤ `longest` bounds b. What is left of Σwxxᵀ without the arms' means, Σw(x − b/h)(x − b/h)ᵀ,
    is positive semi-definite; by Cauchy and Schwarz the rounding errors of bbᵀ/h are, as those of
    the Hessian, at most a few n·u of its trace.
    """
    (least, most), largest = limits.slope, limits.residual
    h, g, b = rows[:, 1], np.abs(rows[:, 2]), rows[:, 3:]
    if np.any(h < 0.0):
        raise InvalidInput("effects", f"Σw = {h.min():g}", "weights of at least 0")
    with np.errstate(over="ignore"):  # e^z at an extreme θ
        _at_most("Σw of effects", h.sum(), n, most)
        _at_most("Σ|Σ(μ − y)| of effects", g.sum(), n, largest)
        if least > _TINY and largest < math.inf and np.any(g * least > largest * h * _MORE):
            allowed = f"at most {largest / least:g} for a weight of 1"
            raise InvalidInput("Σ(μ − y) of effects", "too large for its Σw", allowed)
        apart = np.maximum(h, _TINY)[:, None]
        if not np.all(np.linalg.norm(b / apart, axis=1) <= longest * _MORE):
            raise InvalidInput("Σwx of effects", "longer than Σw", "arms of norm at most 1")
        means = b / np.sqrt(apart)
        if not is_definite(1.0, hessian, -1.0, means.T @ means, slack):
            raise InvalidInput("Σwx of effects", "too large", "what the Hessian allows")


def _at_most(argument: str, total: float, n: int, each: float) -> None:
    most = n * each if n else 0.0
    if not total <= most * _MORE:
        raise InvalidInput(argument, float(total), f"at most {most:g}, for {n} samples")


def _rows(
    argument: str, value: FloatArray | None, setting: Setting, most: int, buckets: float
) -> FloatArray | None:
    """Return rows of arms with effects, each with its key, two numbers and b; None: no effects."""
    d = setting.problem.dim
    if (value is not None) != (setting.effect_ridge > 0.0):
        given = "missing" if value is None else "given"
        allowed = "rows of arms" if value is None else "no value: arms have no effects"
        raise InvalidInput(argument, given, allowed)
    if value is None:
        return None
    if value.ndim != 1 or value.size % (d + 3) or value.size > most * (d + 3):
        allowed = f"one axis, and {d + 3} numbers for each of at most {most} arms"
        raise InvalidInput(f"{argument}.shape", value.shape, allowed)
    rows = finite(argument, value.reshape(-1, d + 3))
    keys = rows[:, 0]
    wrong = (keys != np.floor(keys)) | (keys < 0.0) | (keys >= buckets)
    wrong[1:] |= np.diff(keys) <= 0.0
    if wrong.any():
        allowed = f"whole numbers that increase, below {buckets:g}"
        raise InvalidInput(f"key of {argument}", float(keys[wrong][0]), allowed)
    return rows


def check_derivatives(
    message: Derivatives, batch: Batch, limits: Limits, setting: Setting, *, weighed: bool = False
) -> None:
    """Raise unless these can be the sums over `batch` for `limits.query`.

    `weighed`: samples have weights of at most 1, the same ones as in the batch.
    """
    d, query = setting.problem.dim, limits.query
    gradient = array("gradient", message.gradient, (d,))
    hessian = _exactly("hessian", message.hessian, (d, d), wanted=query.hessian)
    if (message.loss is not None) != query.loss:
        raise InvalidInput(
            "loss", message.loss, "a number if the query asks for the loss, else None"
        )
    _check_sum("gradient", gradient, batch, limits.residual)
    if hessian is not None:
        _check_hessian(hessian, batch, limits.slope)
    if message.loss is not None:
        low, high = limits.loss
        if weighed:  # the sum of the weights is anything up to n
            low, high = min(low, 0.0), max(high, 0.0)
        _check_loss(message.loss, batch.samples, (low, high))


def _check_sum(argument: str, value: FloatArray, batch: Batch, largest: float) -> None:
    """Raise unless `value` can be Σ x r with |r| ≤ largest: then gᵀM⁻¹g ≤ Σ r² ≤ n·largest².

    (By Cauchy and Schwarz. As M ≼ nI, it also says that ‖g‖ ≤ n·largest.)
    """
    if largest == math.inf:
        return
    unit = largest if largest > _SQUARE_OVERFLOWS else 1.0  # e^z at an extreme θ
    scaled = value if unit == 1.0 else value / unit
    length = math.sqrt(inverse_quadratic(batch.upper, scaled, batch.slack)) * unit
    bound = math.sqrt(batch.samples) * largest * (1.0 + MARGIN)
    if not length <= bound:
        allowed = f"at most {bound:g}, the bound for {batch.samples} samples with this covariance"
        raise InvalidInput(f"length of {argument}, measured by the covariance", length, allowed)
    norm, most = math.sqrt(np.vdot(scaled, scaled)) * unit, math.sqrt(batch.samples) * bound
    if not norm <= most:  # where only a bound on M is known, the line above does not say it
        raise InvalidInput(f"length of {argument}", norm, f"at most {most:g}")


def _check_weights(hessian: FloatArray, n: int, most: float) -> None:
    """Raise unless this is symmetric, with a trace that n samples and slopes up to `most` allow."""
    slack = _SLACK * most * (n + 1.0)
    if not math.isfinite(most * (n + 1.0)):  # e^z at an extreme θ: then it bounds nothing
        return
    if asymmetry(hessian) > slack:
        raise InvalidInput("hessian", "not symmetric", "a symmetric matrix")
    size = trace(hessian)
    if size > most * n + slack:
        allowed = f"at most {most:g} for each of {n} samples"
        raise InvalidInput("trace of hessian", size, allowed)


def _check_hessian(value: FloatArray, batch: Batch, slope: tuple[float, float]) -> None:
    """Raise unless `value` is symmetric, and between M times the smallest and largest slope."""
    least, most = slope
    if batch.lower is not batch.upper:  # then M is only bounded
        _check_weights(value, batch.samples, most)
    slack = 2.0 * most * batch.slack
    # k·M may overflow (e^z at an extreme θ): then it bounds nothing
    if not math.isfinite(slack + most * (batch.samples + 1.0 + trace(batch.upper))):
        return
    if asymmetry(value) > slack:
        raise InvalidInput("hessian", "not symmetric", "a symmetric matrix")
    if not is_definite(most, batch.upper, -1.0, value, slack):
        raise InvalidInput("hessian", "too large", f"at most {most:g} times the covariance")
    if math.isfinite(least) and not is_definite(1.0, value, -least, batch.lower, slack):
        raise InvalidInput("hessian", "too small", f"at least {least:g} times the covariance")


def _check_loss(value: float, samples: int, loss: tuple[float, float]) -> None:
    # An infinite loss is an honest answer at an extreme θ, where one sample's can be infinite; it
    # tells the solver to step back.
    total = number("loss", value, allow_infinite=True, allowed="a number")
    low, high = (samples * each if samples else 0.0 for each in loss)
    if not low <= total <= high:
        raise InvalidInput("loss", value, f"a number from {low:g} to {high:g}")


def check_model(model: SharedModel, algorithm: Algorithm, setting: Setting) -> None:
    """Raise unless a client of this algorithm can adopt the model."""
    d = setting.problem.dim
    integer("t", model.t, at_least=0)
    _definite("matrix", array("matrix", model.matrix, (d, d)))
    if model.radius_terms.size:
        array("radius_terms", model.radius_terms, (None,))
    wanted = algorithm.local_update.model_fields or frozenset()
    _exactly("theta", model.theta, (d,), wanted="theta" in wanted)
    _exactly("b", model.b, (d,), wanted="b" in wanted)
    _exactly("gradient_matrix", model.gradient_matrix, (d, d), wanted="gradient_matrix" in wanted)
    if model.gradient_matrix is not None:
        _definite("gradient_matrix", model.gradient_matrix)
    if (model.ridge is not None) != (algorithm.ridge_rule is not None):
        raise InvalidInput("ridge", model.ridge, "a number if a rule chooses it, else None")
    if model.ridge is not None:
        number("ridge", model.ridge, above=0.0)
    several = algorithm.ridge_rule is not None and setting.blocks > 0
    _exactly("ridges", model.ridges, (setting.blocks,), wanted=several)
    if model.ridges is not None:
        for k, each in enumerate(model.ridges.tolist()):
            number(f"ridges[{k}]", each, above=0.0)
    _check_effects(model.effects, algorithm, setting)
    personal = algorithm.local_update.personal
    spread = _exactly("spread", model.spread, (3,), wanted=personal)
    for k, each in enumerate([] if spread is None else spread.tolist()):
        number(f"spread[{k}]", each, at_least=0.0)
    spikes = algorithm.spread is not None and algorithm.spread.spikes
    T = _exactly("directions", model.directions, (d, d), wanted=spikes)
    if T is not None:
        _definite("directions", T + (1e-9 + 1e-9 * trace(T)) * np.eye(d))
    _check_memory(model, algorithm)


def _check_memory(model: SharedModel, algorithm: Algorithm) -> None:
    """Raise unless the memory is a row of rates and times, if the coordinator chooses it."""
    if (model.now is not None) != algorithm.memory.forgets:
        raise InvalidInput("now", model.now, "a time if samples count less with age, else None")
    if model.now is not None:
        integer("now", model.now, at_least=0)
    row, memory = model.memory, algorithm.memory
    if (row is not None) != isinstance(memory, Adaptive):
        given = "missing" if row is None else "given"
        raise InvalidInput("memory", given, "a row of numbers if it is adaptive, else no value")
    if row is None:
        return
    rates, times = array("memory", row, (None,))[::2], row[1::2]
    if row.size % 2 == 0 or np.any(rates < 0.0) or np.any(np.diff(times) < 0.0):
        allowed = "rates of at least 0, and between them times that do not fall"
        raise InvalidInput("memory", row.tolist(), allowed)


def _check_effects(effects: FloatArray | None, algorithm: Algorithm, setting: Setting) -> None:
    """Raise unless these are λ₂, the number of buckets and the rows of arms in a model."""
    ridge, buckets = 1.0, 1.0
    if effects is not None:
        if effects.ndim != 1 or effects.size < 2:
            raise InvalidInput("effects.shape", effects.shape, "one axis, and at least 2 numbers")
        ridge = number("effects[0]", float(effects[0]), above=0.0)
        buckets, effects = float(effects[1]), effects[2:]
        if buckets not in (2.0**k for k in range(BUCKETS.bit_length())):
            raise InvalidInput("effects[1]", buckets, f"a power of two from 1 to {BUCKETS}")
    rows = _rows("effects", effects, setting, algorithm.local_update.effects, buckets)
    if rows is not None and np.any(rows[:, 1] < ridge):
        raise InvalidInput("effects", f"D = {rows[:, 1].min():g}", f"at least λ₂ = {ridge:g}")


def _exactly(
    argument: str, value: FloatArray | None, shape: tuple[int, ...], *, wanted: bool
) -> FloatArray | None:
    if (value is not None) != wanted:
        given = "missing" if value is None else "given"
        allowed = f"an array of shape {shape}" if wanted else "no value"
        raise InvalidInput(argument, given, allowed)
    return None if value is None else array(argument, value, shape)


def _definite(argument: str, matrix: FloatArray) -> None:
    if not cholesky(matrix, np.zeros(matrix.shape)):
        raise InvalidInput(argument, "not positive definite", "a positive definite matrix")
