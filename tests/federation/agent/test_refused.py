"""An agent whose certificate is no good: its status says so, its log is quiet, it comes back."""

from __future__ import annotations

import logging
import shutil
import time

import pytest

import fedglb as fg
from fedglb.federation import connection
from fedglb.federation.operator import operator, renewal
from fedglb.federation.operator.authority import Authority
from tests.federation.helpers.in_process import Serving, opened
from tests.federation.helpers.nats_federation import eventually, federation


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Attempts and looks at the files come often, and grow rare at once."""
    monkeypatch.setattr(connection, "_LOOK", 0.02)
    monkeypatch.setattr(connection, "_PAUSE", 0.02)
    monkeypatch.setattr(connection, "_RAREST", 0.1)


@pytest.fixture
def attempts(monkeypatch):
    """Return the pauses after attempts that were refused, as they come."""
    pauses, after = [], connection.Connection._after

    def counted(self, error):
        pauses.append(after(self, error))
        return pauses[-1]

    monkeypatch.setattr(connection.Connection, "_after", counted)
    return pauses


def complaints(caplog):
    return [r.message for r in caplog.records if r.name == "fedglb.federation.connection"]


def test_a_revoked_agent_says_so_once_and_comes_back_when_it_is_added_again(
    tmp_path, caplog, attempts
):
    with (
        federation(tmp_path, ["a"]) as running,
        Serving(running, tmp_path / "state.db") as serving,
    ):
        shutil.move(running.folder / "clients" / "a", tmp_path / "a")
        problem = serving._bundle.agreement.problem
        with (
            caplog.at_level(logging.WARNING, "fedglb.federation"),
            fg.Agent.open(tmp_path / "a.db", problem, bundle=tmp_path / "a", beat=0.05) as agent,
        ):
            eventually(lambda: agent.status.admitted, "admission")
            assert agent.status.refused is None
            assert operator.revoke(running.folder, ["a"])
            eventually(lambda: agent.status.refused, "a refusal")
            said = agent.status
            assert said.refused.startswith("revoked or unknown to the server: it does not admit a")
            assert not said.admitted
            eventually(lambda: len(attempts) > 20, "attempts")
            assert not agent.status.connected
            (line,) = complaints(caplog)
            assert "revoked or unknown" in line
            operator.add(running.folder, ["a"])
            for name in ("key.pem", "cert.pem"):  # one after the other, as scp does it
                shutil.copy(running.folder / "clients" / "a" / name, tmp_path / "a" / name)
            eventually(lambda: agent.status.admitted, "admission")
            assert agent.status.refused is None


def test_the_key_of_another_member(tmp_path, attempts):
    """An agent does not start with it; one that runs says what is wrong, until it is mended."""
    with federation(tmp_path, ["a", "b"]) as running:
        own, other = (running.folder / "clients" / name / "key.pem" for name in "ab")
        right = own.read_bytes()
        with opened(running, tmp_path, "a") as agent:
            eventually(lambda: agent.status.connected, "a connection")
            shutil.copy(other, own)
            running.stop()
            running.start()
            eventually(lambda: agent.status.refused, "a refusal")
            said = agent.status.refused
            assert f"bundle = {str(own.parent)!r}" in said
            assert "key.pem (not the key of cert.pem): copy the whole folder" in said
            with pytest.raises(fg.InvalidInput, match="not the key of") as refused:
                opened(running, tmp_path, "a", file="new.db").__enter__()
            assert str(refused.value) == said
            assert not (tmp_path / "new.db").exists()
            own.write_bytes(right)
            eventually(lambda: agent.status.connected, "a connection")
            eventually(lambda: agent.status.refused is None, "no refusal")  # no coordinator runs


def test_a_renewed_certificate_ends_the_refusal_also_without_a_coordinator(tmp_path):
    with federation(tmp_path, ["a"]) as running:
        authority = Authority.read(running.folder / "authority")
        expired = authority.issue("fedglb://demo/a/1", days=-0.01)
        running.bundle("a").renew(authority.pem, expired)
        with opened(running, tmp_path, "a") as agent:
            eventually(lambda: "expired" in (agent.status.refused or ""), "a refusal")
            renewal.renew(running.folder, ["a"])
            eventually(lambda: agent.status.connected, "a connection")
            eventually(lambda: agent.status.refused is None, "no refusal")
            assert not agent.status.admitted
            with Serving(running, tmp_path / "state.db"):
                eventually(lambda: agent.status.admitted, "admission")
            assert agent.status.refused is None


def test_attempts_come_ever_more_rarely(tmp_path, attempts, monkeypatch):
    monkeypatch.setattr(connection, "_RAREST", 1e9)
    monkeypatch.setattr(connection, "_PAUSE", 1e-3)
    with federation(tmp_path, ["a"]) as running:
        shutil.move(running.folder / "clients" / "a", tmp_path / "a")
        operator.revoke(running.folder, ["a"])
        problem = running.coordinator_bundle.agreement.problem
        with fg.Agent.open(tmp_path / "a.db", problem, bundle=tmp_path / "a"):
            eventually(lambda: len(attempts) >= 8, "attempts")
        for n, pause in enumerate(attempts[:8], 1):
            assert 0.5 * 2**n * 1e-3 <= pause <= 2**n * 1e-3


def test_a_complaint_is_repeated_once_an_hour(tmp_path, caplog, monkeypatch):
    running = federation(tmp_path, ["a"])
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    talks = connection.Connection(running.bundle("a"), "x", None, None)
    with caplog.at_level(logging.WARNING, "fedglb.federation"):
        for moment in (0.0, 1.0, 3599.0, 3601.0, 3602.0, 7300.0):
            now[0] = 1000.0 + moment
            talks._log_rarely("no")
    assert len(complaints(caplog)) == 3


@pytest.mark.slow
def test_a_server_that_is_away_is_tried_again_as_before(tmp_path, attempts):
    with federation(tmp_path, ["a"]) as running, opened(running, tmp_path, "a") as agent:
        eventually(lambda: agent.status.connected, "a connection")
        running.kill()
        eventually(lambda: len(attempts) >= 2, "attempts")
        assert set(attempts) == {connection._PAUSE}
        assert agent.status.refused is None
        running.start()
        eventually(lambda: agent.status.connected, "a connection")


def test_an_expired_certificate_and_a_server_of_another_authority_are_named(tmp_path):
    with federation(tmp_path, ["a", "b"]) as running:
        expired, other = running.bundle("a"), running.bundle("b")
        authority = Authority.read(running.folder / "authority")
        expired.renew(authority.pem, authority.issue("fedglb://demo/a/1", days=-0.01))
        (other.folder / "ca.pem").write_bytes(Authority.new("demo").pem)
        with opened(running, tmp_path, "a") as a, opened(running, tmp_path, "b") as b:
            eventually(lambda: a.status.refused and b.status.refused, "a refusal")
            assert (
                f"a's certificate expired on {expired.certificate().ends.date()}"
                in a.status.refused
            )
            assert "the server's certificate is not trusted" in b.status.refused


def test_a_renewed_certificate_that_is_no_good_leaves_the_connection_alone(tmp_path, caplog):
    """Somebody copies the wrong folder: the agent says so, and goes on with what it has."""
    with (
        federation(tmp_path, ["a"]) as running,
        Serving(running, tmp_path / "state.db"),
        opened(running, tmp_path, "a", 2) as agent,
        caplog.at_level(logging.WARNING, "fedglb.federation"),
    ):
        eventually(lambda: agent.status.admitted, "admission")
        authority = Authority.read(running.folder / "authority")
        running.bundle("a").renew(authority.pem, authority.issue("fedglb://demo/a/7"))
        eventually(lambda: complaints(caplog), "a complaint")
        assert "the renewed certificate is not used yet" in complaints(caplog)[0]
        agent.request_update()
        assert agent.wait_for_model(1, 300)
        assert agent.status.connected
        assert agent.status.admitted
