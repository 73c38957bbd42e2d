"""Triggers: when all clients fit one model."""

from fedglb.trigger.always import Always
from fedglb.trigger.base import Trigger
from fedglb.trigger.event import Event
from fedglb.trigger.never import Never
from fedglb.trigger.schedule import Schedule

__all__ = ["Always", "Event", "Never", "Schedule", "Trigger"]
