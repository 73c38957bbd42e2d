"""Off-policy evaluation: what another policy would have earned on a log, with intervals."""

from fedglb.evaluation.evaluate import Estimate, evaluate
from fedglb.evaluation.logged import Logged
from fedglb.evaluation.policies import ClientPolicy, ModelPolicy, Policy, UniformPolicy
from fedglb.evaluation.replayed import replayed

__all__ = [
    "ClientPolicy", "Estimate", "Logged", "ModelPolicy", "Policy", "UniformPolicy", "evaluate",
    "replayed",
]  # fmt: skip
