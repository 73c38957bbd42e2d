"""How a client chooses: what its rule needs of the last model, and what came out."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput
from fedglb.kernels.decide import ChoiceParams, ellipsoid_bounds
from fedglb.model import SharedModel
from fedglb.parts.choice import choice_params
from fedglb.parts.confidence import Confidence
from fedglb.parts.local_update import LocalState
from fedglb.protocol.messages import ClientId
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Choosing:
    """What the choices of a client need of the last model; it is the same until the next one."""

    algorithm: Algorithm
    setting: Setting  # with the λ in force
    seed: int
    constants: FloatArray  # what the confidence needs and no sample changes
    terms: FloatArray  # what the confidence derives from the model

    @classmethod
    def after(
        cls, algorithm: Algorithm, setting: Setting, model: SharedModel | None, seed: int
    ) -> Choosing:
        """Return what choices need of a model, or before the first one; its λ is in force."""
        confidence, setting = algorithm.confidence, setting.in_force(model)
        constants = np.array(confidence.constants(setting), dtype=float)
        return cls(algorithm, setting, seed, constants, confidence.terms(setting, model))

    def alpha(self, state: LocalState) -> float:
        """Return the radius by which a client in this state chooses; raise if it is infinite."""
        confidence = self.algorithm.confidence
        if type(confidence).radius is not Confidence.radius:  # a user's own, in plain Python
            radius = confidence.radius(self.setting, state)
        else:
            radius = confidence.formula(state.vectors, state.counters, self.terms, self.constants)
        if not math.isfinite(radius):
            allowed = "a problem within the range of doubles: smaller S, larger ridge or curvature"
            raise InvalidInput("radius", radius, allowed)
        return radius * self.algorithm.exploration if confidence.scalable else radius

    @functools.cached_property
    def params(self) -> ChoiceParams:
        """The choice rule as the kernel `decide` takes it; compiles what it calls by address."""
        algorithm, setting = self.algorithm, self.setting
        choice, bounds = algorithm.choice, 0
        if choice.needs_sets and type(algorithm.confidence).bounds is not ellipsoid_bounds:
            bounds = algorithm.confidence.bounds_address
        dispersion = algorithm.local_update.dispersion(setting)
        return choice_params(choice, bounds, self.constants, setting, dispersion, self.seed)


@dataclass(frozen=True)
class Chosen:
    """An arm, and how it was chosen."""

    arm: int  # its index
    score: float  # by which the rule ranks arms: an upper confidence bound for `Ucb`
    width: float  # score − xᵀθ: α‖x‖ in the norm of A⁻¹ for `Ucb` and an ellipsoid
    propensity: float  # the probability of this arm; nan where the rule does not estimate it
    propensity_error: float  # its standard error: 0 where it is exact, nan as above


def stream_of(client: ClientId) -> int:
    """Return the number under which a client draws: its id, or a hash of its name.

    Examples
    --------
    >>> stream_of(3), stream_of("shop-1") == stream_of("shop-1") != stream_of("shop-2")
    (3, True)
    """
    if isinstance(client, int):
        return client
    return int.from_bytes(hashlib.blake2b(client.encode(), digest_size=4).digest(), "little")
