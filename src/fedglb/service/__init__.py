"""The agent behind HTTP, for applications in any language and with any number of processes."""

from fedglb.service.async_client import AsyncAgentClient
from fedglb.service.client import AgentClient

__all__ = ["AgentClient", "AsyncAgentClient"]
