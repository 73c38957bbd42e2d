"""`fedglb federation freeze` and `unfreeze`, with a coordinator that runs and one that does not."""

from __future__ import annotations

import json

import pytest

from fedglb.federation.coordinator import board
from fedglb.federation.frozen import Frozen, read_frozen, write_frozen
from tests.cli.in_process import federation
from tests.cli.test_federation import INIT
from tests.federation.helpers.json_processes import agent, coordinator
from tests.federation.helpers.nats_federation import PATIENCE, eventually, table
from tests.federation.helpers.nats_federation import federation as nats_federation


def test_a_running_federation(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "_PATIENCE", PATIENCE)
    with nats_federation(tmp_path, ["a"], table(4, 3)) as running:
        folder = running.folder
        state = folder / "coordinator" / "state.db"
        with coordinator(running, state) as head, agent(running, "a", tmp_path) as a:
            a.next()
            for number in (1, 2):
                a.ask(do="play", arms=[[1.0, 0.0, 0.0]], rewards=[1.0], t=number)
                a.ask(do="request")
                head.hear(lambda line, n=number: line.get("number") == n)
            out = federation("freeze", folder, "--update", 7)
            assert (out.returncode, out.stdout) == (2, "")
            wanted = "fedglb: --update = 7: expected one whose model is kept: 1, 2\n"
            assert out.stderr == wanted
            out = federation("freeze", folder, "--update", 1)
            assert out.returncode == 0, out.stderr
            assert "Frozen at update 1: a running coordinator tells the agents." in out.stdout
            head.hear(lambda line: line["event"] == "frozen" and line["update"] == 1)
            said = federation("status", folder).stdout
            assert "all clients choose with the model of update 1." in said
            first = read_frozen(folder / "coordinator")
            again = federation("freeze", folder / "coordinator", "--update", 1, "--json")
            assert json.loads(again.stdout) == {"frozen": 1}
            assert read_frozen(folder / "coordinator") == first
            eventually(
                lambda: a.ask(do="status")["frozen"] == 1, "the agent follows"
            )  # and learns of the end below
            out = federation("unfreeze", folder)
            assert "Not frozen" in out.stdout
            head.hear(lambda line: line["event"] == "frozen" and line["update"] == 0)
            eventually(lambda: a.ask(do="status")["frozen"] == 0, "the agent is free")
            (folder / "coordinator" / "frozen.json").write_text("{")  # it goes on as it was
        out = federation("status", folder)  # it does not run
        assert out.returncode == 2
        assert "frozen.json': expected a file of `fedglb federation freeze`" in out.stderr
        out = federation("unfreeze", folder, "--json")
        assert json.loads(out.stdout) == {"frozen": None}
        assert json.loads(federation("freeze", folder, "--json").stdout) == {"frozen": 2}
        found = json.loads(federation("status", folder, "--json").stdout)
        assert (found["frozen"]["update"], found["frozen"]["by"], found["kept"]) == (
            2,
            "operator",
            [1, 2],
        )


@pytest.mark.parametrize("command", ["freeze", "unfreeze"])
def test_no_federation(tmp_path, command):
    out = federation(command, tmp_path)
    assert (out.returncode, out.stdout) == (2, "")
    assert "expected the operator's folder, or the coordinator's" in out.stderr


def test_no_model_yet(tmp_path):
    folder = tmp_path / "demo"
    assert federation("init", folder, *INIT).returncode == 0
    out = federation("freeze", folder)
    assert out.returncode == 2
    assert out.stderr == "fedglb: --update = None: expected none yet: there is no model\n"
    assert not (folder / "coordinator" / "frozen.json").exists()


def test_another_schema_ends_it(tmp_path):
    from tests.cli.test_federation_features import made
    from tests.federation.helpers.shop import NEW

    folder, path = made(tmp_path), tmp_path / "new.toml"
    path.write_text(NEW.to_toml())
    write_frozen(folder / "coordinator", Frozen(3, 1.0))
    assert federation("features", folder, path).returncode == 0
    assert read_frozen(folder / "coordinator") is None
