from __future__ import annotations

import dataclasses

import pytest

import fedglb as fg
from fedglb.privacy import state
from fedglb.privacy.accounting import zcdp_epsilon

PROBLEM = fg.Problem(dim=5)


def stated(releases=10, simulated=False, **given):
    gaussian = fg.GaussianMechanism(1.0, 1e-6, **given)
    return state(gaussian, gaussian.plan(PROBLEM, 20, 30), releases, simulated)


def test_what_is_stated():
    said = stated()
    assert isinstance(said, fg.PrivacyStatement)
    assert (said.epsilon, said.delta, said.neighbours, said.contributions) == (
        1.0, 1e-6, "zero-out", 1,
    )  # fmt: skip
    assert (said.releases, said.updates, said.honest, said.noise) == (10, 30, 18, "sums")
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
    assert any("18 honest clients" in sentence for sentence in sums.protects)
    assert not any("honest" in sentence for sentence in silo.protects)
    assert any("secure sums" in sentence for sentence in sums.caveats)
    assert not any("secure sums" in sentence for sentence in silo.caveats)
    assert any("simulated noise" in note for note in stated(simulated=True).caveats)
    assert not any("simulated" in note for note in sums.caveats)


def test_the_text():
    text = str(stated(simulated=True, contributions=2, neighbours="replace"))
    lines = text.splitlines()
    assert lines[0].startswith(
        "epsilon = 1, delta = 1e-06 (replace neighbours, 2 interactions per user); spent so far: "
    )
    assert "10 of 30 releases" in lines[1]
    assert all(len(line) < 200 for line in lines)
    assert "plan=" not in repr(stated())
