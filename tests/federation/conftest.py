"""An agent alone, for tests: with the default, and with what that was before."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture(params=["fedglb_auto", pytest.param("fedglb_ucb", marks=pytest.mark.slow)])
def agent(request, path):
    before = fg.fedglb_ucb(threshold=10.0, solver=fg.Newton())
    algorithm = before if request.param == "fedglb_ucb" else None
    with Agent.open(path, fg.Problem(dim=3), algorithm=algorithm) as out:
        yield out
