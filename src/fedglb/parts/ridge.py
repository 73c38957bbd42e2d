"""The choice of the ridge λ from the coordinator's sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.errors import number
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Evidence:
    """One step of evidence maximisation per global update, with a weak hyperprior.

    λ is `start` until the first update. Then λ ← (γ + 1)/(‖θ‖² + 1/start), where
    γ = Σ_k h_k/(h_k + λ) is the number of directions that the data determine; h_k are the
    eigenvalues of the Hessian. It is used in place of a number as an algorithm's `ridge`.

    Parameters
    ----------
    start
        λ₀ > 0. A sixteenth of the mean squared distance of the arms offered from their mean is a
        good value; a smaller one does little harm, one that is 16 times larger does. The default
        suits arms of length up to 1.

    Raises
    ------
    InvalidInput
        If `start` is not a number > 0.

    References
    ----------
    MacKay (1992), *Bayesian Interpolation*; docs/theory.md, section 7.10 (Proposition 26).

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> rule = fg.Evidence(start=0.5)
    >>> rule.next(np.diag([1.0, 3.0]), np.array([1.0, 0.0]), 1.0, fg.Problem(dim=2))
    0.75
    """

    stored_name = "Evidence"

    start: float = 1.0 / 64.0

    def __post_init__(self) -> None:
        number("start", self.start, above=0.0)

    def next(self, hessian: FloatArray, theta: FloatArray, ridge: float, problem: Problem) -> float:
        """Return the next λ.

        Parameters
        ----------
        hessian
            Σ μ′ x xᵀ at the fit with `ridge`, or near it; shape (d, d).
        theta
            That fit, shape (d,).
        ridge
            The λ in force.
        problem
            Its dispersion is the unit of `hessian` and λ.

        Returns
        -------
        float
            The λ in force from now on.
        """
        # np.linalg: only the coordinator computes it, and everybody else is sent the number
        h = np.maximum(np.linalg.eigvalsh(hessian), 0.0)
        determined = float(np.sum(h / (h + ridge)))
        square = float(theta @ theta) + problem.dispersion / self.start
        return problem.dispersion * (determined + 1.0) / square

    def next_blocks(
        self,
        hessian: FloatArray,
        theta: FloatArray,
        ridges: tuple[float, ...],
        problem: Problem,
    ) -> tuple[float, ...]:
        """Return the next λ of each of the problem's blocks.

        Parameters
        ----------
        hessian, theta, problem
            As for `next`.
        ridges
            The λ of each block in force.

        Returns
        -------
        tuple of float
            In the order of the blocks.
        """
        assert problem.blocks is not None
        covariance = np.linalg.inv(hessian + np.diag(np.repeat(ridges, problem.blocks)))
        found, first = [], 0
        for size, ridge in zip(problem.blocks, ridges, strict=True):
            block = slice(first, first + size)
            determined = size - ridge * float(np.trace(covariance[block, block]))
            square = float(theta[block] @ theta[block]) + problem.dispersion / self.start
            found.append(problem.dispersion * (max(determined, 0.0) + 1.0) / square)
            first += size
        return tuple(found)
