"""HTTP: the agent's API, for applications in any language, and the coordinator's live page."""

from fedglb.service.client import AgentClient, AsyncAgentClient

__all__ = ["AgentClient", "AsyncAgentClient"]
