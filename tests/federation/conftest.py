"""An agent alone, and a federation whose server runs."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from tests.federation.helpers.nats_federation import federation, table


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """One federation and its server per test process, for tests that change neither."""
    exact = {"name": "newton", "tolerance": 1e-14}
    with federation(tmp_path_factory.mktemp("shared"), "abcde", table(6, solver=exact)) as out:
        yield out


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture(
    params=["fedglb_auto", "fedglb_personal", pytest.param("fedglb_ucb", marks=pytest.mark.slow)]
)
def agent(request, path):
    algorithm = {
        "fedglb_auto": None,
        "fedglb_personal": fg.fedglb_personal(threshold=10.0),
        "fedglb_ucb": fg.fedglb_ucb(threshold=10.0, solver=fg.Newton()),
    }[request.param]
    with Agent.open(path, fg.Problem(dim=3), algorithm=algorithm) as out:
        yield out
