"""What is refused at the border between client and coordinator, before anything changes."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, array, integer
from fedglb.global_update import Query
from fedglb.kernels.linalg import cholesky
from fedglb.kernels.types import FloatArray
from fedglb.model import SharedModel
from fedglb.protocol.messages import ClientId, Covariance, Derivatives
from fedglb.setting import Setting

_SLACK = 1e-8  # rounding, relative to the number of samples


def check_identities(clients: Iterable[ClientId], most: int) -> list[ClientId]:
    """Return the ids in sorted order, or raise."""
    ids = list(clients)
    if not (all(isinstance(c, str) for c in ids) or all(isinstance(c, int) for c in ids)):
        raise InvalidInput("clients", ids, "ids that are all names or all whole numbers")
    if len(set(ids)) < len(ids):
        raise InvalidInput("clients", ids, "ids that all differ")
    if len(ids) > most:
        raise InvalidInput("clients", len(ids), f"at most the setting's {most}")
    return sorted(ids)


def check_covariance(message: Covariance, algorithm: Algorithm, setting: Setting) -> None:
    """Raise unless this can be Σ x xᵀ (and Σ x y where shared) of so many samples."""
    d, n = setting.problem.dim, integer("samples", message.samples, at_least=0)
    matrix = array("matrix", message.matrix, (d, d))
    slack = _SLACK * (n + 1)
    if np.abs(matrix - matrix.T).max() > slack:
        raise InvalidInput("matrix", "not symmetric", "a symmetric matrix")
    if float(np.trace(matrix)) > n + slack:
        raise InvalidInput(
            "trace of matrix", float(np.trace(matrix)), f"at most the number of samples, {n}"
        )
    if not cholesky(matrix + slack * np.eye(d), np.zeros((d, d))):
        raise InvalidInput("matrix", "indefinite", "a positive semi-definite matrix")
    _exactly("b", message.b, (d,), wanted=algorithm.local_update.shares_moment)


def check_derivatives(message: Derivatives, query: Query | None, setting: Setting) -> None:
    """Raise unless these can be the sums that `query` asks for (None: an answer too late)."""
    d = setting.problem.dim
    array("gradient", message.gradient, (d,))
    if query is None:
        return
    _exactly("hessian", message.hessian, (d, d), wanted=query.hessian)
    if (message.loss is not None) != query.loss:
        raise InvalidInput("loss", message.loss, "a number exactly where one was asked for")
    # an infinite loss is an honest answer at a wild point, and tells the solver to step back
    if message.loss is not None and not message.loss > -math.inf:
        raise InvalidInput("loss", message.loss, "a number")


def check_model(model: SharedModel, algorithm: Algorithm, setting: Setting) -> None:
    """Raise unless a client of this algorithm can adopt the model."""
    d = setting.problem.dim
    integer("t", model.t, at_least=0)
    _definite("matrix", array("matrix", model.matrix, (d, d)))
    if model.numbers.size:
        array("numbers", model.numbers, (None,))
    wanted = algorithm.local_update.model_fields or frozenset()
    _exactly("theta", model.theta, (d,), wanted="theta" in wanted)
    _exactly("b", model.b, (d,), wanted="b" in wanted)
    _exactly("gradient_matrix", model.gradient_matrix, (d, d), wanted="gradient_matrix" in wanted)
    if model.gradient_matrix is not None:
        _definite("gradient_matrix", model.gradient_matrix)


def _exactly(
    argument: str, value: FloatArray | None, shape: tuple[int, ...], *, wanted: bool
) -> None:
    if (value is not None) != wanted:
        given = "missing" if value is None else "given"
        raise InvalidInput(argument, given, f"an array of shape {shape} exactly where it belongs")
    if value is not None:
        array(argument, value, shape)


def _definite(argument: str, matrix: FloatArray) -> None:
    if not cholesky(matrix, np.zeros(matrix.shape)):
        raise InvalidInput(argument, "not positive definite", "a positive definite matrix")
