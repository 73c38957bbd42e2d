"""The roster in the folders of operator and members: who is in it, and when it changes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import CERTIFICATE, KEY, Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.operator import nats_server, operator
from fedglb.federation.operator.doctor import operator as doctor
from fedglb.federation.operator.registry import Registry
from fedglb.federation.operator.renewal import renew
from fedglb.federation.secure_sums.roster import FILE, Roster
from fedglb.federation.secure_sums.session_keys import KeyRing
from fedglb.problem_table import ProblemTable

NAMES = ["shop-1", "shop-2", "shop-3"]


def table(minimum: int | None = 3, max_clients: int = 4, **algorithm) -> AgreementTable:
    given = {"name": "fedglb-private", "updates": 5, "first": 10.0, "growth": 2.0, **algorithm}
    return AgreementTable(max_clients, ProblemTable(dim=2), given, minimum=minimum)


def made(folder: Path, clients=NAMES, **more) -> Path:
    return operator.init(folder / "demo", "demo", table(**more), clients, ["127.0.0.1"], port=4999)


def bundles(place: Path) -> dict[str, Bundle]:
    folders = [place / "coordinator", *sorted((place / "clients").glob("*"))]
    return {folder.name: Bundle.read(folder) for folder in folders}


def test_everybody_has_the_same_roster(tmp_path):
    place = made(tmp_path)
    found = bundles(place)
    assert set(found) == {"coordinator", *NAMES}
    roster = Roster.read(place / "authority" / FILE)
    assert roster.names == tuple(NAMES)
    for bundle in found.values():
        assert bundle.roster == roster
        facts = bundle.agreement.facts()
        assert (facts["secure_sums"], facts["roster"]) == ("3", roster.digest.hex())
    for name in NAMES:
        bundle = found[name]
        assert bundle.certificate().public_key == roster.keys[name]
        key = bundle.signing_key()
        assert KeyRing("demo", roster, name, bundle.generation, "s", key).own.generation == 1


def test_a_federation_without_secure_sums_has_none(tmp_path):
    place = made(tmp_path, minimum=None)
    assert not list(place.rglob(FILE))
    facts = Bundle.read(place / "clients" / "shop-1").agreement.facts()
    assert not {"secure_sums", "roster"} & set(facts)


def test_another_member_is_another_roster_and_a_fact_that_differs(tmp_path):
    """An operator adds a member of his own making: nobody agrees with it any more."""
    place = made(tmp_path)
    before = bundles(place)["shop-1"].agreement
    operator.add(place, ["shop-4"])
    after = bundles(place)
    assert after["shop-4"].roster.names == (*NAMES, "shop-4")
    assert {b.agreement.facts()["roster"] for b in after.values()} != {before.facts()["roster"]}
    assert len({b.agreement.facts()["roster"] for b in after.values()}) == 1
    (difference,) = before.differences(after["shop-4"].agreement.facts())
    assert difference.startswith("roster:")


def test_a_name_that_is_added_again_has_another_key(tmp_path):
    place = made(tmp_path, max_clients=4)
    before = Roster.read(place / "authority" / FILE)
    operator.revoke(place, ["shop-2"])
    operator.add(place, ["shop-2"])
    after = Roster.read(place / "authority" / FILE)
    assert after.names == before.names
    assert after.keys["shop-2"] != before.keys["shop-2"]
    operator.revoke(place, ["shop-1"])
    operator.add(place, ["shop-5"])
    assert Roster.read(place / "authority" / FILE).names == ("shop-2", "shop-3", "shop-5")


def test_who_is_revoked_is_in_no_roster(tmp_path):
    place = made(tmp_path, [*NAMES, "shop-4"])
    before = Roster.read(place / "authority" / FILE)
    plan = bundles(place)["shop-1"].agreement
    operator.revoke(place, ["shop-4"])
    found = bundles(place)
    assert set(found) == {"coordinator", *NAMES}
    after = Roster.read(place / "authority" / FILE)
    assert {b.roster.digest for b in found.values()} == {after.digest}
    assert after.names == tuple(NAMES)
    assert after.is_part_of(before)
    assert not before.is_part_of(after)
    (difference,) = plan.compare(found["shop-1"].agreement.facts())
    assert difference.name == "roster", "and nothing else that members agreed on"


def test_who_is_revoked_is_revoked_also_if_too_few_are_left(tmp_path):
    """A stolen key cannot wait; under a roster that is too small no agent would start."""
    place = made(tmp_path)
    before = Roster.read(place / "authority" / FILE)
    operator.revoke(place, ["shop-2", "shop-3"])
    assert set(Registry.read(place / "authority").clients) == {"shop-1"}
    assert {b.roster.digest for b in bundles(place).values()} == {before.digest}
    finding = {f.check: f for f in doctor(place)}["roster"]
    assert finding.grade == "fault"
    assert "shop-2, shop-3 revoked, and 1 clients are too few" in finding.text
    with pytest.raises(InvalidInput, match="1 more clients: every secure sum needs 3"):
        operator.add(place, ["shop-2"])
    assert set(Registry.read(place / "authority").clients) == {"shop-1"}
    operator.add(place, ["shop-2", "shop-3"])
    after = Roster.read(place / "authority" / FILE)
    assert after.names == tuple(NAMES)
    assert after.keys["shop-1"] == before.keys["shop-1"]
    assert after.keys["shop-2"] != before.keys["shop-2"]
    assert {f.check: f for f in doctor(place)}["roster"].grade == "ok"


@pytest.mark.parametrize("noise", [False, True])
def test_a_smaller_roster_needs_as_many_members_and_as_much_noise(tmp_path, noise):
    """N, h and the shares are those of the agreement, whoever is left."""
    privacy = {"epsilon": 1.0, "delta": 1e-6, "honest": 0.6}
    more = {"max_clients": 6, "minimum": 3, **({"privacy": privacy} if noise else {})}
    place = made(tmp_path, [f"shop-{k}" for k in range(1, 7)], **more)
    before = bundles(place)["shop-1"].agreement
    least = before.min_members
    assert least == (4 if noise else 3)
    left = 6
    while left > least:
        operator.revoke(place, [f"shop-{left}"])
        left -= 1
        found = bundles(place)["shop-1"]
        assert len(found.roster.names) == left
        assert found.agreement.min_members == found.sum_rules().minimum == least
        assert found.agreement.setting.noise == before.setting.noise
        assert found.agreement.max_clients == before.max_clients
    kept = Roster.read(place / "authority" / FILE)
    operator.revoke(place, [f"shop-{left}"])
    assert Roster.read(place / "authority" / FILE) == kept
    small = Roster({name: kept.keys[name] for name in kept.names[: least - 1]})
    with pytest.raises(InvalidInput, match=f"at least {least} members"):
        before.with_roster(small.digest, small.names)


@pytest.mark.parametrize("command", ["add", "revoke"])
def test_a_death_at_any_write_and_the_command_given_again(tmp_path, monkeypatch, command):
    """Afterwards everybody has one roster, and it has all clients and no other."""
    monkeypatch.setattr(nats_server, "found", lambda: None)  # it checks every configuration
    first, replace = made(tmp_path, [*NAMES, "shop-4"], max_clients=5), os.replace
    for failing in range(100):
        place, calls = tmp_path / str(failing), iter(range(1000))
        shutil.copytree(first, place)
        path = place / "server" / "nats.conf"
        path.write_text(path.read_text().replace(str(first), str(place)))
        change = operator.add if command == "add" else operator.revoke
        names = ["shop-5"] if command == "add" else ["shop-4"]

        def dies(*paths, calls=calls, failing=failing):
            if next(calls) == failing:
                raise OSError(28, "No space left on device")
            replace(*paths)

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", dies)
            try:
                change(place, names)
            except OSError:
                pass
            else:
                break  # it has written less often than that
        known = set(Registry.read(place / "authority").clients) >= set(names)
        if known != (command == "add"):
            change(place, names)
        clients = set(Registry.read(place / "authority").clients)
        assert clients == {*NAMES, "shop-4", "shop-5"} if command == "add" else set(NAMES)
        found = bundles(place)
        assert {frozenset(b.roster.keys) for b in found.values()} == {frozenset(clients)}
        assert len({b.roster.digest for b in found.values()}) == 1
        assert {f.check for f in doctor(place) if f.grade == "fault"} == {"server"}
    assert failing > 5


@pytest.mark.parametrize(
    ("change", "name"), [(operator.add, "shop-5"), (operator.revoke, "shop-4")]
)
def test_an_interrupted_command_is_to_be_given_again(tmp_path, monkeypatch, change, name):
    """Not `renew`, which would let a client in again that was about to be revoked."""
    place = made(tmp_path, [*NAMES, "shop-4"], max_clients=5)
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "write", lambda *_: None)
        change(place, [name])
    found = {f.check: f.remedy for f in doctor(place) if f.grade == "fault"}
    assert "give it again" in found["roster"]
    assert found["server files"].startswith("if an add or revoke was interrupted, give it again")
    change(place, [name])
    assert {f.check for f in doctor(place) if f.grade == "fault"} == {"server"}


def test_a_coordinator_takes_up_a_changed_roster_and_nothing_else(tmp_path):
    place = made(tmp_path, [*NAMES, "shop-4"])
    state = place / "coordinator" / "state.db"

    def start():
        CoordinatorStore(state, Bundle.read(place / "coordinator").agreement).close()

    start()
    operator.revoke(place, ["shop-4"])
    finding = [f for f in doctor(place) if f.check == "roster" and f.grade != "ok"]
    assert "restart the coordinator" in finding[0].remedy
    start()
    assert [f.grade for f in doctor(place) if f.check == "roster"] == ["ok"]
    path = place / "coordinator" / "federation.toml"
    path.write_text(path.read_text().replace("updates = 5", "updates = 6"))
    with pytest.raises(InvalidInput, match="a file of this federation"):
        start()


def test_a_renewed_certificate_has_the_key_of_the_roster(tmp_path):
    place = made(tmp_path)
    before, shop = Roster.read(place / "authority" / FILE), place / "clients" / "shop-1"
    key, old = (shop / KEY).read_bytes(), Certificate((shop / CERTIFICATE).read_bytes())
    renew(place, ["shop-1", "coordinator"])
    new = Certificate((shop / CERTIFICATE).read_bytes())
    assert new.serial != old.serial
    assert (shop / KEY).read_bytes() == key
    assert new.public_key == old.public_key == before.keys["shop-1"]
    bundle = Bundle.read(shop)
    assert bundle.generation == 1
    bundle.check_key()
    assert bundle.roster == before
    # a folder that was moved to its machine comes back without the key, which is there
    for path in shop.iterdir():
        path.unlink()
    shop.rmdir()
    renew(place, ["shop-1"])
    assert {path.name for path in shop.iterdir()} == {
        "federation.toml",
        "ca.pem",
        CERTIFICATE,
        FILE,
    }
    assert Certificate((shop / CERTIFICATE).read_bytes()).public_key == before.keys["shop-1"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"clients": NAMES[:2]}, "roster"),
        ({"minimum": 2}, "minimum"),
        ({"minimum": 5}, "minimum"),
        # 0.9 of 20 have to be honest
        ({"max_clients": 20, "privacy": {"epsilon": 1.0, "delta": 1e-6}}, "roster"),
    ],
)
def test_too_few_members_are_refused_before_anything_is_made(tmp_path, given, named):
    with pytest.raises(InvalidInput, match=named):
        made(tmp_path, **given)
    assert not list(tmp_path.iterdir())


def test_only_one_pass_has_secure_sums():
    with pytest.raises(InvalidInput, match="fedglb-private"):
        AgreementTable(5, ProblemTable(dim=2), {"name": "fedglb-auto"}, minimum=3).build()


def test_a_set_has_as_many_members_as_the_noise_needs():
    privacy = {"epsilon": 1.0, "delta": 1e-6}
    assert table(3, 20, privacy=privacy).build().min_members == 18
    assert table(19, 20, privacy=privacy).build().min_members == 19
    assert table(3, 20).build().min_members == 3
    assert table(3, 3, privacy=privacy).build().min_members == 3


@pytest.mark.parametrize(
    ("minimum", "clients", "honest"),
    [(3, 3, 2), (5, 5, 4), (3, 20, 17), (18, 20, 17), (19, 20, 18)],
)
def test_the_noise_is_enough_without_any_one_member_of_a_set(minimum, clients, honest):
    agreement = table(minimum, clients, privacy={"epsilon": 1.0, "delta": 1e-6}).build()
    plan = agreement.setting.noise
    assert plan.honest == honest < agreement.min_members == plan.members


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 2, "members": {}}', '{"version": 1, "members": {"a": "!"}}',
     '{"version": 1, "members": {"a": "AAAA"}}', '{"version": 1, "members": 3}',
     "[" * 100_000],
)  # fmt: skip
def test_a_broken_roster_is_refused_by_its_file(tmp_path, content):
    shop = made(tmp_path) / "clients" / "shop-1"
    (shop / FILE).write_text(content)
    with pytest.raises(InvalidInput, match=FILE):
        Bundle.read(shop)
    (shop / FILE).unlink()
    with pytest.raises(InvalidInput, match=FILE):
        Bundle.read(shop)


def test_the_names_in_the_file(tmp_path):
    stored = json.loads((made(tmp_path) / "authority" / FILE).read_text())
    assert set(stored) == {"version", "members"}
    assert stored["version"] == 1
