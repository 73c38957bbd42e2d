"""Differential privacy of the one-pass update: sensitivities, noise, accounting."""

from fedglb.privacy.gaussian import GaussianMechanism, NoisePlace, NoisePlan
from fedglb.privacy.noise import NoiseSource, PreparedNoise, SimulatedNoise, SystemNoise
from fedglb.privacy.statement import PrivacyStatement, spent_text, state

__all__ = [
    "GaussianMechanism", "NoisePlace", "NoisePlan", "NoiseSource", "PreparedNoise",
    "PrivacyStatement", "SimulatedNoise", "SystemNoise", "spent_text", "state",
]  # fmt: skip
