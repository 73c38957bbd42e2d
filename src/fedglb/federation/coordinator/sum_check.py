"""Plausibility of a secure sum, checked before it enters the model.

Masked numbers cannot be checked one by one: a member can send anything mod 2⁶⁴, and an invalid sum
does not reveal which member did. Only the sum itself can be checked.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.privacy.fixed_point import UNIT, size, unpack
from fedglb.setting import Setting
from fedglb.typing import IntArray

#: Maximum samples per client, unless the operator sets it.
MOST_SAMPLES = 2**32
#: An honest sum fails a check with probability e^−this.
_SURE = 40.0


def check_sum(
    numbers: IntArray, setting: Setting, clients: int, max_samples: int | None = None
) -> None:
    """Raise `InvalidInput` unless `clients` honest clients could have this sum.

    With weights f ≤ 1, v = Σ f x r and H = Σ f w xxᵀ over n samples at most, where ‖x‖ ≤ 1,
    |r| ≤ G and c ≤ w ≤ k: so 0 ≼ H ≼ kn, and by Cauchy and Schwarz
    (uᵀv)² ≤ (Σ f r²)(Σ f (uᵀx)²) ≤ (nG²/c)·uᵀHu for every u. Noise and rounding get their bounds
    on top. `numbers` is the sum, shape (d + d(d+1)/2,), in units of 2⁻³⁰; `max_samples` limits each
    client's samples (None: 2³²).
    """
    problem, plan, d = setting.problem, setting.noise, setting.problem.dim
    v, H = unpack(numbers, d)
    samples = clients * (MOST_SAMPLES if max_samples is None else max_samples)
    # half a unit for each number of a sample, and for each number of a client's release
    kappa = nu = math.sqrt(size(d)) * UNIT * (samples + clients) / 2.0
    if plan is not None:
        many = math.sqrt(clients)
        kappa += many * plan.matrix_share * (math.sqrt(2.0 * d) + math.sqrt(2.0 * _SURE))
        nu += many * plan.vector_share * (math.sqrt(d) + math.sqrt(2.0 * _SURE))
    values = np.linalg.eigvalsh(H)
    low, high = float(values[0]), float(values[-1])
    _check("smallest eigenvalue of H", low, -kappa, math.inf)
    _check("largest eigenvalue of H", high, -math.inf, problem.k_mu * samples + kappa)
    if plan is not None:
        most = samples * plan.residual_limit**2 * (high + kappa) / problem.c_mu
        _check("norm of v", float(np.linalg.norm(v)), 0.0, math.sqrt(most) + nu)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        allowed = f"{least:.3g} to {most:.3g}; a member sent bad data"
        raise InvalidInput(name, float(f"{value:.3g}"), allowed)
