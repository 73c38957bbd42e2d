"""Another schema for a federation: what the operator's folder has, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation import bundle as bundle_module
from fedglb.federation.agent import session as agent_session
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.operator import folder as folder_module
from fedglb.federation.operator import operator
from fedglb.federation.operator import registry as registry_module
from fedglb.problem_table import ProblemTable
from tests.federation.helpers.in_process import Serving
from tests.federation.helpers.nats_federation import (
    NAME,
    PATIENCE,
    Running,
    eventually,
    federation,
    table,
)
from tests.federation.helpers.shop import NEW, OLD, past
from tests.federation.operator.test_operator import files

LARGE = fg.Features(
    arm={"kind": fg.Category(buckets=100), "price": fg.Number([5, 50])},
    context={"country": fg.Category(["DE", "FR"])},
    crosses=[("context.country", "arm.kind")],
)


def shop_table(features: fg.Features = OLD, **algorithm) -> AgreementTable:
    given = {"name": "fedglb-auto", "threshold": 1e9, **algorithm}
    return AgreementTable(10, ProblemTable(), given, features=features.plain())


def made(folder: Path, features: fg.Features = OLD) -> Path:
    operator.init(folder, NAME, shop_table(features), ["a", "b"], ["127.0.0.1"], 4222)
    return folder


def schemas(folder: Path) -> dict[str, tuple[int, fg.Features | None]]:
    found = {}
    for place in (folder / "coordinator", *(folder / "clients").iterdir()):
        agreement = Bundle.read(place).agreement
        found[place.name] = agreement.revision, agreement.features
    return found


def test_every_folder_has_it(tmp_path):
    folder = made(tmp_path / "f")
    assert operator.change_features(folder, OLD) == (1, False)
    before = files(folder)
    assert operator.change_features(folder, NEW) == (2, True)
    assert schemas(folder) == dict.fromkeys(["coordinator", "a", "b"], (2, NEW))
    after = files(folder)
    different = {name for name in before if before[name] != after[name]}
    assert before.keys() == after.keys()
    assert {name.rpartition("/")[2] for name in different} <= {
        "federation.toml", "settings.toml", "accounts.conf",
    }  # fmt: skip
    assert operator.change_features(folder, NEW) == (2, False)
    assert files(folder) == after
    operator.add(folder, ["c"])
    operator.revoke(folder, ["a"])
    assert operator.change_features(folder, OLD) == (3, True)
    assert schemas(folder) == dict.fromkeys(["coordinator", "b", "c"], (3, OLD))


@pytest.mark.parametrize(
    ("agreed", "said"),
    [
        (table(), "made with --dim"),
        (
            shop_table(
                name="fedglb-private", updates=5, first=1.0, growth=1.3,
                privacy={"epsilon": 1.0, "delta": 1e-6, "noise": "silo"},
            ),
            "each sample is sent once",
        ),
        (
            AgreementTable(
                10, ProblemTable(),
                {"name": "fedglb-private", "updates": 5, "first": 1.0, "growth": 1.3},
                features=OLD.plain(), minimum=3,
            ),
            "each sample is sent once",
        ),
        (
            AgreementTable(
                10, ProblemTable(),
                {"name": "fedglb-private", "updates": 5, "first": 1.0, "growth": 1.3},
                features=OLD.plain(),
            ),
            "each sample is sent once",
        ),
    ],
    ids=["vectors", "private", "secure sums", "one pass"],
)  # fmt: skip
def test_what_cannot_change_is_refused_with_unchanged_files(tmp_path, agreed, said):
    if "threshold" in agreed.algorithm and agreed.algorithm["name"] == "fedglb-private":
        del agreed.algorithm["threshold"]
    folder = tmp_path / "f"
    operator.init(folder, NAME, agreed, ["a", "b", "c"], ["127.0.0.1"], 4222)
    before = files(folder)
    with pytest.raises(fg.InvalidInput, match=said):
        operator.change_features(folder, NEW)
    assert files(folder) == before


def test_a_schema_that_is_too_large_is_refused_with_unchanged_files(tmp_path):
    folder = made(tmp_path / "f")
    before = files(folder)
    for buckets in (900, 1500):
        with pytest.raises(fg.InvalidInput):
            operator.change_features(folder, fg.Features(arm={"a": fg.Category(buckets=buckets)}))
        assert files(folder) == before


class Killed(BaseException):
    """The command dies."""


def test_killed_between_any_two_files_it_can_be_given_again(tmp_path, monkeypatch):
    writers = [operator, folder_module, registry_module, bundle_module]
    real, left = operator.atomic_write, [0]

    def write(*given, **more):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        real(*given, **more)

    for module in writers:
        monkeypatch.setattr(module, "atomic_write", write)
    stages = []
    for count in range(100):
        left[0] = 10**6
        folder = made(tmp_path / f"f{count}")
        left[0] = count
        try:
            operator.change_features(folder, LARGE)
            break
        except Killed:
            stages.append(schemas(folder))
        revisions = {name: each[0] for name, each in stages[-1].items()}
        if revisions["coordinator"] == 2:  # it is the last one
            assert set(revisions.values()) == {2}
        left[0] = 10**6
        revision, _ = operator.change_features(folder, LARGE)
        assert revision == 2
        assert schemas(folder) == dict.fromkeys(["coordinator", "a", "b"], (2, LARGE))
        limit = folder_module.limits(registry_module.Registry.read(folder / "authority").settings)
        assert f"max_payload: {limit.payload}" in (folder / "server/accounts.conf").read_text()
    assert len(stages) >= 5
    assert {tuple(sorted(r for r, _ in stage.values())) for stage in stages} == {
        (1, 1, 1), (1, 1, 2), (1, 2, 2),
    }  # fmt: skip


def shop(running: Running, name: str, path: Path) -> Agent:
    return Agent.open(path, bundle=running.folder / "clients" / name, beat=0.1)


@pytest.fixture
def one_update(monkeypatch):
    """An import or a change asks for one update, and not for more until the fit stands still."""
    monkeypatch.setattr(agent_session, "SETTLING", 0)


@pytest.mark.usefixtures("one_update")
@pytest.mark.parametrize("to", [NEW, LARGE], ids=["new", "large"])
def test_a_running_federation_takes_it_up(tmp_path, to):
    """Also where messages become larger than the server allowed: connections stay."""
    with (
        federation(tmp_path, ["a", "b"], shop_table()) as running,
        Serving(running, tmp_path / "coordinator.db") as serving,
        shop(running, "a", tmp_path / "a.db") as a,
        shop(running, "b", tmp_path / "b.db") as b,
    ):
        for name, agent in (("a", a), ("b", b)):
            arms, rewards, contexts, ids = past(name, 30)
            agent.absorb(arms, rewards, contexts=contexts, ids=ids)
            serving.wait("joined", client=name)
        a.request_update()
        assert a.wait_for_model(1, PATIENCE)
        assert operator.change_features(running.folder, to) == (2, True)
        serving.wait("schema", revision=2)
        eventually(
            lambda: all(x.status.revision == 2 and x.status.admitted for x in (a, b)),
            "the new schema", lambda: (a.status, b.status, serving.events),
        )  # fmt: skip
        a.request_update()
        found = serving.wait("updated", clients=2, samples=60, number=2)
        assert found.facts["left_out"] == {}
        assert a.wait_for_model(2, PATIENCE)
        assert b.wait_for_model(2, PATIENCE)
        assert operator.add(running.folder, ["c"])  # the server still reloads
        with shop(running, "c", tmp_path / "c.db") as c:
            # at least: the request of a member that was slow makes another update
            eventually(lambda: c.status.model >= 2, "the model with c", lambda: c.status)
            assert c.status.revision == 2
        assert operator.revoke(running.folder, ["b"])
        eventually(lambda: not b.status.connected, "its end", lambda: b.status)
