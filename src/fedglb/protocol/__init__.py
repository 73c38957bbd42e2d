"""The protocol: client and coordinator as state machines, message in, messages out."""

from fedglb.protocol.client import Client
from fedglb.protocol.coordinator import Coordinator
from fedglb.protocol.ledger import Ledger
from fedglb.protocol.update import UpdateRecord

__all__ = ["Client", "Coordinator", "Ledger", "UpdateRecord"]
