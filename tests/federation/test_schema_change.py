"""A federation's schema changes while it runs: no sample is lost, and no update mixes two."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent import session as agent_session
from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.wire.messages import NewSchema
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import Covariance, Derivatives, ModelSums, NewModel, SumsRequest
from tests.federation.helpers.agent_driver import whole_log
from tests.federation.helpers.json_processes import Process, agent, coordinator
from tests.federation.helpers.lossy_network import Harness, ask, harness, texts
from tests.federation.helpers.nats_federation import PATIENCE, Running, eventually
from tests.federation.helpers.nats_federation import federation as federation_of_processes
from tests.federation.helpers.shop import EQUAL, NEW, OLD, past

ALGORITHMS = {"auto": fg.fedglb_auto(1e9), "newton": fg.fedglb_ucb(1e9, fg.Newton(1e-13))}
POLICY = CoordinatorPolicy(time_limit=60.0, absent_after=120.0, grace=30.0)
LOSSY = {"loss": 0.25, "twice": 0.25, "delay": 1.0}
SCHEMAS = {"new": NEW, "equal": EQUAL}
both = pytest.mark.parametrize("name", ALGORITHMS)


@pytest.fixture(autouse=True)
def one_update(monkeypatch):
    """A change asks for one update, and not for more until the fit stands still."""
    monkeypatch.setattr(agent_session, "SETTLING", 0)


def agreed(features: fg.Features, name: str, revision: int = 1) -> Agreement:
    return Agreement(features.problem(), ALGORITHMS[name], 5, features=features, revision=revision)


def federation(folder: Path, name: str, names: Sequence[str] = ("a", "b", "c"), **more):
    return harness(folder, names, agreed(OLD, name), more.pop("policy", POLICY), **more)


def serve(running: Harness, n: int = 30) -> None:
    for node in running.all():
        node.serve(n)


def changed(running: Harness) -> bool:
    """Whether everybody is here, with the coordinator's schema."""
    revision = running.agreement.revision
    here = running.everybody_here() and all(n.up for n in running.all())
    return here and all(n.revision == revision for n in running.all())


def check(running: Harness) -> None:
    """No update has two schemas, and none came twice."""
    assert all(len(found) == 1 for found in running.revisions.values()), running.revisions
    numbers = [e.facts["update"] for e in running.events if e.kind == "updating"]
    assert numbers == sorted(set(numbers))


def settle(running: Harness, who: str | None = "a") -> np.ndarray:
    """Let one agent ask when everybody is here; return θ of the model with all samples.

    None: an agent has asked before.
    """
    running.until(lambda: changed(running))
    counts = {node.name: len(node.learner.protocol_client.samples) for node in running.all()}
    assert counts == {node.name: node.fed for node in running.all()}  # nothing is lost
    newest = 0
    if who is not None:
        running.until(lambda: changed(running) and running.idle)
        newest = running.coordinator.finished
        running.nodes[who].agent_session.ask()

    def whole() -> bool:
        record = running.coordinator.last_update
        done = running.shared(newest + 1) and record is not None
        return done and record.samples == sum(counts.values())

    running.until(whole)
    check(running)
    assert running.coordinator.model is not None
    assert running.coordinator.model.theta is not None
    for node in running.all():
        assert np.array_equal(
            node.learner.protocol_client.state.base.theta, running.coordinator.model.theta
        )
    return np.array(running.coordinator.model.theta)


def fresh(
    folder: Path,
    running: Harness,
    features: fg.Features,
) -> np.ndarray:
    """θ of a new federation whose agents have the same samples under this schema."""
    name = next(k for k, v in ALGORITHMS.items() if v == running.agreement.algorithm)
    with harness(folder, list(running.nodes), agreed(features, name), POLICY) as other:
        for node in other.all():
            node.serve(running.nodes[node.name].fed)
        theta = settle(other)
        assert np.abs(theta).max() > 0.05
        return theta


def anew(running: Harness) -> np.ndarray:
    """θ of an update that begins at θ = 0, as after the loss of a model.

    An update of `fedglb_auto` is one step from the model before it, which depends on what happened.
    """
    settle(running)
    running.coordinator.model = None
    return settle(running)


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(one.shape == other.shape and np.abs(one - other).max() <= 1e-9)


@pytest.mark.parametrize("to", SCHEMAS)
@both
def test_a_change_while_nothing_happens(tmp_path, name, to):
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        running.change_features(SCHEMAS[to])
        running.until(lambda: changed(running))
        assert all(n.learner.protocol_client.state.base is None for n in running.all())
        serve(running, 5)
        theta = settle(running)
        assert running.coordinator.finished == 2
        assert equal(theta, fresh(tmp_path / "b", running, SCHEMAS[to]))
        running.crash()
        serve(running, 3)
        settle(running, "b")  # on the model before
        for node in running.all():
            node.close()
            node.open()  # with its old bundle
            assert node.revision == 2


@pytest.mark.parametrize("to", SCHEMAS)
@both
def test_a_change_in_the_middle_of_an_update(tmp_path, name, to):
    """Answers and models of the old schema come late; they are of no use."""
    late = Derivatives if name == "newton" else ModelSums
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        serve(running, 4)
        running.lost = lambda way, who, m: isinstance(m, late) and who == "c"
        ask(running)
        running.run(1.0)
        assert not running.idle
        running.change_features(SCHEMAS[to])
        assert running.idle
        running.lost = lambda *_: False
        theta = settle(running, None)
        assert equal(theta, fresh(tmp_path / "b", running, SCHEMAS[to]))


@both
def test_answers_and_models_of_the_old_schema_are_not_taken(tmp_path, name):
    """The schemas have as many features: only numbers tell them apart."""
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        old_models = running.heard("down", NewModel)
        serve(running, 4)
        ask(running)
        running.lost = lambda way, who, m: way == "up" and who == "c"
        running.run(1.0)
        old_answers = [m for kind in (Covariance, ModelSums) for m in running.heard("up", kind)]
        assert {m.update for m in old_answers} == {1, 2}
        running.lost = lambda way, who, m: isinstance(m, SumsRequest)
        running.change_features(EQUAL)
        running.until(lambda: changed(running))
        for message in old_models:
            node = running.nodes[str(message.client)]
            assert node.agent_session.receive(message) == []
            assert node.learner.protocol_client.state.base is None
        running.lost = lambda *_: False
        while not any(
            isinstance(m, Covariance | ModelSums) and m.update == 3 for *_, m in running.said
        ):
            running.step()
        for message in old_answers:
            running.hear(str(message.client), message)
        theta = settle(running, None)
        assert equal(theta, fresh(tmp_path / "b", running, EQUAL))


@both
def test_an_agent_that_was_down_takes_it_up_when_it_comes(tmp_path, name):
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        running.nodes["c"].close()
        running.session.mute("c", 1.0, running.now)
        running.change_features(NEW)
        running.until(lambda: all(running.nodes[n].revision == 2 for n in "ab"))
        ask(running)
        running.until(lambda: running.coordinator.finished == 2)  # without c
        assert set(running.coordinator.covered) == {"a", "b"}
        running.crash()  # the file says what was of the old schema
        running.come_back("c")
        running.until(lambda: running.nodes["c"].model == 2)
        assert running.nodes["c"].learner.protocol_client.state.base is not None
        theta = settle(running)
        assert equal(theta, running_twin(tmp_path / "b", running))


def running_twin(folder: Path, running: Harness) -> np.ndarray:
    """θ of a federation in which c came after the first update, under the new schema."""
    name = next(k for k, v in ALGORITHMS.items() if v == running.agreement.algorithm)
    with harness(folder, ["a", "b"], agreed(NEW, name), POLICY) as other:
        serve(other)
        settle(other)
        other.add("c").serve(30)
        return settle(other)


def test_a_hello_that_comes_late_ends_no_session(tmp_path):
    with federation(tmp_path / "a", "auto") as running:
        serve(running)
        running.until(running.everybody_here)
        old = {node.name: node.agent_session.hello() for node in running.all()}
        running.change_features(EQUAL)
        running.until(lambda: changed(running))
        for name, hello in old.items():
            assert running.hear(name, hello) == []
        assert running.everybody_here()
        settle(running)


@both
def test_two_changes_of_which_an_agent_misses_one(tmp_path, name):
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        running.nodes["b"].close()
        running.change_features(EQUAL)
        running.until(lambda: running.nodes["a"].revision == 2)
        running.change_features(NEW)
        running.come_back("b")
        theta = settle(running)
        assert {node.revision for node in running.all()} == {3}
        assert equal(theta, fresh(tmp_path / "b", running, NEW))
        assert not [m for m in running.heard("down", NewSchema, "b") if m.revision == 2]


@both
def test_an_agent_with_vectors_stays_out_and_goes_on(tmp_path, name):
    x = [0.5] + [0.0] * (OLD.dim - 1)
    with federation(tmp_path / "a", name, policy=CoordinatorPolicy(grace=2.0)) as running:
        serve(running)
        node = running.nodes["b"]
        node.calls.observe(node.calls.choose([x], ["x"]).id, 1.0)
        ask(running)
        running.until(lambda: running.shared(1))
        running.change_features(NEW)
        running.until(lambda: running.nodes["a"].revision == 2 and running.nodes["c"].revision == 2)
        running.run(5.0)
        assert (node.revision, node.model, node.agent_session.admitted) == (1, 1, False)
        assert "1 decisions have no record" in str(node.agent_session.refused)
        assert "schema 2 of the federation" in str(node.agent_session.refused)
        node.serve(5)  # it goes on with the model that it has
        ask(running)
        running.until(lambda: running.coordinator.finished == 2)
        assert set(running.coordinator.covered) == {"a", "c"}
        assert "b" not in running.session.members
        check(running)
        assert "b has schema 1" in str(texts(running, "schema"))
        node.close()
        node._rules = type(node._rules)(without_records="drop")
        running.come_back("b")
        theta = settle(running)
        assert len(theta) == NEW.dim


@both
def test_a_new_agent_with_an_old_bundle_and_an_old_one_with_a_new_bundle(tmp_path, name):
    with federation(tmp_path / "a", name) as running:
        serve(running)
        old = running.agreement
        running.change_features(NEW)
        settle(running)
        new, running.agreement = running.agreement, old
        running.add("d").serve(12)
        running.agreement = new
        running.nodes["a"].agreement = new
        running.restart("a")
        theta = settle(running)
        assert running.nodes["d"].revision == 2
        assert len(theta) == NEW.dim
        running.restart("d")
        assert running.nodes["d"].revision == 2


@both
def test_agents_that_are_ahead_of_the_coordinator_are_rejected_with_a_reason(tmp_path, name):
    with federation(tmp_path / "a", name) as running:
        serve(running)
        settle(running)
        running.file.close()
        backup = running.backup("coordinator")
        before = running.agreement
        running.begin()
        running.change_features(NEW)
        settle(running)
        running.file.close()
        running.restore("coordinator", backup)
        new, running.agreement = running.agreement, before
        running.begin()  # an old copy of the file and of the folder
        for node in running.all():
            running.say(node, node.agent_session.hello())
        running.run(3.0)
        assert not any(node.agent_session.admitted for node in running.all())
        assert "revision: '2', the federation has '1'" in str(
            running.nodes["a"].agent_session.refused
        )
        assert {node.revision for node in running.all()} == {2}
        serve(running, 2)
        running.file.close()
        running.agreement = new
        running.begin()  # the file is old, but its schema follows the folder
        running.run(3.0)
        assert "--after 2" in str(running.nodes["a"].agent_session.refused)
        running.file.close()
        running.begin(after=2)
        settle(running)
        check(running)


@pytest.mark.parametrize(
    "sent",
    [
        "no JSON", "[]", "3", "null", "{}", '{"version": 2}', '{"version": 1, "arm": 3}',
        '{"version": 1, "arm": {"a": {"kind": "number", "knots": [2, 1]}}}',
        '{"version": 1, "arm": {"a": {"kind": "category", "levels": ["x"]}}, "more": 1}',
        json.dumps({"version": 1, "arm": {"a": {"kind": "category", "buckets": 10**6}}}),
        json.dumps({"version": 1, "arm": {k: {"kind": "category", "buckets": 900} for k in "xyz"}}),
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_is_refused(tmp_path, sent):
    with federation(tmp_path / "a", "auto", "a") as running:
        running.nodes["a"].serve(5)
        settle(running)
        node = running.nodes["a"]
        before = node.learner.protocol_client.to_arrays()
        assert node.agent_session.receive(NewSchema(2, 1, sent)) == []
        assert (node.revision, node.model) == (1, 1)
        assert "schema 2 of the federation" in str(node.agent_session.refused)
        after = node.learner.protocol_client.to_arrays()
        assert all(np.array_equal(before[k], after[k]) for k in before)
        node.serve(5)
        running.change_features(NEW)  # number 2 too: it is not tried again
        running.run(2.0)
        assert node.revision == 1
        running.change_features(NEW)
        settle(running)


def test_a_federation_of_vectors_takes_no_schema(tmp_path):
    with harness(tmp_path / "a", ["a"]) as running:
        running.until(running.everybody_here)
        node = running.nodes["a"]
        schema = NewSchema(2, 0, json.dumps(NEW.plain()))
        assert node.agent_session.receive(schema) == []
        assert node.learner.agreement.features is None
        node.feed(4)
        running.until(lambda: running.shared(1))


@both
def test_a_change_asks_for_an_update_where_the_trigger_fires(tmp_path, name):
    """No sample comes after it, and yet there is a model again."""
    eager = {"auto": fg.fedglb_auto(0.01), "newton": fg.fedglb_ucb(0.01, fg.Newton())}[name]
    start = Agreement(OLD.problem(), eager, 5, features=OLD)
    with harness(tmp_path / "a", ["a", "b"], start, POLICY) as running:
        serve(running)
        running.until(lambda: running.shared(1))
        newest = running.coordinator.finished
        running.change_features(NEW)
        running.until(lambda: changed(running) and running.shared(newest + 1))
        check(running)


SEEDS = [(name, to, seed) for seed in range(12) for name in ALGORITHMS for to in SCHEMAS]


@pytest.mark.some(6)
@pytest.mark.parametrize(("name", "to", "seed"), SEEDS)
def test_loss_doubles_delay_and_crashes_change_nothing(tmp_path, name, to, seed):
    """The schema changes once or twice at any moment, also within an update."""
    rng = np.random.default_rng([seed, 7])
    last = SCHEMAS[to]
    with federation(tmp_path / "a", name, seed=seed, **LOSSY) as running:
        running.until(running.everybody_here)
        changes = [fg.Features(arm={"kind": fg.Category(["toys"])}), last][seed % 2 :]
        crashes, steps = 0, 0
        while changes or steps < 300:
            steps += 1
            up = [node for node in running.all() if node.up]
            for node in up:
                if rng.random() < 0.05:
                    node.serve(1)
                if rng.random() < 0.01:
                    node.agent_session.ask()
            if changes and rng.random() < 0.02:
                if rng.random() < 0.5:
                    running.change_features(changes.pop(0))
                else:  # it is down meanwhile, and finds the schema when it starts
                    revision = running.agreement.revision + 1
                    running.agreement = running.agreement.with_features(changes.pop(0), revision)
                    running.crash()
            if rng.random() < 0.03 and crashes < 15:
                crashes += 1
                who = str(rng.choice(list(running.nodes)))
                match rng.integers(4):
                    case 0:
                        running.crash()
                    case 1:
                        running.stop()
                    case 2 if running.nodes[who].up:
                        running.nodes[who].agreement = running.agreement  # with the new bundle
                        running.take_down(who)
                    case 3 if running.nodes[who].up:
                        running.take_down(who)
            running.step()
        running.loss = running.twice = running.delay = 0.0
        theta = anew(running)
        assert equal(theta, fresh(tmp_path / "b", running, last))


# -- real processes ------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
#: `fedglb federation features` that dies when it replaces its k-th file, before or after.
DYING = """
import os, signal, sys
from fedglb.cli import main
left, after, real = int(sys.argv.pop(1)), int(sys.argv.pop(1)), os.replace

def replace(*given, **more):
    global left
    left -= 1
    if left < 0 and not after:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*given, **more)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = replace
main()
"""


class Shops:
    """Three agents and a coordinator in processes; whoever is killed is started again."""

    def __init__(self, running: Running, folder: Path) -> None:
        self.running, self.folder = running, folder
        self.fed = dict.fromkeys(NAMES, 0)  # acknowledged samples
        self.processes: dict[str, Process] = {}
        self.kills = 0
        for name in (*NAMES, "coordinator"):
            self.start(name)

    def start(self, name: str) -> None:
        if name == "coordinator":
            made = coordinator(self.running, self.folder / "coordinator.db")
        else:
            made = agent(self.running, name, self.folder)
            made.next()
        self.processes[name] = made

    def kill(self, name: str) -> None:
        self.kills += 1
        self.processes[name].kill()
        self.start(name)

    def status(self) -> dict[str, dict]:
        return {name: self.processes[name].ask(do="status") for name in NAMES}

    def serve(self, name: str, n: int) -> None:
        last = self.fed[name] + n
        assert self.processes[name].ask(do="visit", seed=name, last=last) == {"samples": last}
        self.fed[name] = last

    def change(self, path: Path, *dying: int) -> int:
        """Run the command; `dying`: it dies at this file, 0 before or 1 after it is replaced."""
        program = ["-c", DYING, *map(str, dying)] if dying else ["-m", "fedglb.cli"]
        command = ["federation", "features", str(self.running.folder), str(path)]
        done = subprocess.run(
            [sys.executable, *program, *command], capture_output=True, timeout=PATIENCE
        )
        return done.returncode

    def stop(self) -> None:
        for process in self.processes.values():
            process.stop()


def expected(agreement: Agreement, fed: dict[str, int]) -> np.ndarray:
    """θ of one update of the protocol, in memory, with these samples under this schema."""
    assert agreement.features is not None
    clients = {}
    for name in sorted(fed):
        clients[name] = fg.Client(name, agreement.algorithm, agreement.setting)
        arms, rewards, contexts, ids = past(name, fed[name])
        X = agreement.features.encode_rows(arms, contexts)
        for k, (x, y, each) in enumerate(zip(X, rewards, ids, strict=True)):
            clients[name].observe(x, y, k + 1, id=each)
    head = fg.Coordinator(agreement.algorithm, agreement.setting, clients)
    messages = head.begin(max(fed.values()))
    while messages:
        message = messages.pop(0)
        receiver = head if message.upward else clients[str(message.client)]
        messages += receiver.receive(message)
    assert head.model is not None
    assert head.model.theta is not None
    return np.array(head.model.theta)


@pytest.mark.slow
def test_killed_processes_lose_nothing(tmp_path):
    """kill -9 of agents, coordinator and command, at random moments of six changes."""
    rng = np.random.default_rng(12)
    table = AgreementTable(
        10, ProblemTable(), {"name": "fedglb-auto", "threshold": 1e9}, features=OLD.plain()
    )
    toml, schemas = tmp_path / "new.toml", [NEW, EQUAL, OLD, EQUAL, NEW, OLD]
    with federation_of_processes(tmp_path, NAMES, table) as running:
        shops = Shops(running, tmp_path)
        try:
            for revision, features in enumerate(schemas, 2):
                for name in NAMES:
                    shops.serve(name, int(rng.integers(3, 20)))
                toml.write_text(features.to_toml())
                for _ in range(2):  # the command, killed at one of its files
                    code = shops.change(toml, int(rng.integers(6)), int(rng.integers(2)))
                    assert code == -signal.SIGKILL
                    shops.kills += 1
                    if rng.random() < 0.5:
                        shops.kill(str(rng.choice([*NAMES, "coordinator"])))
                    shops.serve(str(rng.choice(NAMES)), 1)
                assert shops.change(toml) == 0
                for _ in range(3):
                    time.sleep(float(rng.random()))
                    shops.kill(str(rng.choice([*NAMES, "coordinator"])))
                    shops.serve(str(rng.choice(NAMES)), 1)
                eventually(
                    lambda revision=revision: all(
                        s["admitted"] and s["revision"] == revision for s in shops.status().values()
                    ),
                    f"schema {revision} with everybody", lambda: (shops.status()),
                )  # fmt: skip
                head = shops.processes["coordinator"]
                shops.processes["a"].ask(do="request")
                whole = head.hear(lambda line: line["event"] == "updated")
                assert (whole["clients"], whole["samples"]) == (3, sum(shops.fed.values()))
                agreement = running.coordinator_bundle.agreement
                assert (agreement.revision, agreement.features) == (revision, features)
                theta = expected(agreement, shops.fed)
                for name in NAMES:
                    held = shops.processes[name].ask(do="model", update=whole["number"])
                    assert equal(np.array(held["theta"]), theta)
        finally:
            shops.stop()
    assert shops.kills >= 30
    for name in NAMES:
        log = whole_log(tmp_path / f"{name}.db", schemas[-1].dim)
        kept = log.filter(log["outcome"] == "observed").sort("rewarded")
        arms, rewards, contexts, ids = past(name, shops.fed[name])
        assert kept["reward"].to_list() == rewards
        assert [json.loads(each)["arm"] for each in kept["record"]] == arms
        assert [json.loads(each)["context"] for each in kept["record"]] == contexts
        assert kept["arm_id"].to_list() == ids
        assert np.array_equal(
            np.array(kept["x"].to_list()), schemas[-1].encode_rows(arms, contexts)
        )
