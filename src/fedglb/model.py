"""The shared model: what a global update leaves with every client."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.typing import Count, Numbers, Symmetric, Vector


@dataclass(frozen=True)
class SharedModel:
    """What all clients hold right after a global update.

    Parameters
    ----------
    t
        The step of the update: t_last until the next one.
    matrix
        A_t (V_t of the lazy family; H + ℓI where clients are anchored at θ_t), shape (d, d),
        prior included.
    radius_terms
        The few numbers that the radius needs.
    theta
        θ_t, shape (d,), where clients cannot derive it from A_t and b_t.
    b
        b_t, shape (d,), where clients cannot derive it from θ_t and A_t.
    gradient_matrix
        The covariance of gradients of variant 3, shape (d, d).
    ridge
        λ of this fit, in force until the next one, where a rule chooses it.
    """

    t: Count
    matrix: Symmetric
    radius_terms: Numbers
    theta: Vector | None = None
    b: Vector | None = None
    gradient_matrix: Symmetric | None = None
    ridge: float | None = None


def triangle_size(d: int) -> int:
    """Return d(d+1)/2, how many numbers a symmetric d×d matrix has.

    Examples
    --------
    >>> triangle_size(3)
    6
    """
    return d * (d + 1) // 2
