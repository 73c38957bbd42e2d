"""An agent alone, for tests."""

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


@pytest.fixture
def agent(path):
    with Agent.open(path, fg.Problem(dim=3)) as out:
        yield out
