"""Environments: where arms and rewards come from."""

from fedglb.environments.base import Block, Environment
from fedglb.environments.classification import Classification
from fedglb.environments.clusters import Clustered, clustered
from fedglb.environments.delayed import Delayed
from fedglb.environments.drifting import Drifting
from fedglb.environments.grouped import Grouped
from fedglb.environments.heterogeneous import Heterogeneous
from fedglb.environments.jump import Jump
from fedglb.environments.movielens import movielens
from fedglb.environments.network import Network
from fedglb.environments.networked import Networked
from fedglb.environments.open_bandit import open_bandit
from fedglb.environments.outliers import Outliers
from fedglb.environments.partial import Partial
from fedglb.environments.recorded import Recorded
from fedglb.environments.replay import Replay
from fedglb.environments.synthetic import Synthetic

__all__ = [
    "Block", "Classification", "Clustered", "Delayed", "Drifting", "Environment", "Grouped",
    "Heterogeneous", "Jump", "Network", "Networked", "Outliers", "Partial", "Recorded", "Replay",
    "Synthetic", "clustered", "movielens", "open_bandit",
]  # fmt: skip
