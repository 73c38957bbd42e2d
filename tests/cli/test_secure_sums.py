"""A federation with secure sums as operator and owners meet it: init, privacy, add, accept."""

from __future__ import annotations

import json
import sys

import pytest

import fedglb as fg
from fedglb.cli import main
from fedglb.federation import Agent
from fedglb.federation.bundle import Bundle
from tests.cli.test_federation import Done, federation  # noqa: F401

NAMES = "shop-1,shop-2,shop-3,shop-4,shop-5"
INIT = ["--name", "x", "--dim", "3", "--updates", "30", "--first", "1h", "--growth", "1.3"]
PRIVATE = ["--epsilon", "1", "--delta", "1e-6"]
SECURE = [*INIT, "--secure-sums", "--clients", NAMES]


@pytest.fixture
def agent(monkeypatch, capsys):
    """The command `fedglb agent` in this process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedglb", "agent", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


def test_from_init_to_an_accepted_roster(federation, agent, tmp_path):  # noqa: F811
    folder, file = tmp_path / "demo", tmp_path / "shop-1.db"
    more = ["--minimum", "4", "--max-clients", "6", "--honest", "0.6"]
    out = federation("init", folder, *SECURE, *PRIVATE, *more)
    assert out.returncode == 0, out.stderr
    place = folder / "clients" / "shop-1"
    agreement = Bundle.read(place).agreement
    first = agreement.roster
    assert f"Roster: {first}" in out.stdout
    assert agreement.algorithm.privacy == fg.GaussianMechanism(1.0, 1e-6, noise="sums", honest=0.6)
    assert (agreement.minimum, agreement.max_clients, agreement.min_members) == (4, 6, 4)

    said = federation("privacy", folder).stdout
    assert "sums over 4 clients or more" in said
    assert first in said
    found = json.loads(federation("privacy", folder, "--json").stdout)["secure_sums"]
    assert found == {"minimum": 4, "roster": first, "members": NAMES.split(",")}

    problem = agreement.problem
    Agent.open(file, problem, bundle=place).close()  # its owner accepts the first one by that
    assert federation("add", folder, "fake").returncode == 0
    second = Bundle.read(place).agreement.roster
    assert second != first
    with pytest.raises(fg.InvalidInput, match="fedglb agent accept"):
        Agent.open(file, problem, bundle=place)
    out = agent("accept", file, place)
    assert out.returncode == 0, out.stderr
    assert "fake" in out.stdout
    assert "not accepted" in out.stdout
    out = agent("accept", file, place, "--roster", first)
    assert (out.returncode, "--roster" in out.stderr) == (2, True)
    with pytest.raises(fg.InvalidInput, match="roster"):
        Agent.open(file, problem, bundle=place)
    out = agent("accept", file, place, "--roster", second, "--json")
    assert json.loads(out.stdout)["accepted"] is True
    Agent.open(file, problem, bundle=place).close()


def test_without_noise_and_with_as_many_clients_as_there_are(federation, tmp_path):  # noqa: F811
    out = federation("init", tmp_path / "demo", *SECURE, "--json")
    assert out.returncode == 0, out.stderr
    agreement = Bundle.read(tmp_path / "demo" / "coordinator").agreement
    assert json.loads(out.stdout)["roster"] == agreement.roster
    assert (agreement.minimum, agreement.max_clients) == (5, 5)
    assert agreement.algorithm.privacy is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*SECURE, "--minimum", "6"], "--minimum = 6"),
        ([*SECURE, "--minimum", "2"], "--minimum = 2"),
        ([*INIT, "--secure-sums", "--clients", "a,b"], "--minimum = 5"),
        ([*SECURE, "--max-clients", "20", *PRIVATE], "--clients = '5 members'"),
        ([*INIT, "--minimum", "3"], "--minimum requires --secure-sums"),
        ([*SECURE, "--algorithm", "fedglb-auto"], "fedglb-auto"),
        ([*SECURE, *PRIVATE, "--honest", "1.5"], "--honest = 1.5"),
        ([*INIT, *PRIVATE, "--noise-in", "sums"], "--noise-in = 'sums'"),
    ],
)
def test_mistakes_are_one_clear_error(federation, tmp_path, arguments, said):  # noqa: F811
    out = federation("init", tmp_path / "new", *arguments)
    assert out.returncode == 2, out.stderr
    assert said in out.stderr
    assert not (tmp_path / "new").exists()


def test_a_federation_without_secure_sums_has_no_roster(federation, agent, tmp_path):  # noqa: F811
    assert federation("init", tmp_path / "demo", *INIT, "--clients", "a").returncode == 0
    assert "No secure sums" in federation("privacy", tmp_path / "demo").stdout
    out = agent("accept", tmp_path / "a.db", tmp_path / "demo" / "clients" / "a")
    assert (out.returncode, "BUNDLE" in out.stderr) == (2, True)
