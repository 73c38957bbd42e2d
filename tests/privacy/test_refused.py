"""Privacy where it cannot be had is refused by name, before anything is sent."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import fedglb as fg
from fedglb.algorithms.catalog import build
from fedglb.parts.confidence import Fixed
from fedglb.parts.local_update import Anchored, Frozen, Ons
from fedglb.parts.trigger import Always, Event, Geometric, Growth, Schedule
from fedglb.protocol.messages import SumsRequest

PRIVACY = fg.GaussianMechanism(1.0, 1e-6)


@pytest.mark.parametrize(
    "preset",
    [
        lambda privacy: fg.fedglb_ucb(1.0, privacy=privacy),
        lambda privacy: fg.fedglb_ucb(1.0, fg.Newton(), privacy=privacy),
        lambda privacy: fg.fedglb_mix(1.0, privacy=privacy),
        lambda privacy: fg.fedglb_auto(1.0, privacy=privacy),
        lambda privacy: replace(fg.dislinucb(1.0), privacy=privacy),
        lambda privacy: replace(fg.fedlinucb(1.0), privacy=privacy),
        lambda privacy: fg.Algorithm(
            "x", Ons(), fg.Newton(), Always(), Fixed(1.0), privacy=privacy
        ),
    ],
)
def test_an_event_trigger_is_a_release(preset):
    assert preset(None).privacy is None
    with pytest.raises(fg.InvalidInput, match="privacy") as error:
        preset(PRIVACY)
    assert error.value.argument == "privacy"
    assert "fedglb_private" in str(error.value)
    assert "raw samples" in str(error.value)


@pytest.mark.parametrize(
    "algorithm",
    [
        fg.fedglb_ucb_1(3), fg.fedglb_ucb_2(3, fg.Newton()), fg.fedglb_ucb_3(3),
        fg.Algorithm("x", Frozen(), fg.Newton(), Geometric(3), Fixed(1.0)),
    ],
)  # fmt: skip
def test_a_solver_that_asks_again_is_refused(algorithm):
    """On a schedule, but each round tells of every sample."""
    with pytest.raises(fg.InvalidInput, match=r"privacy = .*fedglb_private") as error:
        replace(algorithm, privacy=PRIVACY)
    assert error.value.argument == "privacy"
    assert "release each sample once" in str(error.value)


@pytest.mark.parametrize("preset", [fg.one_ucb_glm, fg.n_ucb_glm, fg.n_ons_glm, fg.n_ecolog])
def test_without_updates_there_is_nothing_to_make_private(preset):
    with pytest.raises(fg.InvalidInput, match="privacy"):
        replace(preset(), privacy=PRIVACY)


def test_a_private_algorithm_keeps_its_schedule():
    private = fg.fedglb_private(4, privacy=PRIVACY)
    for trigger in (Event(1.0), Growth(1.0), Always()):
        with pytest.raises(fg.InvalidInput):
            replace(private, trigger=trigger)
    assert replace(private, trigger=Schedule(7)).max_updates == 7


@pytest.mark.parametrize("link", [fg.Identity(), fg.Poisson()])
def test_rewards_without_a_bound_are_refused(link):
    problem = fg.Problem(2, link, noise=1.0)
    algorithm = fg.fedglb_private(2, privacy=PRIVACY)
    env = fg.Synthetic(problem, clients=3, arms=4)
    with pytest.raises(fg.InvalidInput, match=r"privacy\.reward_limit = None: .*no bound"):
        fg.simulate(algorithm, env, 10)
    with pytest.raises(fg.InvalidInput, match=r"privacy\.reward_limit"):
        algorithm.setting(problem, 3, 10)
    bounded = replace(algorithm, privacy=replace(PRIVACY, reward_limit=3.0))
    assert fg.simulate(bounded, env, 10).privacy.epsilon == 1.0
    assert fg.simulate(fg.fedglb_private(2), env, 10).privacy is None  # nothing to hide


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("epsilon", 0.0), ("epsilon", -1.0), ("epsilon", math.nan), ("epsilon", math.inf),
        ("epsilon", "1"), ("delta", 0.0), ("delta", 1.0), ("delta", 1.5), ("delta", -1e-6),
        ("noise", "sum"), ("neighbours", "add"), ("contributions", 0), ("contributions", 1.5),
        ("honest", 0.0), ("honest", 1.01), ("hessian_share", 0.0), ("hessian_share", 1.0),
        ("reward_limit", 0.0), ("reward_limit", math.inf),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused_by_name(key, value):
    with pytest.raises(fg.InvalidInput) as error:
        fg.GaussianMechanism(**{"epsilon": 1.0, "delta": 1e-6, key: value})
    assert error.value.argument == key
    assert key != "noise" or "did you mean sums" in str(error.value)
    with pytest.raises(fg.InvalidInput) as error:
        build("fedglb-private", {
            "updates": 3, "privacy": {"epsilon": 1.0, "delta": 1e-6, key: value},
        })  # fmt: skip
    assert error.value.argument == f"privacy.{key}"


def test_tables_of_privacy():
    made = build("fedglb-private", {
        "updates": 3, "privacy": {"epsilon": 2.0, "delta": 1e-5, "noise": "silo"},
    })  # fmt: skip
    assert made.privacy == fg.GaussianMechanism(2.0, 1e-5, "silo")
    assert build("fedglb-private", {"updates": 3, "privacy": "none"}).privacy is None
    assert build("fedglb-private", {"updates": 3, "privacy": PRIVACY}).privacy is PRIVACY
    for table, named in (
        ({"epsilon": 1.0, "delta": 1e-6, "sigma": 3.0}, "privacy.sigma"),
        ({"epsilon": 1.0}, "privacy.delta"),
        ({"delta": 1e-6}, "privacy.epsilon"),
        (1.0, "privacy"),
        ("some", "privacy"),
    ):
        with pytest.raises(fg.InvalidInput) as error:
            build("fedglb-private", {"updates": 3, "privacy": table})
        assert error.value.argument == named
    with pytest.raises(fg.InvalidInput, match="privacy"):
        build("fedglb-ucb", {"threshold": 1.0, "privacy": {"epsilon": 1.0, "delta": 1e-6}})
    with pytest.raises(fg.InvalidInput, match="privacy"):
        replace(fg.fedglb_private(3), privacy={"epsilon": 1.0})


def test_more_updates_than_steps_are_refused():
    env = fg.Synthetic(fg.Problem(2), clients=3, arms=4)
    with pytest.raises(fg.InvalidInput, match="updates = 11"):
        fg.simulate(fg.fedglb_private(11, privacy=PRIVACY), env, 10)


def test_a_rule_that_chooses_the_ridge_is_refused():
    """It looks at all samples again."""
    with pytest.raises(fg.InvalidInput, match="ridge"):
        replace(fg.fedglb_private(3, privacy=PRIVACY), ridge=fg.Evidence())


def test_rewards_beyond_what_whole_numbers_hold_are_refused_with_the_plan():
    with pytest.raises(fg.InvalidInput, match=r"reward_limit = 2000000\.0.*larger unit"):
        fg.GaussianMechanism(1.0, 1e-2, reward_limit=2e6).plan(fg.Problem(2, fg.Identity()), 5, 3)


@pytest.mark.parametrize("privacy", [None, fg.GaussianMechanism(8.0, 1e-2, reward_limit=1e5)])
def test_more_samples_than_sums_have_room_for_are_refused(privacy):
    """8,600 samples of 10⁵ fit into 63 bits for one client, and not for a hundred."""
    problem = fg.Problem(1, fg.Identity())
    algorithm = fg.fedglb_private(2, 1, privacy, growth=2.0)
    for clients, fits in ((1, True), (100, False)):
        client = fg.Client(0, algorithm, algorithm.setting(problem, clients, None))
        client.absorb([[1.0]] * 8600, [1e5] * 8600)
        request = SumsRequest(0, 1, 0)
        if fits:
            (answer,) = client.receive(request)
            assert answer.numbers[0] > 8600 * 1e5 * 2**30 * 0.99
        else:
            with pytest.raises(fg.InvalidInput, match=r"samples = 8600.*64 bits"):
                client.receive(request)


def test_a_client_that_learns_by_itself_is_not_said_to_protect_its_users():
    env = fg.Synthetic(fg.Problem(2), clients=5, arms=3)
    private = fg.fedglb_private(3, privacy=PRIVACY)
    said = fg.simulate(private, env, 10).privacy
    less = fg.simulate(replace(private, local_update=Anchored()), env, 10).privacy
    assert any("every user" in each for each in said.protects)
    assert not any("every user" in each for each in less.protects)
    assert any("own samples" in each for each in less.caveats)
