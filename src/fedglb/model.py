"""The shared model, the result of a global update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.typing import Count, Numbers, Rows, Symmetric, Vector


@dataclass(frozen=True)
class SharedModel:
    """The model of all clients right after a global update."""

    t: Count  # the step of the update: t_last until the next one
    #: A_t (V_t of the lazy family; H + ℓI where clients are anchored at θ_t), prior included.
    matrix: Symmetric
    radius_terms: Numbers  # the few numbers that the radius needs
    theta: Vector | None = None  # θ_t, if clients cannot derive it from A_t and b_t
    b: Vector | None = None  # b_t, if clients cannot derive it from θ_t and A_t
    gradient_matrix: Symmetric | None = None  # the covariance of gradients of variant 3
    ridge: float | None = None  # λ of this fit until the next one, if a rule chooses it
    #: λ₂, the number of buckets and, for each arm with an effect, its key, D, u and b
    #: (`kernels.effects`); None where arms have none
    effects: Rows | None = None
    ridges: Numbers | None = None  # λ of each block of features, if a rule chooses one for each
    #: τ² of θ and of effects, and whether clients' statistics count (`parts.spread`); None where
    #: clients have no models of their own
    spread: Numbers | None = None
    directions: Symmetric | None = None  # what T has beside τ²I; None: nothing
    #: the memory in force from now on (`kernels.ageing`), if the coordinator chooses it
    memory: Numbers | None = None
    now: Count | None = None  # the time of this fit, if samples count less with age


def shared_theta(model: SharedModel | None, dim: int) -> Vector:
    """Return θ of the last model; 0 before the first, and where clients derive it."""
    return np.zeros(dim) if model is None or model.theta is None else model.theta


def triangle_size(d: int) -> int:
    """Return d(d+1)/2, the size of a symmetric d×d matrix's triangle."""
    return d * (d + 1) // 2
