"""How large the noise of privacy is in the sums behind a model."""

from __future__ import annotations

import math

from fedglb.setting import Setting


def shift(setting: Setting, update: int, clients: int) -> float:
    """Return κ_b, which bounds the noise in H: ‖N_b‖ ≤ κ_b for all b but with probability δ/3.

    Parameters
    ----------
    setting
        The setting of the federation.
    update
        b ≥ 1.
    clients
        How many clients add noise.

    Returns
    -------
    float
        κ_b = σ_{H,b}(√(2d) + √(2q)), q = log(6b(b + 1)/δ); 0 without privacy.

    References
    ----------
    docs/theory.md, section 8.
    """
    if setting.noise is None:
        return 0.0
    d, q = setting.problem.dim, math.log(6.0 * update * (update + 1) / setting.delta)
    sigma = setting.noise.total_matrix(update, clients)
    return sigma * (math.sqrt(2.0 * d) + math.sqrt(2.0 * q))


def levels(setting: Setting, update: int, clients: int) -> tuple[float, float]:
    """Return σ_{v,b} and σ_{H,b}, the standard deviations of the noise in the sums of v and of H.

    Parameters
    ----------
    setting, update, clients
        As for `shift`.

    Returns
    -------
    tuple of float
        Zeros without privacy.
    """
    plan = setting.noise
    if plan is None:
        return 0.0, 0.0
    return plan.total_vector(update, clients), plan.total_matrix(update, clients)
