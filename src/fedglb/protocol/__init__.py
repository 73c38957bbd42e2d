"""The protocol: client and coordinator as state machines, message in, messages out."""

from fedglb.protocol.client import Client
from fedglb.protocol.coordinator import Coordinator

__all__ = ["Client", "Coordinator"]
