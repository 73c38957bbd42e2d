"""The protocol: client and coordinator as state machines, message in, messages out."""

from fedglb.protocol.assembly import UpdateRecord
from fedglb.protocol.client import Client
from fedglb.protocol.coordinator import Coordinator
from fedglb.protocol.ledger import Ledger

__all__ = ["Client", "Coordinator", "Ledger", "UpdateRecord"]
