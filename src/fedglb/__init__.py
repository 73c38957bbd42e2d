"""Federated contextual bandits with generalized linear models.

>>> import fedglb as fg
>>> env = fg.Synthetic(fg.Problem(dim=5), clients=4, arms=10)
>>> run = fg.simulate(fg.fedglb_ucb(threshold=1.0, solver=fg.Newton()), env, horizon=50, seed=1)
>>> run.syncs > 0
True
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedglb.algorithms import (
        ALGORITHMS,
        Algorithm,
        async_linucb,
        dislinucb,
        fedglb_auto,
        fedglb_iterate,
        fedglb_mix,
        fedglb_personal,
        fedglb_private,
        fedglb_ucb,
        fedglb_ucb_1,
        fedglb_ucb_2,
        fedglb_ucb_3,
        fedlinucb,
        n_ecolog,
        n_ofuglb,
        n_ons_glm,
        n_ucb_glm,
        one_ecolog,
        one_ofuglb,
        one_ucb_glm,
    )
    from fedglb.algorithms.strategy import Payload, Strategy, World
    from fedglb.environments import (
        Block,
        Classification,
        Clustered,
        Delayed,
        Drifting,
        Environment,
        Grouped,
        Heterogeneous,
        Jump,
        Network,
        Networked,
        Outliers,
        Partial,
        Recorded,
        Replay,
        Synthetic,
        clustered,
        movielens,
        open_bandit,
    )
    from fedglb.environments.datasets import DataUnavailable, Table
    from fedglb.environments.datasets import load as load_table
    from fedglb.errors import InvalidInput
    from fedglb.evaluation import (
        ClientPolicy,
        Estimate,
        Logged,
        ModelPolicy,
        Policy,
        UniformPolicy,
        evaluate,
        replayed,
    )
    from fedglb.features import Category, Features, Number, Tags
    from fedglb.federation import Agent
    from fedglb.links import Identity, Link, Logistic, Poisson, Probit
    from fedglb.parts.choice import (
        Bank,
        Bayes,
        Choice,
        EpsilonGreedy,
        Greedy,
        OptimisticThompson,
        Sigma,
        Thompson,
        Ucb,
    )
    from fedglb.parts.confidence import (
        Confidence,
        Fixed,
        Iterate,
        Mixture,
        OnePassRadius,
    )
    from fedglb.parts.global_update import AGD, LBFGS, GlobalUpdate, Newton, OneExchange
    from fedglb.parts.local_update import LocalUpdate
    from fedglb.parts.memory import Adaptive, Forever, HalfLife
    from fedglb.parts.ridge import Evidence
    from fedglb.parts.trigger import Trigger
    from fedglb.privacy import GaussianMechanism, PrivacyStatement
    from fedglb.problem import Problem
    from fedglb.protocol import Client, Coordinator
    from fedglb.service import AgentClient, AsyncAgentClient
    from fedglb.simulation import Run, compare, load_run, simulate, to_gymnasium
    from fedglb.studies import Experiment, SweepFailed, SweepResult, read_experiment, sweep
    from fedglb.studies import load as load_sweep
    from fedglb.studies.report.comparison import Comparison
    from fedglb.studies.report.figures.plot import plot

__version__ = "0.1.0"

__all__ = [
    "AGD", "ALGORITHMS", "LBFGS", "Adaptive", "Agent", "AgentClient", "Algorithm",
    "AsyncAgentClient", "Bank", "Bayes", "Block", "Category", "Choice", "Classification", "Client",
    "ClientPolicy", "Clustered", "Comparison", "Confidence", "Coordinator", "DataUnavailable",
    "Delayed", "Drifting", "Environment", "EpsilonGreedy", "Estimate", "Evidence", "Experiment",
    "Features", "Fixed", "Forever", "GaussianMechanism", "GlobalUpdate", "Greedy", "Grouped",
    "HalfLife", "Heterogeneous", "Identity", "InvalidInput", "Iterate", "Jump", "Link",
    "LocalUpdate", "Logged", "Logistic", "Mixture", "ModelPolicy", "Network", "Networked",
    "Newton", "Number", "OneExchange", "OnePassRadius", "OptimisticThompson", "Outliers",
    "Partial", "Payload", "Poisson", "Policy", "PrivacyStatement", "Probit", "Problem", "Recorded",
    "Replay", "Run", "Sigma", "Strategy", "SweepFailed", "SweepResult", "Synthetic", "Table",
    "Tags", "Thompson", "Trigger", "Ucb", "UniformPolicy", "World", "async_linucb", "clustered",
    "compare", "dislinucb", "evaluate", "fedglb_auto", "fedglb_iterate", "fedglb_mix",
    "fedglb_personal", "fedglb_private", "fedglb_ucb", "fedglb_ucb_1", "fedglb_ucb_2",
    "fedglb_ucb_3", "fedlinucb", "load_run", "load_sweep", "load_table", "movielens", "n_ecolog",
    "n_ofuglb", "n_ons_glm", "n_ucb_glm", "one_ecolog", "one_ofuglb", "one_ucb_glm", "open_bandit",
    "plot", "read_experiment", "replayed", "simulate", "sweep", "to_gymnasium",
]  # fmt: skip


#: Where each public name is defined: the modules are imported when a name is first used.
_NAMES = {
    "fedglb.algorithms": (
        "Algorithm ALGORITHMS async_linucb dislinucb fedglb_auto fedglb_iterate fedglb_mix "
        "fedglb_personal fedglb_private fedglb_ucb fedglb_ucb_1 fedglb_ucb_2 fedglb_ucb_3 "
        "fedlinucb n_ecolog n_ofuglb n_ons_glm n_ucb_glm one_ecolog one_ofuglb one_ucb_glm"
    ),
    "fedglb.algorithms.strategy": "Payload Strategy World",
    "fedglb.environments": (
        "Block Classification Clustered clustered Delayed Drifting Environment Grouped "
        "Heterogeneous Jump movielens Network Networked open_bandit Outliers Partial Recorded "
        "Replay Synthetic"
    ),
    "fedglb.environments.datasets": "DataUnavailable load_table Table",
    "fedglb.errors": "InvalidInput",
    "fedglb.evaluation": (
        "ClientPolicy Estimate evaluate Logged ModelPolicy Policy replayed UniformPolicy"
    ),
    "fedglb.features": "Category Features Number Tags",
    "fedglb.federation": "Agent",
    "fedglb.links": "Identity Link Logistic Poisson Probit",
    "fedglb.parts.choice": "Bank Bayes Choice EpsilonGreedy Greedy OptimisticThompson "
    "Sigma Thompson Ucb",
    "fedglb.parts.confidence": "Confidence Fixed Iterate Mixture OnePassRadius",
    "fedglb.parts.global_update": "AGD GlobalUpdate LBFGS Newton OneExchange",
    "fedglb.parts.local_update": "LocalUpdate",
    "fedglb.parts.memory": "Adaptive Forever HalfLife",
    "fedglb.parts.ridge": "Evidence",
    "fedglb.parts.trigger": "Trigger",
    "fedglb.privacy": "GaussianMechanism PrivacyStatement",
    "fedglb.problem": "Problem",
    "fedglb.protocol": "Client Coordinator",
    "fedglb.service": "AgentClient AsyncAgentClient",
    "fedglb.simulation": "compare load_run Run simulate to_gymnasium",
    "fedglb.studies": "Experiment load_sweep read_experiment sweep SweepFailed SweepResult",
    "fedglb.studies.report.comparison": "Comparison",
    "fedglb.studies.report.figures.plot": "plot",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
#: Public names that differ from the name in their module.
_NAME_THERE = {"load_sweep": "load", "load_table": "load"}

if not TYPE_CHECKING:  # else a type checker would accept every misspelt name

    def __getattr__(name: str) -> object:
        """Import a name when it is first used, so that `import fedglb` takes no time."""
        import importlib
        import importlib.util

        if name in __all__:
            module = importlib.import_module(_HOMES[name])
            found = getattr(module, _NAME_THERE.get(name, name))
        elif not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}"):
            return importlib.import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
