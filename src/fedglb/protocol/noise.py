"""How the noise of privacy enters a model: the shift of its matrix, the variance of its sums."""

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


def noise_variance(setting: Setting, update: int, clients: int) -> float | None:
    """Return s² = σ_{v,b}² + κ_b²S²/d, which the noise adds to the sums behind θ.

    Parameters
    ----------
    setting, update, clients
        As for `shift`.

    Returns
    -------
    float or None
        None without privacy.
    """
    if setting.noise is None:
        return None
    problem = setting.problem
    sigma = setting.noise.total_vector(update, clients)
    return sigma**2 + (shift(setting, update, clients) * problem.S) ** 2 / problem.dim
