"""An agent alone and its application."""

from __future__ import annotations

import logging

import pytest
from typer.testing import CliRunner

import fedglb as fg
from fedglb.cli import app as command_line
from fedglb.service.agent import RequestLimits, make_app


@pytest.fixture
def agent(tmp_path):
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(dim=2)) as out:
        yield out


@pytest.fixture
def app(agent):
    return make_app(agent, limits=RequestLimits(max_body=20_000, max_arms=50, max_batch=30))


@pytest.fixture
def serve():
    """`fedglb agent serve` in this process, for what is refused; what it logs leaves no trace."""
    loggers = [logging.getLogger(name) for name in ("fedglb", "uvicorn")]
    before = [(each.level, each.handlers[:]) for each in loggers]
    yield lambda *options: CliRunner().invoke(command_line, ["agent", "serve", *map(str, options)])
    for each, (level, handlers) in zip(loggers, before, strict=True):
        each.setLevel(level)
        each.handlers[:] = handlers
