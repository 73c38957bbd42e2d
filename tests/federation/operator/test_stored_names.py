"""The files that an operator makes, and their keys: a change of one is a decision.

Members' folders are spread over machines. Whoever changes a name below raises the version
(`federation/versions.py`).
"""

from __future__ import annotations

import json
import tomllib

import pytest

import fedglb as fg
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.operator import listing, operator, renewal
from fedglb.problem_table import ProblemTable
from tests.federation.helpers.nats_federation import federation

VERSION = 1
FILES = {
    "authority/ca.key", "authority/ca.pem", "authority/federation.toml",
    "authority/registry.json",
    "server/accounts.conf", "server/ca.pem", "server/nats.conf", "server/server.key",
    "server/server.pem",
    "coordinator/ca.pem", "coordinator/cert.pem", "coordinator/federation.toml",
    "coordinator/key.pem",
    "clients/a/ca.pem", "clients/a/cert.pem", "clients/a/federation.toml", "clients/a/key.pem",
}  # fmt: skip
AGREEMENT = {"max_clients", "problem", "algorithm", "reward_limit", "features", "revision"}
PROBLEM = {"link", "radius", "noise", "curvature"}
SETTINGS = {"version", "federation", "hosts", "port", "bind", "agreement"}
BUNDLE = {"version", "federation", "client", "server", "agreement"}
MEMBER = {
    "generation", "serial", "since", "issued", "ends", "key", "own_key", "revoked", "former",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """Everything that can be agreed on is: what is not given is not written."""
    problem = ProblemTable(None, "identity", 2.5, 0.5, 1e-05)
    algorithm = {"name": "fedglb-ucb", "threshold": 10.0}
    schema = fg.Features(arm={"price": fg.Number([5, 50])}).plain()
    agreed = AgreementTable(20, problem, algorithm, reward_limit=3.0, features=schema, revision=2)
    return federation(tmp_path, ["a"], agreed).folder


def test_files(folder):
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert found == FILES


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("authority/federation.toml", SETTINGS),
        ("coordinator/federation.toml", BUNDLE),
        ("clients/a/federation.toml", BUNDLE),
    ],
)
def test_keys_of_the_settings(folder, file, keys):
    found = tomllib.loads((folder / file).read_text())
    assert set(found) == keys
    assert set(found["agreement"]) == AGREEMENT
    assert set(found["agreement"]["problem"]) == PROBLEM
    assert found["version"] == VERSION


def test_keys_of_the_registry(folder):
    operator.add(folder, ["b"])
    operator.revoke(folder, ["a"])
    renewal.renew(folder, ["b"])
    found = json.loads((folder / "authority" / "registry.json").read_text())
    assert set(found) == {"version", "members"}
    assert found["version"] == VERSION
    members = found["members"]
    assert set(members) == {"coordinator", "a", "b"}
    assert all(set(member) == MEMBER for member in members.values())
    assert members["a"]["revoked"]
    assert members["b"]["generation"] == 1


def with_version(path, line):
    text = path.read_text()
    assert f"version = {VERSION}\n" in text
    path.write_text(text.replace(f"version = {VERSION}\n", line))


@pytest.mark.parametrize(
    ("line", "found"), [("", "None"), ("version = 7\nunheard = 1\n", "7")], ids=["none", "7"]
)
def test_another_version_is_refused_by_name_and_the_file_is_left_alone(folder, line, found):
    for place in ("authority", "clients/a"):
        with_version(folder / place / "federation.toml", line)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    said = rf"federation\.toml: version = {found}: .* use the fedglb that wrote the file"
    for command in (
        lambda: Bundle.read(folder / "clients" / "a"),
        lambda: operator.add(folder, ["b"]),
    ):
        with pytest.raises(fg.InvalidInput, match=said):
            command()
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_a_registry_of_another_version_is_refused_by_name_and_left_alone(folder):
    path = folder / "authority" / "registry.json"
    path.write_text('{"version": 2, "members": {"a": 17}}')
    said = r"registry\.json: version = 2: .* use the fedglb that wrote the file"
    for command in (
        lambda: listing.members(folder),
        lambda: operator.add(folder, ["e"]),
        lambda: renewal.renew(folder, ["a"]),
    ):
        with pytest.raises(fg.InvalidInput, match=said):
            command()
    assert path.read_text() == '{"version": 2, "members": {"a": 17}}'
