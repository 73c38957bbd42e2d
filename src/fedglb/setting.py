"""The numbers that all members of a federation agree on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fedglb.model import SharedModel
from fedglb.privacy import NoisePlan
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Setting:
    """The problem and the numbers that every part of an algorithm may use."""

    problem: Problem
    clients: int  # N in δ/N: the maximum number of clients ever
    horizon: int | None  # T, the number of steps; None if unknown in advance
    ridge: float  # λ, the weight of the ridge penalty
    delta: float  # δ, the probability that the confidence set of some client fails in some step
    noise: NoisePlan | None = None  # clients' noise for privacy
    #: whether clients learn by `Calibrated`, and λ₂ of the effects of recurring arms; 0: no effects
    calibrated: bool = False
    effect_ridge: float = 0.0
    ridges: tuple[float, ...] = ()  # λ of each block of features; empty: `ridge` for all

    def in_force(self, model: SharedModel | None) -> Setting:
        """Return the setting with the λ and λ₂ of the last shared model, if a rule chose them."""
        if model is None or model.ridge is None:
            return self
        second = self.effect_ridge if model.effects is None else float(model.effects[0])
        ridges = () if model.ridges is None else tuple(model.ridges.tolist())
        return replace(self, ridge=model.ridge, effect_ridge=second, ridges=ridges)

    @property
    def blocks(self) -> int:
        """The number of blocks of features with a ridge each; 0: one ridge for all."""
        sizes = self.problem.blocks or ()
        return len(sizes) if self.calibrated and len(sizes) > 1 else 0

    @property
    def penalty(self) -> FloatArray:
        """The diagonal of Λ in the penalty ½θᵀΛθ, shape (d,): λ of each feature's block."""
        if not self.ridges:
            return np.full(self.problem.dim, self.ridge)
        assert self.problem.blocks is not None
        return np.repeat(self.ridges, self.problem.blocks)

    @property
    def mean_at_zero(self) -> float:
        """μ(0) where the weights of samples are at least the secants from 0; else not a number."""
        return self.problem.link.mean(0.0) if self.calibrated else math.nan

    @property
    def width(self) -> int:
        """The numbers of a sample's row: d, and its arm's name where arms have effects."""
        return self.problem.dim + (self.effect_ridge > 0.0)

    @property
    def prior_width(self) -> float:
        """√(λ/c_μ)·S, the radius before any data."""
        return math.sqrt(self.ridge / self.problem.c_mu) * self.problem.S
