"""Environments: where arms and rewards come from."""

from fedglb.environments.base import Block, Environment
from fedglb.environments.classification import Classification
from fedglb.environments.clusters import Clustered, clustered
from fedglb.environments.from_gymnasium import from_gymnasium
from fedglb.environments.recorded import Recorded
from fedglb.environments.synthetic import Synthetic

__all__ = [
    "Block", "Classification", "Clustered", "Environment", "Recorded", "Synthetic", "clustered",
    "from_gymnasium",
]  # fmt: skip
