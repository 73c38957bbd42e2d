"""Checks of what clients and coordinator send each other; they raise before anything changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, array, integer, number
from fedglb.kernels.linalg import asymmetry, cholesky, inverse_quadratic, is_definite
from fedglb.model import SharedModel
from fedglb.protocol.assembly import Contribution
from fedglb.protocol.bounds import MARGIN, Batch, Limits, trace
from fedglb.protocol.messages import ClientId, Covariance, Derivatives, ModelSums
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: The largest count or step: beyond it, doubles do not hold every whole number.
LARGEST = 2**53
_SQUARE_OVERFLOWS = 1e100
_SLACK = 1e-8  # ‖x‖ may exceed 1 by rounding; relative to the number of samples


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
        raise InvalidInput("clients", len(ids), f"at most {most}, as many as the setting has")
    return sorted(ids)


def check_covariance(
    message: Covariance,
    covered: Contribution | None,
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
    whole = Contribution(n, matrix, None)
    batch = Batch(whole, covered)
    size = trace(batch.matrix)
    if size > batch.samples + slack:
        raise InvalidInput(
            "trace of matrix", size, f"at most the number of samples, {batch.samples}"
        )
    if not is_definite(1.0, batch.matrix, 0.0, batch.matrix, batch.slack):
        raise InvalidInput("matrix", "indefinite", "a positive semi-definite matrix")
    b = _exactly("b", message.b, (d,), wanted=algorithm.local_update.shares_moment)
    if b is not None:
        _check_sum("b", b, Batch(whole), max(abs(y) for y in rewards))


def check_model_sums(message: ModelSums, limits: Limits, setting: Setting) -> None:
    """Raise unless these can be gradient and Hessian of `message.samples` samples at the model.

    M = Σ x xᵀ is not known: the trace of the Hessian is at most n times the largest slope, and
    the gradient is measured by the Hessian over the smallest one, which is at least M. That is
    much more than M at a θ where slopes differ much; so ‖g‖ ≤ n·max|r| is checked, too.
    """
    d = setting.problem.dim
    n = integer("samples", message.samples, at_least=0, at_most=LARGEST)
    gradient = array("gradient", message.gradient, (d,))
    hessian = array("hessian", message.hessian, (d, d))
    _check_weights(hessian, n, limits.slope[1])
    whole = Contribution(n, hessian, None)
    # its own rounding errors are a sum's, whatever the weights in it
    if not is_definite(1.0, hessian, 0.0, hessian, Batch(whole).slack):
        raise InvalidInput("hessian", "indefinite", "a positive semi-definite matrix")
    _check_sum("gradient", gradient, Batch(whole, slope=limits.slope), limits.residual)


def check_derivatives(message: Derivatives, batch: Batch, limits: Limits, setting: Setting) -> None:
    """Raise unless these can be the sums over `batch` that `limits.query` asks for."""
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
        _check_loss(message.loss, batch.samples, limits.loss)


def _check_sum(argument: str, value: FloatArray, batch: Batch, largest: float) -> None:
    """Raise unless `value` can be Σ x r with |r| ≤ largest: then gᵀM⁻¹g ≤ Σ r² ≤ n·largest².

    (By Cauchy and Schwarz. As M ≼ nI, it also says that ‖g‖ ≤ n·largest.)
    """
    if largest == math.inf:
        return
    unit = largest if largest > _SQUARE_OVERFLOWS else 1.0  # e^z at an extreme θ
    scaled = value if unit == 1.0 else value / unit
    length = math.sqrt(inverse_quadratic(batch.matrix, scaled, batch.slack)) * unit
    bound = math.sqrt(batch.samples) * largest * (1.0 + MARGIN)
    if not length <= bound:
        allowed = f"at most {bound:g}, as {batch.samples} samples with this covariance can give"
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
    if batch.slope is not None:  # then M is only bounded
        _check_weights(value, batch.samples, most)
    slack = 2.0 * most * batch.slack
    # k·M may overflow (e^z at an extreme θ): then it bounds nothing
    if not math.isfinite(slack + most * (batch.samples + 1.0 + trace(batch.matrix))):
        return
    if asymmetry(value) > slack:
        raise InvalidInput("hessian", "not symmetric", "a symmetric matrix")
    if not is_definite(most, batch.matrix, -1.0, value, slack):
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
        raise InvalidInput("ridge", model.ridge, "a number exactly where a rule chooses it")
    if model.ridge is not None:
        number("ridge", model.ridge, above=0.0)


def _exactly(
    argument: str, value: FloatArray | None, shape: tuple[int, ...], *, wanted: bool
) -> FloatArray | None:
    if (value is not None) != wanted:
        given = "missing" if value is None else "given"
        allowed = f"an array of shape {shape}" if wanted else "no value: none is expected here"
        raise InvalidInput(argument, given, allowed)
    return None if value is None else array(argument, value, shape)


def _definite(argument: str, matrix: FloatArray) -> None:
    if not cholesky(matrix, np.zeros(matrix.shape)):
        raise InvalidInput(argument, "not positive definite", "a positive definite matrix")
