"""A revoked member: its key is refused by members, also if the coordinator keeps it.

Agents follow a roster that only gets smaller, if their owners allow it, while they run.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack

import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import doctor
from fedglb.federation.agent.roster import accept_roster
from fedglb.federation.bundle import Bundle
from fedglb.federation.key_request import REQUEST, KeyRequest
from fedglb.federation.operator import operator
from fedglb.federation.secure_sums.masks import unmasked
from fedglb.federation.secure_sums.roster import FILE, Roster
from fedglb.federation.secure_sums.session_keys import SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire.messages import Admitted, Withdrawal
from fedglb.federation.wire.sum_messages import AllHere, SessionKey, SessionKeys, SumCall
from fedglb.protocol.messages import MaskedSum
from tests.cli import in_process as cli
from tests.federation.helpers.in_process import Serving, play
from tests.federation.helpers.json_processes import Service, coordinator
from tests.federation.helpers.nats_federation import (
    PATIENCE,
    Running,
    eventually,
    federation,
)
from tests.federation.helpers.nats_process import free_port
from tests.federation.operator.test_roster import table

NAMES = ("a", "b", "c", "d", "e")
LEFT = NAMES[:-1]


def agreed(**more):
    given = {"minimum": 4, "max_clients": 5, "first": 1e6, **more}
    return table(**given)


@pytest.fixture
def still(tmp_path):
    """A federation whose server does not run: a test speaks with its agents by hand."""
    return federation(tmp_path, NAMES, agreed())


def opened(still, folder, name, **more):
    bundle = still.folder / "clients" / name
    problem = Bundle.read(bundle).agreement.problem
    return fg.Agent.open(folder / f"{name}.db", problem, bundle=bundle, beat=0.05, **more)


def digest_of(agent):
    """The roster that an agent takes part with."""
    return agent._client.agreement.roster


class Liar:
    """A coordinator by hand, with a roster of its choice, against agents with their files."""

    def __init__(self, agents, bundle):
        self.agents, self.rules, self.slot = agents, bundle.sum_rules(), 0
        self.keys = {}

    def greet(self):
        """Hear the session key of every agent."""
        for name, agent in self.agents.items():
            answers = self.say(name, Admitted(0))
            [key] = [answer for answer in answers if isinstance(answer, SessionKey)]
            session = agent._session.session
            self.keys[name] = SignedKey(name, key.generation, session, key.key, key.signature)

    def say(self, name, message):
        return self.agents[name]._session.receive(message)

    def call(self, members):
        """Call a set under the liar's roster, after everybody was given all keys."""
        self.slot += 1
        bits, keys = self.rules.roster.bitmap(members), [self.keys[name] for name in members]
        digests = [key.digest for key in keys]
        transcript = self.rules.transcript(self.slot, 1, bits, NO_MODEL, digests)
        sent = [(k.name, k.generation, k.session, k.key, k.signature) for k in keys]
        call, out = SumCall(self.slot, 1, bits, NO_MODEL, transcript), {}
        for name in members:
            if name in self.agents:
                self.say(name, SessionKeys(sent))
                out[name] = self.say(name, call)
        return call, out

    def agree(self, call, answers, names):
        """Ask for consent to the sum of what the set has sent."""
        assert all(isinstance(said[-1], MaskedSum) for said in answers.values())
        signatures = [said[-1].signature for said in answers.values()]
        all_here = AllHere(call.update, call.transcript, signatures)
        return {name: self.say(name, all_here) for name in names}


def test_members_refuse_a_coordinator_that_keeps_a_revoked_member(still, tmp_path):
    with ExitStack() as stack:
        agents = {
            name: stack.enter_context(opened(still, tmp_path, name, follow_roster=True))
            for name in NAMES
        }
        for name, agent in agents.items():
            play(agent, name, 3)
        liar = Liar(agents, still.coordinator_bundle)
        liar.greet()
        begun, vectors = liar.call(NAMES)
        assert all(isinstance(said[-1], MaskedSum) for said in vectors.values())

        stolen = agents.pop("e")
        operator.revoke(still.folder, ["e"])  # writes the folders that the agents have open
        smaller = still.coordinator_bundle.agreement.roster
        for agent in agents.values():
            eventually(lambda agent=agent: digest_of(agent) == smaller, "the smaller roster")
        assert digest_of(stolen) != smaller

        # a sum that was in progress gets no consent any more
        said = liar.agree(begun, vectors, LEFT)
        assert said == {name: [Withdrawal(begun.update)] for name in LEFT}
        # nor does one with old or new keys of the others, and the revoked member's
        for again in (False, True):
            if again:
                liar.greet()
            call, answers = liar.call(NAMES)
            assert answers == {name: [Withdrawal(call.update)] for name in LEFT}
            call, answers = liar.call(LEFT)  # whoever is in the set: the roster is another one
            assert not any(isinstance(m, MaskedSum) for said in answers.values() for m in said)

        honest = Liar(agents, still.coordinator_bundle)
        honest.slot = liar.slot
        honest.greet()
        honest.keys["e"] = liar.keys["e"]
        call, vectors = honest.call(LEFT)
        added = sum(vectors[name][-1].numbers.view("u8") for name in LEFT)
        seeds = [said[-1].seed for said in honest.agree(call, vectors, LEFT).values()]
        total = unmasked(added, seeds, call.transcript)
        assert total.any(), "all samples are in this sum: those of the one given up were not lost"
        assert abs(int(total[2])) <= 12 << 40, "masks have cancelled"


def test_without_the_owners_leave_nothing_is_followed(still, tmp_path, caplog):
    agent = opened(still, tmp_path, "a")
    first = digest_of(agent)
    with agent:
        operator.revoke(still.folder, ["e"])
        eventually(lambda: "the agent continues with the roster it had" in caplog.text, "a word")
        assert digest_of(agent) == first
        assert agent.choose([[1.0, 0.0]]).arm == 0  # it learns alone
    bundle = still.folder / "clients" / "a"
    found = doctor.member(bundle, tmp_path / "a.db")
    [finding] = [f for f in found if f.check == "roster"]
    assert finding.grade == "fault"
    assert finding.remedy.endswith(f"--roster {still.coordinator_bundle.agreement.roster}")
    with pytest.raises(InvalidInput, match="--follow-roster"):
        opened(still, tmp_path, "a")
    with opened(still, tmp_path, "a", follow_roster=True) as agent:
        assert digest_of(agent) == still.coordinator_bundle.agreement.roster != first
    with opened(still, tmp_path, "a"):
        pass  # from now on it is the accepted one
    [finding] = [f for f in doctor.member(bundle, tmp_path / "a.db") if f.check == "roster"]
    assert finding.grade == "ok"


def other_key(keys):
    return {**keys, "b": keys["e"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda keys: {n: keys[n] for n in "abc"}, "at least 4 members"),
        (lambda keys: {n: keys[n] for n in "bcde"}, "the key of a"),
        (lambda keys: {**{n: keys[n] for n in "acd"}, "f": keys["b"]}, r"other members .*\(f\)"),
        (lambda keys: {**{n: keys[n] for n in "acd"}, "b": keys["e"]}, r"or keys \(b\)"),
        (lambda keys: None, "unchanged file"),
    ],
    ids=["too few", "without itself", "another member", "another key", "half a file"],
)
def test_what_no_agent_follows(still, tmp_path, change, said):
    """Whoever can write to the folder cannot make it join less safe sums; it starts as before."""
    with opened(still, tmp_path, "a", follow_roster=True):
        pass
    path = still.folder / "clients" / "a" / FILE
    before, changed = path.read_bytes(), change(Roster.read(path).keys)
    if changed is None:
        path.write_bytes(before[: len(before) // 2])
    else:
        Roster(changed).write(path)
    with pytest.raises(InvalidInput, match=said):
        opened(still, tmp_path, "a", follow_roster=True)
    path.write_bytes(before)
    with opened(still, tmp_path, "a", follow_roster=True) as agent:
        before = digest_of(agent)
        if changed is not None:
            Roster(changed).write(path)
        else:
            path.write_bytes(b"{")
        assert agent._session.follow_roster(path.parent) == []
        assert digest_of(agent) == before


def test_a_larger_roster_is_not_followed_back(still, tmp_path):
    """An attacker puts the old file back, with the revoked member."""
    path = still.folder / "clients" / "a" / FILE
    old = path.read_bytes()
    with opened(still, tmp_path, "a", follow_roster=True) as agent:
        operator.revoke(still.folder, ["e"])
        smaller = still.coordinator_bundle.agreement.roster
        eventually(lambda: digest_of(agent) == smaller, "the smaller roster")
        path.write_bytes(old)
        assert agent._session.follow_roster(path.parent) == []
        assert digest_of(agent) == smaller
    with pytest.raises(InvalidInput, match=r"other members or keys \(e\)"):
        opened(still, tmp_path, "a", follow_roster=True)


def test_a_smaller_roster_under_another_agreement_changes_nothing(still, tmp_path):
    """A folder with fewer members and a lower minimum is refused before the roster is taken up."""
    with opened(still, tmp_path, "a", follow_roster=True):
        pass
    folder = still.folder / "clients" / "a"
    old = {path: path.read_bytes() for path in (folder / FILE, folder / "federation.toml")}
    operator.revoke(still.folder, ["e"])
    text = (folder / "federation.toml").read_text()
    assert "minimum = 4" in text
    (folder / "federation.toml").write_text(text.replace("minimum = 4", "minimum = 3"))
    with pytest.raises(InvalidInput, match="secure_sums = '3'"):
        opened(still, tmp_path, "a", follow_roster=True)
    digest = Bundle.read(folder).agreement.roster
    with pytest.raises(InvalidInput, match="secure_sums = '3'"):
        accept_roster(tmp_path / "a.db", folder, digest)
    for path, content in old.items():
        path.write_bytes(content)
    with opened(still, tmp_path, "a"):
        pass  # the roster accepted first still is


def test_a_roster_that_could_not_be_taken_up_is_tried_again(still, tmp_path, caplog):
    """First the key beside it is another one, then the disk is full."""
    folder, fails = still.folder / "clients" / "a", [OSError(28, "No space left on device")]
    key = (folder / "key.pem").read_bytes()
    with opened(still, tmp_path, "a", follow_roster=True) as agent:
        first, follow = digest_of(agent), agent._session.follow_roster

        def full(place):
            if digest_of(agent) != Bundle.read(place).agreement.roster and good and fails:
                raise fails.pop()
            return follow(place)

        good, agent._session.follow_roster = [], full
        shutil.copy(still.folder / "clients" / "b" / "key.pem", folder)
        operator.revoke(still.folder, ["e"])
        eventually(lambda: "not the key of cert.pem" in caplog.text, "a word")
        assert digest_of(agent) == first
        assert Roster.parse(agent._client.store.roster, tmp_path).digest.hex() == first
        good.append(True)
        (folder / "key.pem").write_bytes(key)
        smaller = still.coordinator_bundle.agreement.roster
        eventually(lambda: digest_of(agent) == smaller, "the smaller roster")
        assert not fails


def test_over_a_real_server(tmp_path):
    """Revoked, followed, and the next update goes on without the revoked one."""
    with federation(tmp_path, NAMES, agreed(updates=60, first=0.3, growth=1.05)) as running:
        stolen = shutil.move(running.folder / "clients" / "e", tmp_path / "stolen")
        with ExitStack() as stack:
            agents = {
                name: stack.enter_context(opened(running, tmp_path, name, follow_roster=True))
                for name in LEFT
            }
            problem = agents["a"]._client.agreement.problem
            more = {"bundle": stolen, "beat": 0.05}
            agents["e"] = stack.enter_context(fg.Agent.open(tmp_path / "e.db", problem, **more))
            for name, agent in agents.items():
                play(agent, name, 3)
            state = tmp_path / "state.db"
            with Serving(running, state, absent_after=1.0) as keeps:
                keeps.wait("updated", clients=5)
                assert operator.revoke(running.folder, ["e"])
                for name in LEFT:  # a coordinator that does not take up the new roster
                    keeps.wait("left", client=name)
                    eventually(lambda name=name: agents[name].status.refused, f"{name} is refused")
                    assert "roster.json" in agents[name].status.refused
                    assert agents[name].choose([[1.0, 0.0]]).arm == 0
                eventually(lambda: agents["e"].status.refused, "e is refused")
                assert "revoked" in agents["e"].status.refused
                keeps.wait("left", client="e")
                held = keeps.session.coordinator.finished
            with Serving(running, state) as serving:
                assert serving.wait("updated").facts["clients"] == 4
                for name in LEFT:
                    assert agents[name].wait_for_model(held + 1, PATIENCE)
                    eventually(lambda name=name: agents[name].status.admitted, "all are back")
                assert agents["e"].status.model <= held


@pytest.mark.slow
def test_with_processes(tmp_path):
    """Own keys, a revocation, a coordinator that keeps the old roster, and one that does not."""
    for name in NAMES:
        assert cli.agent("key", tmp_path / name).returncode == 0
    requests = [KeyRequest.read(tmp_path / name / REQUEST) for name in NAMES]
    folder, port = tmp_path / "federation", free_port()
    schedule = agreed(updates=200, first=1.0, growth=1.02)
    given = [folder, "demo", schedule, NAMES, ["127.0.0.1"], port, "127.0.0.1"]
    operator.init(*given, requests=requests)
    for name in NAMES:
        shutil.copytree(folder / "clients" / name, tmp_path / name, dirs_exist_ok=True)
    state, own = tmp_path / "state.db", folder / "coordinator" / FILE
    with Running(folder, port) as running, ExitStack() as stack:
        started = [
            Service(tmp_path / f"{name}.db", "--bundle", tmp_path / name, "--follow-roster",
                    "--http", "127.0.0.1:0")
            for name in NAMES
        ]  # fmt: skip
        services = dict(zip(NAMES, map(stack.enter_context, started), strict=True))
        options = ("--absent-after", "2")
        with coordinator(running, state, *options) as head:
            head.hear(lambda line: line["event"] == "updated" and line["clients"] == 5)
            before = own.read_bytes()
            out = cli.federation("revoke", folder, "e")
            assert out.returncode == 0, out.stderr
            assert "Checked: the running server rejects them" in out.stdout
            for name in LEFT:
                shutil.copy(folder / "authority" / FILE, tmp_path / name)
                services[name].hear(lambda line: "follows the smaller roster" in line["text"])
            services["e"].hear(lambda line: "revoked or unknown to the server" in line["text"])
        smaller = own.read_bytes()
        own.write_bytes(before)
        with coordinator(running, state, *options) as head:  # it keeps the revoked member
            refused = set()
            while refused != set(LEFT):
                refused.add(head.hear(lambda line: line["event"] == "rejected")["client"])
            assert not [line for line in head.events if line["event"] in ("updating", "updated")]
        own.write_bytes(smaller)
        with coordinator(running, state, *options) as head:
            done = head.hear(lambda line: line["event"] == "updated")
            assert done["clients"] == 4


def test_the_commands(tmp_path):
    agent, federation = cli.agent, cli.federation
    folder, shops = tmp_path / "shops", [f"shop-{k}" for k in range(1, 6)]
    for name in shops[:4]:
        out = agent("key", tmp_path / name)
        assert out.returncode == 0, out.stderr
        assert "request.pem to the operator" in out.stdout
    requests = [word for n in shops[:4] for word in ("--request", tmp_path / n / "request.pem")]
    init = ["--name", "shops", "--dim", "3", "--clients", ",".join(shops), "--secure-sums",
            "--minimum", "4", "--updates", "5", "--first", "1h", "--growth", "2"]  # fmt: skip
    out = federation("init", folder, *init, *requests)
    assert out.returncode == 0, out.stderr
    assert KeyRequest.read(requests[1]).fingerprint in out.stdout
    assert "Made here: the key of shop-5. Whoever has a copy can act as" in out.stdout
    assert "copies" in out.stdout
    out = federation("renew", folder, "shop-1", "shop-5")
    assert f"Copy {folder}/clients/shop-1/* into the folder with its key, which stays" in out.stdout
    assert f"Copy {folder}/clients/shop-5/* to its machine" in out.stdout
    out = federation("revoke", folder, "shop-5")
    assert out.returncode == 0, out.stderr
    digest = Bundle.read(folder / "coordinator").agreement.roster
    assert f"New roster: {digest}" in out.stdout
    assert str(folder / "authority" / "roster.json") in out.stdout
    assert "STOP" not in out.stderr
    out = federation("revoke", folder, "shop-4")
    assert out.returncode == 0, out.stderr
    assert "Revoked: shop-4." in out.stdout
    assert "SECURE SUMS STOP" in out.stderr
    assert "New roster" not in out.stdout
    out = json.loads(federation("revoke", folder, "shop-3", "--json").stdout)
    assert (out["roster"], out["sums_stopped"], out["verified"]) == (digest, True, False)
    for name in ("shop-3", "shop-4"):
        os.rename(tmp_path / name, tmp_path / f"old-{name}")
    requests = ["--request", tmp_path / "old-shop-3" / "request.pem"]
    out = federation("add", folder, "shop-3", "shop-4", *requests)
    assert (out.returncode, "--request = 'shop-3'" in out.stderr) == (2, True)
    made = json.loads(agent("key", tmp_path / "new", "--name", "shop-3", "--json").stdout)
    out = federation("add", folder, "shop-3", "shop-4", "--request", made["request"])
    assert out.returncode == 0, out.stderr
    assert made["key"] in out.stdout
    assert "Made here: the key of shop-4." in out.stdout
    assert Bundle.read(folder / "coordinator").agreement.roster != digest
    out = agent("key", tmp_path / "new")
    assert (out.returncode, "FOLDER" in out.stderr) == (2, True)
    out = agent("key", tmp_path / "x y")
    assert (out.returncode, "--name = 'x y'" in out.stderr) == (2, True)
