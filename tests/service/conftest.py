"""An agent alone and its application."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.service.app import make_app
from fedglb.service.limits import Limits


@pytest.fixture
def agent(tmp_path):
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(dim=2)) as out:
        yield out


@pytest.fixture
def app(agent):
    return make_app(agent, limits=Limits(most_body=20_000, most_arms=50, most_batch=30))
