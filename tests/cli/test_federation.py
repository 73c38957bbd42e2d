"""`fedglb federation` as an operator meets it, with a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fedglb as fg
from fedglb.algorithms.catalog import CHOICES
from fedglb.cli.federation.init import PRESETS, RULES
from fedglb.federation.bundle import Bundle
from tests.cli.in_process import federation
from tests.federation.helpers import nats_process
from tests.federation.helpers.in_process import Serving, opened
from tests.federation.helpers.nats_federation import PATIENCE, Running
from tests.federation.helpers.nats_process import free_port

INIT = ["--name", "demo", "--dim", "3", "--threshold", "10"]


def test_a_federations_life(tmp_path):
    folder, port = tmp_path / "demo", free_port()
    out = federation(
        "init", folder, *INIT, "--clients", "shop-1,shop-2", "--port", port,
        "--max-clients", "4",
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    for part in (
        f"nats-server -c {folder}/server/nats.conf",
        f"fedglb federation coordinator {folder}/coordinator",
        "fedglb agent serve shop-1.db --bundle shop-1",
        f"{folder}/authority",
    ):
        assert part in out.stdout
    bundle = Bundle.read(folder / "clients" / "shop-1")
    expected = fg.fedglb_personal(10.0)
    assert bundle.agreement.algorithm == expected
    assert bundle.agreement.problem.dim == 3
    assert bundle.agreement.max_clients == 4
    with nats_process.start(folder / "server", tmp_path / "log"):
        out = federation("add", folder, "shop-3", "shop-4", "--json")
        assert json.loads(out.stdout) == {
            "clients": {n: str(folder / "clients" / n) for n in ("shop-3", "shop-4")},
            "verified": True,
        }
        out = federation("revoke", folder, "shop-1")
        assert out.returncode == 0, out.stderr
        assert "Revoked: shop-1." in out.stdout
        assert "the running server rejects them" in out.stdout
    out = federation("add", folder, "shop-1")
    assert out.returncode == 0, out.stderr
    assert f"{folder}/clients/shop-1" in out.stdout
    assert "This folder's server does not run here" in out.stderr
    out = federation("revoke", folder, "shop-1", "--json")
    assert json.loads(out.stdout) == {"clients": ["shop-1"], "verified": False}
    out = federation("add", folder, "shop-5")
    assert out.returncode == 2
    assert "max_clients = 4" in out.stderr


def test_init_as_json_with_a_schema(tmp_path):
    schema = fg.Features(arm={"price": fg.Number([5, 50]), "kind": fg.Category(["a", "b"])})
    path, folder = tmp_path / "features.toml", tmp_path / "demo"
    path.write_text(schema.to_toml())
    given = ["--name", "demo", "--features", path]
    out = federation("init", folder, *given, "--host", "nats.example.org", "--json")
    assert out.returncode == 0, out.stderr
    answer = json.loads(out.stdout)
    bundle = Bundle.read(answer["coordinator"])
    assert bundle.server == "tls://nats.example.org:4222"
    assert bundle.agreement.features == schema
    assert bundle.agreement.problem.blocks == schema.blocks
    assert 'listen: "0.0.0.0:4222"' in (folder / "server" / "nats.conf").read_text()
    assert answer["clients"] == {}
    for more in (["--dim", "3"], None):
        out = federation("init", tmp_path / "new", *(given + more if more else given[:2]))
        assert "either --dim (the number of features of an arm) or --features" in out.stderr
    path.write_text("version = 1\n[arm.price]\nkind = 'numbr'\n")
    out = federation("init", tmp_path / "new", *given)
    assert out.returncode == 2
    assert "arm.price.kind = 'numbr': expected" in out.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_that_is_offered_can_be_had(tmp_path, preset):
    more = ["--threshold", "1"] if preset in ("fedglb-ucb", "fedglb-mix", "dislinucb") else []
    link = ["--link", "identity"] if preset == "dislinucb" else []
    if preset == "fedglb-private":
        more = ["--updates", "5", "--first", "1h", "--growth", "1.3"]
    given = ["--name", "x", "--dim", "3", "--algorithm", preset, *more, *link]
    out = federation("init", tmp_path / "new", *given)
    assert out.returncode == 0, out.stderr


def test_counts_need_no_noise(tmp_path):
    out = federation("init", tmp_path / "new", *INIT, "--link", "poisson")
    assert out.returncode == 0, out.stderr
    problem = Bundle.read(tmp_path / "new" / "coordinator").agreement.problem
    assert (type(problem.link), problem.noise) == (fg.Poisson, None)


def test_a_link_that_personal_models_cannot_have(tmp_path):
    out = federation("init", tmp_path / "new", *INIT, "--link", "probit")
    assert out.returncode == 0, out.stderr
    assert "Agreed: FedGLB-Auto" in federation("status", tmp_path / "new").stdout


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("adaptive", ["Memory: all samples count alike, until newer ones say something else."]),
        ("half-life:7d", ["Memory: samples count half after 7 d."]),
        ("forever", []),
    ],
)
def test_the_memory_in_force(tmp_path, given, lines):
    out = federation("init", tmp_path / "new", *INIT, "--memory", given)
    assert out.returncode == 0, out.stderr
    shown = federation("status", tmp_path / "new").stdout
    assert [line for line in shown.splitlines() if "Memory" in line] == lines


def test_half_lives_fall(tmp_path):
    out = federation("init", tmp_path / "new", *INIT, "--memory", "adaptive:1d,7d")
    assert out.returncode == 2
    assert "--memory = 'adaptive:1d,7d': expected durations that fall" in out.stderr


@pytest.mark.parametrize("rule", RULES)
def test_every_choice_rule_that_is_offered_can_be_had(tmp_path, rule):
    given = rule + ":0.2" * (rule == "epsilon-greedy")
    out = federation("init", tmp_path / "new", *INIT, "--choice", given)
    assert out.returncode == 0, out.stderr
    agreement = Bundle.read(tmp_path / "new" / "coordinator").agreement
    assert type(agreement.algorithm.choice) is CHOICES[rule]
    assert (
        f"Agreed: FedGLB-Personal, which chooses by {rule}"
        in federation("status", tmp_path / "new").stdout
    )


def test_a_federation_that_agreed_on_thompson_sampling(tmp_path):
    """From `init` to the model of an update: all agents draw, and log how probable it was."""
    folder, port = tmp_path / "federation", free_port()
    more = ["--clients", "a,b", "--port", port, "--choice", "thompson:2"]
    assert federation("init", folder, *INIT, *more).returncode == 0
    agreed = fg.fedglb_personal(10.0, choice=fg.Thompson(2.0))
    with (
        Running(folder, port) as running,
        Serving(running, tmp_path / "state.db"),
        opened(running, tmp_path, "a") as a,
        opened(running, tmp_path, "b") as b,
    ):
        for agent in (a, b):
            assert agent._client.agreement.algorithm == agreed
            decisions = [agent.choose(np.eye(3)) for _ in range(40)]
            assert len({d.arm for d in decisions}) == 3
            assert all(0.0 < d.propensity < 1.0 and d.propensity_error > 0.0 for d in decisions)
            for decision in decisions:
                agent.observe(decision.id, float(decision.arm == 0))
        a.request_update()
        for agent in (a, b):
            assert agent.wait_for_model(1, PATIENCE)
            decisions = [agent.choose(np.eye(3)) for _ in range(40)]
            assert all(d.model >= 1 and 0.0 < d.propensity <= 1.0 for d in decisions)
    place = folder / "clients" / "a"
    with pytest.raises(fg.InvalidInput, match=r"algorithm\.choice"):
        fg.Agent.open(
            tmp_path / "c.db",
            bundle=place,
            algorithm=fg.fedglb_personal(10.0, choice=fg.Thompson()),
        )


SCHEDULE = [
    "init", "new", "--name", "x", "--dim", "3", "--updates", "30", "--first", "1h",
    "--growth", "1.3",
]  # fmt: skip
PRIVATE = [*SCHEDULE, "--epsilon", "1", "--delta", "1e-6"]
SECURE = [*SCHEDULE, "--secure-sums", "--clients", "shop-1,shop-2,shop-3,shop-4,shop-5"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["init", "new", "--name", "x", "--threshold", "1"], "--dim"),
        (["init", "new", *INIT[:4], "--algorithm", "fedglb-ucb"], "--threshold = None"),
        (["init", "new", *INIT, "--exploration", "0.1"], "--exploration = 0.1"),
        (["init", "new", *INIT, "--name", "x y"], "--name = 'x y'"),
        (["init", "new", *INIT, "--clients", "a,a"], "--clients = 'a'"),
        (["init", "new", *INIT, "--link", "logit"], "did you mean logistic"),
        (
            ["init", "new", *INIT, "--link", "poisson", "--algorithm", "fedglb-ucb"],
            "--noise = None",
        ),
        (["init", "new", *INIT, "--port", "0"], "--port = 0"),
        (["init", "new", *INIT, "--days", "0"], "--days = 0"),
        (["init", "new", *INIT, "--host", "a b"], "--host = 'a b'"),
        (["init", "new", *INIT, "--algorithm", "fedglb-ucbb"], "--algorithm = 'fedglb-ucbb'"),
        (["init", "new", *INIT, "--delta", "2"], "--delta = 2.0"),
        (["init", "new", *INIT, "--clock", "samples"], "--clock = 'samples'"),
        (["init", "new", *INIT, "--effects", "-1"], "--effects = -1"),
        (["init", "new", "--name", "x", "--dim", "1000"], "--effects = 1024"),
        ([*SCHEDULE, "--epsilon", "0", "--delta", "1e-6"], "--epsilon = 0.0"),
        ([*SCHEDULE, "--epsilon", "-1", "--delta", "1e-6"], "--epsilon = -1.0"),
        ([*SCHEDULE, "--epsilon", "nan", "--delta", "1e-6"], "--epsilon = nan"),
        ([*SCHEDULE, "--epsilon", "1"], "--delta 1e-6 (well below"),
        ([*SCHEDULE, "--epsilon", "1", "--delta", "0"], "--delta = 0.0"),
        ([*SCHEDULE, "--epsilon", "1", "--delta", "1"], "--delta = 1.0"),
        ([*PRIVATE, "--noise-in", "sums"], "--noise-in = 'sums'"),
        ([*PRIVATE, "--noise-in", "silos"], "--noise-in = 'silos'"),
        ([*PRIVATE, "--neighbours", "all"], "--neighbours = 'all'"),
        ([*PRIVATE, "--contributions", "0"], "--contributions = 0"),
        ([*PRIVATE, "--link", "poisson", "--noise", "1"], "--reward-limit = None"),
        ([*PRIVATE, "--updates", "5000"], "--updates = 5000"),
        ([*PRIVATE, "--growth", "1"], "--growth = 1.0"),
        ([*PRIVATE, "--first", "soon"], "--first = 'soon'"),
        ([*PRIVATE, "--first", "0s"], "--first = '0s'"),
        ([*SCHEDULE, "--neighbours", "replace"], "--neighbours requires --epsilon"),
        ([*SCHEDULE, "--noise-in", "silo"], "--noise-in requires --epsilon"),
        ([*PRIVATE, "--algorithm", "fedglb-ucb", "--threshold", "1"], "fedglb-ucb"),
        ([*PRIVATE, "--algorithm", "fedglb-auto"], "fedglb-auto"),
        (["init", "new", *INIT[:4], *PRIVATE[-4:], "--algorithm", "fedglb-auto"], "fedglb_private"),
        ([*SECURE, "--minimum", "6"], "--clients with at least 6 names"),
        ([*SECURE, "--minimum", "6", "--clients", "a,b,c,d,e,f", "--max-clients", "5"], "= 6"),
        ([*SECURE, "--minimum", "2"], "--minimum = 2"),
        ([*SCHEDULE, "--secure-sums", "--clients", "a,b"], "--clients with at least 5 names"),
        (
            ["init", "new", "--name", "x", "--secure-sums", "--epsilon", "1"],
            "required, with such values: either --dim (the number of features of an arm) or "
            "--features, --updates 30, --first 1h, --growth 1.3, --delta 1e-6 (well below 1 / "
            "number of interactions), --clients with at least 5 names",
        ),
        (
            ["init", "new", *INIT[:4], "--epsilon", "1", "--delta", "1e-6", "--first", "1h"],
            "values: --updates 30, --growth 1.3\n",
        ),
        (["init", "new", *INIT, "--choice", "thomson"], "--choice = 'thomson'"),
        (["init", "new", *INIT, "--memory", "short"], "--memory = 'short'"),
        (["init", "new", *INIT, "--memory", "half-life"], "--memory = 'half-life'"),
        (["init", "new", *INIT, "--memory", "half-life:1d,2d"], "half-life:7d (one duration)"),
        (["init", "new", *INIT, "--choice", "bank"], "greedy: agents keep no bank"),
        (["init", "new", *INIT, "--choice", "my.module:rule"], "--choice = 'my.module'"),
        (["init", "new", *INIT, "--choice", "epsilon-greedy"], "--choice = None: expected a value"),
        (["init", "new", *INIT, "--choice", "thompson:0"], "--choice = 0.0"),
        (["init", "new", *INIT, "--choice", "ucb:x"], "--choice = 'ucb:x'"),
        ([*SECURE, "--max-clients", "20", *PRIVATE[-4:]], "--clients = '5 members'"),
        ([*SCHEDULE, "--minimum", "3"], "--minimum requires --secure-sums"),
        ([*SECURE, "--algorithm", "fedglb-auto"], "fedglb-auto"),
        ([*SECURE, *PRIVATE[-4:], "--honest", "1.5"], "--honest = 1.5"),
        (["demo", "--clients", "0"], "--clients"),
        (["demo", "--decisions", "3"], "--decisions"),
        (["demo", "--seed", "-1"], "--seed"),
        (["add", "nowhere", "a"], "FOLDER = 'nowhere'"),
        (["revoke", "nowhere", "a"], "fedglb federation init"),
        (["renew", "nowhere"], "either names or --all is required"),
        (["renew", "nowhere", "a", "--all"], "either names or --all is required"),
    ],
)
def test_mistakes_are_one_clear_error(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    out = federation(*arguments)
    assert out.returncode == 2, out.stderr
    assert out.stdout == ""
    assert said in out.stderr
    assert len(out.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


WITHOUT = """
import sys
from fedglb.cli import main
for words in ("federation init new --name x --dim 3", "federation add x a", "federation revoke x a",
              "federation demo", "federation --help", "data list --help"):
    sys.argv = ["fedglb", *words.split()]
    try:
        main()
    except SystemExit as end:
        print("code", end.code)
"""


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    for name in ("nats", "cryptography"):
        text = f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n"
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    out = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False, timeout=600
    )
    codes = [line for line in out.stdout.splitlines() if line.startswith("code")]
    assert codes == ["code 1"] * 4 + ["code 0"] * 2
    assert len(out.stderr.splitlines()) == 4
    assert "pip install 'fedglb[demo]'" in out.stderr
    assert out.stderr.count("pip install 'fedglb[federation]'") == 3


def test_a_coordinator_refuses_what_is_not_its_own(tmp_path):
    folder = tmp_path / "demo"
    assert federation("init", folder, *INIT, "--clients", "shop-1").returncode == 0
    before = sorted(folder.rglob("*"))
    out = federation("coordinator", folder / "clients" / "shop-1")
    assert out.returncode == 2
    assert "BUNDLE = 'shop-1'" in out.stderr
    assert "the coordinator's bundle" in out.stderr
    assert sorted(folder.rglob("*")) == before  # and makes no file
    out = federation("coordinator", folder / "coordinator", "--quorum", 0)
    assert out.returncode == 2
    assert "--quorum = 0" in out.stderr


def test_members_are_listed_and_renewed(tmp_path):
    folder, port = tmp_path / "demo", free_port()
    federation("init", folder, *INIT, "--clients", "shop-1,shop-2", "--port", port)
    federation("revoke", folder, "shop-2")
    with nats_process.start(folder / "server", tmp_path / "log"):
        out = federation("renew", folder, "shop-1", "server")
        assert out.returncode == 0, out.stderr
        assert f"Copy {folder}/clients/shop-1/* to its machine" in out.stdout
        assert "server: renewed until" in out.stdout
        assert "Checked: the running server admits them." in out.stdout
        out = federation("renew", folder, "--all", "--within", "5")
        assert (out.returncode, out.stdout) == (0, "Nothing to renew.\n")
    out = federation("renew", folder, "server", "--json")
    answer = json.loads(out.stdout)
    assert (set(answer["renewed"]), answer["clients"], answer["verified"]) == (
        {"server"}, {}, False,
    )  # fmt: skip
    assert "This folder's server does not run here" in federation("renew", folder, "server").stderr
    out = federation("list", folder)
    assert out.returncode == 0, out.stderr
    lines = {line.split()[0]: line for line in out.stdout.splitlines()}
    assert set(lines) == {"name", "authority", "server", "coordinator", "shop-1", "shop-2"}
    assert "revoked on" in lines["shop-2"]
    found = {m["name"]: m for m in json.loads(federation("list", folder, "--json").stdout)}
    assert (found["shop-1"]["generation"], found["shop-1"]["revoked"]) == (1, None)
    assert found["shop-2"]["revoked"]
    assert all(m["ends"] for m in found.values())
