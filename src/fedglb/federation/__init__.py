"""The federation: agents in applications on many machines, joined into one learner over NATS."""

from fedglb.federation.agent import Agent
from fedglb.federation.agreement import Agreement
from fedglb.federation.decision import Decision
from fedglb.federation.errors import (
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from fedglb.federation.participation import Status

__all__ = [
    "Agent", "Agreement", "AlreadyObserved", "Decision", "DecisionExpired", "Status",
    "Unavailable", "UnknownDecision",
]  # fmt: skip
