"""An agent alone and its application."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.service.agent import RequestLimits, make_app


@pytest.fixture
def agent(tmp_path):
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(dim=2)) as out:
        yield out


@pytest.fixture
def app(agent):
    return make_app(agent, limits=RequestLimits(max_body=20_000, max_arms=50, max_batch=30))
