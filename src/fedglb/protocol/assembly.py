"""The arithmetic of a global update, without messages: what is fitted, and the resulting model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.model import SharedModel
from fedglb.parts.global_update import Objective, Solution, Sums
from fedglb.protocol.messages import ClientId, Derivatives
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Contribution:
    """What one client contributes: the number of its samples, Σ x xᵀ, and Σ x y where shared.

    Where the solver starts at the model: their Hessian there, and their gradient as b.
    """

    samples: int
    matrix: FloatArray
    b: FloatArray | None


@dataclass(frozen=True)
class UpdateRecord:
    """What happened in one global update.

    Parameters
    ----------
    t, client
        The step, and the client whose trigger fired (None: a schedule's).
    samples
        n, the number of samples of the clients that took part.
    rounds
        Derivative evaluations over all clients.
    gradient_norm
        ‖n∇F‖ at the model (for variant 3: of the batch, at the model before); nan where nobody
        has evaluated it.
    gap
        The proven bound on F(θ) − min F (nan where there is none).
    projected
        Whether the constraint ‖θ‖ ≤ S was active.
    """

    t: int
    client: ClientId | None
    samples: int
    rounds: int
    gradient_norm: float
    gap: float
    projected: bool


def objective(
    algorithm: Algorithm,
    setting: Setting,
    clients: Sequence[ClientId],
    gathered: Mapping[ClientId, Contribution],
    kept: Mapping[ClientId, Contribution],
    model: SharedModel | None,
) -> Objective:
    """Return what is to be fitted: sums over `clients`, in their order.

    The samples in `kept` are in `model` already (none, if every update fits all samples again).
    """
    solver, d = algorithm.global_update, setting.problem.dim
    assert solver is not None
    n, M, moment = 0, np.zeros((d, d)), np.zeros(d)
    for client in clients:
        part = gathered[client]
        n += part.samples
        M += part.matrix
        if part.b is not None:
            moment += part.b
        if client in kept:
            n -= kept[client].samples
            M -= kept[client].matrix
            if (b := kept[client].b) is not None:
                moment -= b
    in_force = setting.in_force(model)
    prior = algorithm.local_update.prior(in_force) * np.eye(d)
    if not solver.refits and model is not None:
        prior = model.matrix
    return Objective(
        setting=in_force,
        samples=max(n, 1),  # without samples, F is the regulariser alone
        covariance=M,
        matrix=prior + M,
        previous=model,
        moment=moment if algorithm.local_update.shares_moment else None,
        at_model=Sums(moment, M) if solver.starts_at_model else None,
    )


def sum_replies(replies: Iterable[Derivatives], d: int) -> Sums:
    """Return the sums over clients, in the order given; all replies carry the same fields."""
    gradient, hessian, loss = np.zeros(d), np.zeros((d, d)), 0.0
    with_hessian = with_loss = False
    for reply in replies:
        gradient = gradient + reply.gradient
        if reply.hessian is not None:
            hessian, with_hessian = hessian + reply.hessian, True
        if reply.loss is not None:
            loss, with_loss = loss + reply.loss, True
    return Sums(gradient, hessian if with_hessian else None, loss if with_loss else None)


def shared_model(
    algorithm: Algorithm, t: int, fitted: Objective, solution: Solution
) -> SharedModel:
    """Return the model that all clients get."""
    solver, local = algorithm.global_update, algorithm.local_update
    assert solver is not None
    if solution.ridge is not None:
        fitted = fitted.with_ridge(solution.ridge, local.prior)
    radius_terms = algorithm.confidence.radius_terms(fitted.setting, fitted, solution)
    matrix = fitted.matrix
    if local.metric == "hessian":
        assert solution.hessian is not None
        regular = fitted.setting.ridge + solution.multiplier
        matrix = solution.hessian + regular * np.eye(len(matrix))
    return SharedModel(
        t=t,
        matrix=matrix,
        radius_terms=np.array(radius_terms, dtype=np.float64),
        theta=solution.theta if "theta" in solver.model_fields else None,
        b=solution.b,
        gradient_matrix=solution.gradient_matrix,
        ridge=solution.ridge,
    )
