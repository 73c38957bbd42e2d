"""An exchange of one client with the coordinator: FedLinUCB's global update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.global_update.base import GlobalUpdate, Objective, Solution, Steps
from fedglb.kernels.linalg import solve


@dataclass(frozen=True)
class Exchange(GlobalUpdate):
    """Add what one client has gathered since its last exchange to A and b, and give it both.

    The others hear nothing of it. It is one transfer up and one down; no round is needed.

    References
    ----------
    He et al. (2022), Algorithm 1 (FedLinUCB): upload, global update, download.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedlinucb(threshold=1.0).solver
    Exchange()
    """

    stored_name = "Exchange"

    refits = False
    alone = True
    model_fields = frozenset({"b"})

    def solve(self, objective: Objective) -> Steps:
        """Return the solution without any query."""
        assert objective.moment is not None
        b = objective.moment
        if objective.previous is not None:
            assert objective.previous.b is not None
            b = objective.previous.b + b
        theta = solve(objective.matrix, b)
        return Solution(
            theta=theta,
            gradient=np.zeros_like(theta),
            gap=0.0,
            b=b,
            hessian=objective.covariance,
        )
        yield  # a generator without queries
