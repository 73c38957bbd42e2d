"""Environments: where arms and rewards come from."""

from fedglb.environments.base import Block, Environment
from fedglb.environments.recorded import Recorded
from fedglb.environments.synthetic import Synthetic

__all__ = ["Block", "Environment", "Recorded", "Synthetic"]
