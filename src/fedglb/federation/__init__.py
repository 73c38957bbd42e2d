"""The federation: agents in applications on many machines learn together over NATS."""

from fedglb.federation.agent.agent import Agent
from fedglb.federation.agent.decisions import Decision
from fedglb.federation.agent.session import AgentStatus
from fedglb.federation.agreement import Agreement
from fedglb.federation.errors import (
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)

__all__ = [
    "Agent",
    "AgentStatus",
    "Agreement",
    "AlreadyObserved",
    "Decision",
    "DecisionExpired",
    "Unavailable",
    "UnknownDecision",
]  # fmt: skip
