"""One client uploads, and some clients get the sums: FedLinUCB's and Async-LinUCB's update."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import number
from fedglb.kernels.linalg import solve
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Solution, Steps


@dataclass(frozen=True)
class Exchange(GlobalUpdate):
    """Add what one client has gathered since its last upload to A and b, and give both to some.

    It is one transfer up, and one down for each client that gets them; no round is needed.

    Parameters
    ----------
    download
        None (default): only the client that uploaded gets A and b. A number C ≥ 0: every client
        gets them whose own sums have a determinant less than det A/(1 + C); infinity: no client
        ever gets them.

    Raises
    ------
    InvalidInput
        If `download` is not None, a number ≥ 0 or infinity.

    References
    ----------
    He et al. (2022), Algorithm 1 (FedLinUCB): upload, global update, download. Li and Wang (AISTATS
    2022), Async-LinUCB: the same with the download event, whose γ_D is 1 + C.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedlinucb(threshold=1.0).solver, fg.async_linucb(threshold=1.0).solver
    (Exchange(download=None), Exchange(download=1.0))
    """

    stored_name = "Exchange"

    refits = False
    alone = True
    model_fields = frozenset({"b"})

    download: float | None = None

    def __post_init__(self) -> None:
        if self.download is not None:
            number(
                "download", self.download, at_least=0.0, allow_infinite=True,
                allowed="a number C >= 0, infinity for no downloads at all, or None",
            )  # fmt: skip

    @property
    def download_level(self) -> float | None:
        """The smallest double above log(1 + C): the condition is strict."""
        if self.download is None:
            return None
        return math.nextafter(math.log1p(self.download), math.inf)

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
