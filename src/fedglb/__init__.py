"""Federated contextual bandits with generalized linear models.

>>> import fedglb as fg
>>> env = fg.Synthetic(fg.Problem(dim=5), clients=4, arms=10)
>>> run = fg.simulate(fg.fedglb_ucb(threshold=1.0, solver=fg.Newton()), env, horizon=50, seed=1)
>>> run.syncs > 0
True
"""

from typing import TYPE_CHECKING

from fedglb.algorithms import (
    ALGORITHMS,
    Algorithm,
    dislinucb,
    fedglb_auto,
    fedglb_mix,
    fedglb_ucb,
    fedglb_ucb_1,
    fedglb_ucb_2,
    fedglb_ucb_3,
    n_ons_glm,
    n_ucb_glm,
    one_ucb_glm,
)
from fedglb.choice import Bayes, Certified, EpsilonGreedy, Greedy, Sigma, Thompson, Ucb
from fedglb.confidence import FedGLBPrinted, Fixed, Iterate, Mixture, Posterior
from fedglb.datasets import DataUnavailable, FeatureMap, Table
from fedglb.datasets import load as load_table
from fedglb.environments import (
    Block,
    Classification,
    Clustered,
    Environment,
    Recorded,
    Synthetic,
    clustered,
)
from fedglb.errors import InvalidInput
from fedglb.global_update import AGD, LBFGS, Newton, OneExchange
from fedglb.links import Identity, Link, Logistic, Poisson, Probit
from fedglb.problem import Problem
from fedglb.protocol import Client, Coordinator
from fedglb.ridge_rule import Evidence
from fedglb.simulation import Run, lockstep, simulate
from fedglb.sweeps import Experiment, SweepFailed, SweepResult, read_experiment, sweep
from fedglb.sweeps import load as load_sweep

if TYPE_CHECKING:
    from fedglb.federation import Agent

__version__ = "0.1.0"

__all__ = [
    "AGD", "ALGORITHMS", "LBFGS", "Agent", "Algorithm", "Bayes", "Block", "Certified",
    "Classification", "Client", "Clustered", "Coordinator", "DataUnavailable", "Environment",
    "EpsilonGreedy", "Evidence", "Experiment", "FeatureMap", "FedGLBPrinted", "Fixed", "Greedy",
    "Identity", "InvalidInput", "Iterate", "Link", "Logistic", "Mixture", "Newton", "OneExchange",
    "Poisson", "Posterior", "Probit", "Problem", "Recorded", "Run", "Sigma", "SweepFailed",
    "SweepResult", "Synthetic", "Table", "Thompson", "Ucb", "clustered", "dislinucb", "fedglb_auto",
    "fedglb_mix", "fedglb_ucb", "fedglb_ucb_1", "fedglb_ucb_2", "fedglb_ucb_3", "load_sweep",
    "load_table", "lockstep", "n_ons_glm", "n_ucb_glm", "one_ucb_glm", "read_experiment",
    "simulate", "sweep",
]  # fmt: skip


if not TYPE_CHECKING:  # a type checker would take every misspelt name for one that is loaded late

    def __getattr__(name: str) -> object:
        """Load the agent when it is first asked for: simulations do without the federation."""
        if name == "Agent":
            from fedglb.federation import Agent

            return Agent
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
