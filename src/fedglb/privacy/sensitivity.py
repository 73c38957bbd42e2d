"""How much one sample can change the sums: its largest vector and its largest matrix.

A sample (x, y), seen at z = xᵀθ with |z| ≤ S, adds v = x(y − μ(z) + μ′(z)z) and H = μ′(z)xxᵀ. With
‖x‖ ≤ 1, ‖v‖ ≤ G_v = max |y − h(z)|, where h(z) = μ(z) − μ′(z)z, and ‖H‖_F ≤ k_μ.

Two samples: ‖v − v′‖ ≤ 2G_v, and ‖H − H′‖_F² = ‖H‖² + ‖H′‖² − 2 tr(HH′) ≤ 2k_μ², because the
trace of a product of two positive semidefinite matrices is not negative.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedglb.links import Identity, Link, Logistic, Poisson, Probit

Neighbours = Literal["zero-out", "replace"]

#: An arm is taken for one of norm ≤ 1 up to 1e-9, which H has squared; the rest is for rounding in
#: floating point.
TOLERANCE = 4e-9
_GRID = 20_001


def residual_bound(link: Link, radius: float, rewards: tuple[float, float]) -> float:
    """Return G_v, the largest |y − μ(z) + μ′(z)z| for |z| ≤ S and rewards in a range.

    With h(z) = μ(z) − μ′(z)z it is max(high − min h, max h − low). Because h′(z) = −μ″(z)z:

    - logistic and probit: μ″(z)z ≤ 0, so h increases, and its range is [h(−S), h(S)];
    - Poisson: h = e^z(1 − z) has its maximum 1 at 0 and its minimum e^S(1 − S) at S;
    - identity: h = 0.

    For any other link h is searched on a grid, and the largest step between neighbours of the grid
    is added on each side. That is no proof, so a client also clips y − μ + μ′z to ±G_v, and
    μ′ to k_μ: then the bounds hold whatever the link is.

    Parameters
    ----------
    link
        The GLM family.
    radius
        S.
    rewards
        Smallest and largest reward, both finite.

    Returns
    -------
    float
        G_v.

    Examples
    --------
    >>> import fedglb as fg
    >>> round(residual_bound(fg.Logistic(), 1.0, (0.0, 1.0)), 4)
    0.5344
    """
    low, high = rewards
    least, most = _intercepts(link, radius)
    return max(high - least, most - low)


def _intercepts(link: Link, radius: float) -> tuple[float, float]:
    """Return the smallest and the largest h(z) for |z| ≤ S."""
    kind = type(link)  # a subclass may have another mean
    if kind is Identity:
        return 0.0, 0.0
    if kind is Poisson:
        return link.mean(radius) * (1.0 - radius), 1.0
    if kind in (Logistic, Probit):
        ends = np.array([-radius, radius])
        least, most = link.mean(ends) - link.variance(ends) * ends
        return float(least), float(most)
    grid = np.linspace(-radius, radius, _GRID)
    values = link.mean(grid) - link.variance(grid) * grid
    step = float(np.abs(np.diff(values)).max())
    return float(values.min()) - step, float(values.max()) + step


def sensitivities(
    residual: float, slope: float, neighbours: Neighbours, contributions: int
) -> tuple[float, float]:
    """Return by how much the sums of v and of H can differ for two neighbouring datasets.

    Parameters
    ----------
    residual, slope
        G_v and k_μ.
    neighbours
        "zero-out": what one interaction adds is replaced by nothing; "replace": by what any other
        would add.
    contributions
        How many interactions of one user are changed together.

    Returns
    -------
    tuple
        Δ_v and Δ_H, with `TOLERANCE` on top.

    Examples
    --------
    >>> [round(x, 6) for x in sensitivities(0.5, 0.25, "replace", 1)]
    [1.0, 0.353553]
    """
    factor = contributions * (1.0 + TOLERANCE)
    if neighbours == "replace":
        return 2.0 * residual * factor, 2.0**0.5 * slope * factor
    return residual * factor, slope * factor
