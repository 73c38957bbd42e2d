"""Files of each released version are read, and written as those of today.

`files/0.1` is an operator's folder as fedglb 0.1 made it: clients a and b (whose folder has been
moved away), c revoked, d added a second time; the coordinator has made one update. Its keys were
made for this test and have no other use. TLS has no part here: certificates end.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fedglb as fg
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.operator import listing, nats_server, operator, renewal
from fedglb.federation.versions import REGISTRY

FILES = Path(__file__).parent / "files"


@pytest.fixture(params=sorted(p.name for p in FILES.iterdir()))
def folder(request, tmp_path, monkeypatch):
    """Return the folder of a version, to be changed."""
    monkeypatch.setattr(nats_server, "found", lambda: None)  # its paths are those of another place
    shutil.copytree(FILES / request.param, tmp_path / "shops")
    for key in [*tmp_path.rglob("*.key"), *tmp_path.rglob("key.pem")]:
        key.chmod(0o600)
    return tmp_path / "shops"


def files(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def registry(folder):
    return json.loads((folder / "authority" / "registry.json").read_text())


def test_its_members_are_listed_and_reading_changes_nothing(folder):
    before = files(folder)
    found = {m.name: m for m in listing.members(folder)}
    assert set(found) == {"authority", "server", "coordinator", "a", "b", "c", "d"}
    assert {n: m.generation for n, m in found.items() if m.kind == "client"} == {
        "a": 1, "b": 1, "c": 1, "d": 2,
    }  # fmt: skip
    assert [n for n, m in found.items() if m.revoked] == ["c"]
    assert found["a"].ends == datetime(2028, 11, 16, 9, 22, 11, tzinfo=UTC)
    assert found["b"].ends is None  # 0.1 did not write it down, and the folder is not here
    assert files(folder) == before


def test_it_is_changed_as_one_of_today(folder):
    serials = {n: m["serial"] for n, m in registry(folder).items()}
    operator.add(folder, ["e"])
    renewal.renew(folder, ["b"])
    operator.revoke(folder, ["a"])
    found = registry(folder)
    assert found["version"] == REGISTRY.version
    members = found["members"]
    assert {n: m["serial"] for n, m in members.items() if n in "acd"} == {
        n: s for n, s in serials.items() if n in "acd"
    }
    assert [n for n, m in members.items() if m["revoked"]] == ["a", "c"]
    accounts = (folder / "server" / "accounts.conf").read_text()
    for who in ("b/1", "b/2", "d/2", "e/1", "coordinator/1"):
        assert f'"fedglb://demo/{who}"' in accounts
    assert "fedglb://demo/a/" not in accounts
    with pytest.raises(fg.InvalidInput, match=r"max_clients = 5.*5 exist"):
        operator.add(folder, ["f"])


def test_its_bundles_are_read(folder):
    for place in ("coordinator", "clients/a"):
        bundle = Bundle.read(folder / place)
        assert bundle.agreement.problem.dim == 2
        bundle.check_key()


def test_its_coordinator_goes_on(folder):
    agreement = Bundle.read(folder / "coordinator").agreement
    store = CoordinatorStore(folder / "coordinator" / "state.db", agreement)
    try:
        session = CoordinatorSession(agreement, store, Policy(), lambda event: None)
        assert session.coordinator.finished == 1
        assert session.coordinator.model.theta.tolist() == pytest.approx([-0.44346474, 0.30272796])
        assert set(store.members()) == {"a", "b", "c"}
        assert store.updates()["clients"].to_list() == [3]
    finally:
        store.close()


def test_what_is_interrupted_leaves_the_old_file(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    before = (folder / "authority" / "registry.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(OSError, match="No space"):
            operator.revoke(folder, ["a"])
    assert (folder / "authority" / "registry.json").read_bytes() == before
    operator.revoke(folder, ["a"])
    assert registry(folder)["version"] == REGISTRY.version


def test_a_later_registry_is_refused_by_its_version_and_left_alone(folder):
    path = folder / "authority" / "registry.json"
    path.write_text('{"version": 9, "members": {"a": 17}}')
    said = r"registry\.json: version = 9 .* install the fedglb that wrote the file"
    for command in (
        lambda: listing.members(folder),
        lambda: operator.add(folder, ["e"]),
        lambda: renewal.renew(folder, ["a"]),
    ):
        with pytest.raises(fg.InvalidInput, match=said):
            command()
    assert path.read_text() == '{"version": 9, "members": {"a": 17}}'


def test_a_member_of_the_first_version_may_be_called_version(folder):
    path = folder / "authority" / "registry.json"
    old = registry(folder)
    path.write_text(json.dumps({**old, "version": old["a"]}))
    assert "version" in {m.name for m in listing.members(folder)}
