from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import fedglb as fg
from fedglb.privacy import state
from fedglb.privacy.accounting import zcdp_epsilon

PROBLEM = fg.Problem(dim=5)


def stated(releases=10, simulated=False, clients=20, **given):
    gaussian = fg.GaussianMechanism(1.0, 1e-6, **given)
    return state(gaussian, gaussian.plan(PROBLEM, clients, 30), releases, simulated)


def test_what_is_stated():
    said = stated()
    assert isinstance(said, fg.PrivacyStatement)
    assert (said.epsilon, said.delta, said.neighbours, said.contributions) == (
        1.0, 1e-6, "zero-out", 1,
    )  # fmt: skip
    assert (said.releases, said.updates, said.noise) == (10, 30, "sums")
    assert (said.honest, said.members) == (18, 20)
    assert said.zcdp_epsilon == zcdp_epsilon(said.mu, 1e-6) > said.epsilon
    assert (said.vector_noise, said.matrix_noise) == (
        said.plan.vector_noise, said.plan.matrix_noise,
    )  # fmt: skip
    with pytest.raises(dataclasses.FrozenInstanceError):
        said.epsilon = 2.0


def test_what_is_spent():
    said = stated(releases=10)
    spent = [said.spent(k) for k in range(31)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(1.0, rel=1e-10)
    assert said.spent() == spent[10]
    with pytest.raises(fg.InvalidInput, match="releases = 31"):
        said.spent(31)
    with pytest.raises(fg.InvalidInput, match="releases = 31"):
        stated(releases=31)


def test_who_is_protected_from_whom():
    sums, silo = stated(), stated(noise="silo")
    assert "sums over 20 clients or more, and from every other client" in sums.protects[0]
    assert sums.protects[1] == (
        "this holds while 18 clients in every sum are honest: up to 2 clients may collude, also "
        "with the coordinator; against 3 together epsilon = 1.031"
    )
    assert not any("honest" in sentence for sentence in silo.protects)
    assert any("secure sums" in sentence for sentence in sums.caveats)
    assert not any("secure sums" in sentence for sentence in silo.caveats)
    assert any("simulated noise" in note for note in stated(simulated=True).caveats)
    assert not any("simulated" in note for note in sums.caveats)


def test_where_all_must_be_honest_no_two_may_collude():
    said = stated(clients=5)
    assert (said.honest, said.members) == (4, 5)
    assert said.protects[1] == (
        "this holds while 4 clients in every sum are honest: no two clients may collude; against "
        "2 together epsilon = 1.168"
    )
    assert said.against(1) == pytest.approx(1.0, rel=1e-10)
    assert round(said.against(2), 3) == 1.168


def test_the_table_of_the_page():
    """What ε = 1 becomes, as docs/privacy.md has it."""
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    clients = (3, 5, 9, 10, 20, 50)
    said = [stated(clients=n) for n in clients]
    rows = {
        "N": clients,
        "h": [each.honest for each in said],
        "may collude, M − h": [each.members - each.honest for each in said],
        "ε against one more": [
            f"{each.against(each.members - each.honest + 1):.3f}" for each in said
        ],
        "ε against half of them, ⌊N/2⌋": [
            f"{each.against(each.members // 2):.3f}" for each in said
        ],
    }
    for name, values in rows.items():
        assert f"| {name} | {' | '.join(map(str, values))} |" in page


def test_where_each_share_suffices_all_may_collude():
    for said in (stated(clients=2), stated(honest=0.01), stated(noise="silo")):
        assert said.honest == 1
        assert "even if they collude" in said.protects[0]
        assert not any("secure sums" in note for note in said.caveats)
        assert said.against(1) <= said.against(said.plan.clients - 1) <= 1.0 + 1e-10


def test_the_text():
    text = str(stated(simulated=True, contributions=2, neighbours="replace"))
    lines = text.splitlines()
    assert lines[0].startswith(
        "epsilon = 1, delta = 1e-06 (replace neighbours, 2 interactions per user); spent so far: "
    )
    assert "10 of 30 releases" in lines[1]
    assert all(len(line) < 200 for line in lines)
    assert "plan=" not in repr(stated())


def test_what_is_spent_is_the_whole_budget_only_after_the_last_update():
    """Late updates spend less than a few rounded digits show."""
    privacy = fg.GaussianMechanism(epsilon=1.0, delta=1e-6)
    plan = privacy.plan(fg.Problem(dim=3), clients=200, updates=100)
    said = [state(privacy, plan, releases, simulated=True) for releases in range(101)]
    texts = [str(each).partition("spent so far: epsilon = ")[2].split()[0] for each in said]
    assert [text for text in texts if float(text) >= 1.0] == ["1"]
    assert texts[0] == "0"
    assert texts[-1] == "1"
    assert max(len(text) for text in texts) <= len("0.9999998")
