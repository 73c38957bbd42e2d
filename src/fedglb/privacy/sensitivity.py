"""The sensitivity of the sums to one sample: its largest vector and its largest matrix.

A sample (x, y), seen at z = xᵀθ with |z| ≤ S, adds v = x(y − μ(z) + μ′(z)z) and H = μ′(z)xxᵀ. The
proofs are in docs/privacy.md, section Sensitivity.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedglb.links import Identity, Link, Logistic, Poisson, Probit

Neighbours = Literal["zero-out", "replace"]

#: Arms that are learned have norm up to 1 + 1e-9 (`errors.arms_in_unit_ball`), which H has squared;
#: the rest is for rounding in floating point.
TOLERANCE = 4e-9
_GRID = 20_001


def residual_bound(link: Link, radius: float, rewards: tuple[float, float]) -> float:
    """Return G_v, the largest |y − μ(z) + μ′(z)z| for |z| ≤ S and rewards in a range.

    With h(z) = μ(z) − μ′(z)z it is max(high − min h, max h − low). A client also clips
    y − μ + μ′z to ±G_v, and μ′ to k_μ: then the bounds hold whatever the link is.
    """
    low, high = rewards
    least, most = _intercepts(link, radius)
    return max(high - least, most - low)


def _intercepts(link: Link, radius: float) -> tuple[float, float]:
    """Return the smallest and the largest h(z) for |z| ≤ S; h′(z) = −μ″(z)z.

    For a custom link h is searched on a grid, and the largest step between neighbours of the grid
    is added on each side, without proof.
    """
    kind = type(link)  # a subclass may have another mean
    if kind is Identity:
        return 0.0, 0.0
    if kind is Poisson:  # h = e^z(1 − z) is largest at 0 and smallest at S
        return link.mean(radius) * (1.0 - radius), 1.0
    if kind in (Logistic, Probit):  # μ″(z)z ≤ 0: h increases
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
    """Return Δ_v and Δ_H, the largest differences of Σ v and Σ H of neighbouring datasets.

    `residual` and `slope` are G_v and k_μ. The terms of each of `contributions` interactions are
    replaced by nothing ("zero-out") or by those of any other ("replace").
    """
    factor = contributions * (1.0 + TOLERANCE)
    if neighbours == "replace":
        return 2.0 * residual * factor, 2.0**0.5 * slope * factor
    return residual * factor, slope * factor


def joint(
    link: Link,
    radius: float,
    rewards: tuple[float, float],
    neighbours: Neighbours,
    share: float,
) -> float:
    """Return J ≤ 1: the joint change of v and H, relative to their separate bounds.

    With Δ_v and Δ_H as in `sensitivities` for one interaction, and s the share of H,
    (1 − s)‖v‖²/Δ_v² + s‖H‖²/Δ_H² ≤ J² for every change of one interaction.

    For zero-out neighbours ‖v‖ ≤ a(z) and ‖H‖ ≤ w(z), with w = μ′ and a the largest |y − μ + μ′z|.
    For replace, with c the cosine of the two arms, ‖v − v′‖² ≤ a² + a′² + 2aa′|c| and ‖H − H′‖² =
    w² + w′² − 2ww′c². The largest c is known in closed form, z and z′ are searched on a grid.
    Between its points a and w change by at most h·sup|μ″|·max(S, 1), h being half of its step and
    |μ″| ≤ s̄k_μ (`Link.self_concordance`); that is added, so J is an upper bound. It is 1 for a
    link that is custom or has no bound on μ″.
    """
    concordance = link.self_concordance(radius)
    if type(link) not in (Identity, Logistic, Poisson, Probit) or concordance is None:
        return 1.0
    residual, slope = residual_bound(link, radius, rewards), link.k_mu(radius)
    points = 401 if neighbours == "replace" else 4001
    z = np.linspace(-radius, radius, points)
    off = radius / (points - 1) * concordance * slope * max(radius, 1.0)
    w = np.minimum(link.variance(z) + off, slope)
    least = np.maximum(link.variance(z) - off, 0.0)
    centre = link.mean(z) - link.variance(z) * z
    a = np.minimum(np.maximum(rewards[1] - centre, centre - rewards[0]) + off, residual)
    if neighbours == "zero-out":
        square = (1.0 - share) * (a / residual) ** 2 + share * (w / slope) ** 2
        return min(float(np.sqrt(square.max())), 1.0)
    of_v, of_H = (1.0 - share) / (2.0 * residual) ** 2, share / (2.0 * slope**2)
    products, lows = np.outer(a, a), np.outer(least, least)
    c = np.minimum(of_v * products / np.maximum(2.0 * of_H * lows, 1e-300), 1.0)
    squares_v = np.add.outer(a * a, a * a) + 2.0 * products * c
    squares_H = np.add.outer(w * w, w * w) - 2.0 * lows * c * c
    return min(float(np.sqrt((of_v * squares_v + of_H * squares_H).max())), 1.0)
