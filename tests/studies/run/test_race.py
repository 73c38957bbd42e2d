"""Candidates are stopped only where they cannot win: in made-up and real searches."""

from __future__ import annotations

import itertools
import json
import os
import signal

import numpy as np
import pytest

import fedglb as fg
from fedglb.studies.run import race as race_module
from fedglb.studies.run.race import LOOKS, Entrant, mean, race, run_while_it_can_win, score
from fedglb.studies.run.search import candidates, searches
from fedglb.studies.spec.plan import read_plan
from tests.studies.spec.test_plan import FILE


def replayed(regrets):
    """Who wins, by the rule, if runs had these regrets: (candidates, algorithms, seeds, points)."""
    final = [[mean(row) for row in one] for one in regrets[..., -1].tolist()]
    leader = min(range(len(final)), key=lambda c: score(regrets[c, :, 0, -1].tolist()))

    def stopped(c):
        so_far = regrets[c].copy()
        so_far[:, 0] = regrets[c, :, 0, -1:]  # the first seed was run to the end before
        looks = np.moveaxis(so_far, -1, 0).tolist()
        return any(score([mean(row) for row in look]) > score(final[leader]) for look in looks)

    alone = regrets.shape[2] == 1  # one seed: all candidates are run to the end
    whole = [c for c in range(len(final)) if c == leader or alone or not stopped(c)]
    return min(whole, key=lambda c: score(final[c]))


@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1e-12, 0.3, 3.0])
def test_the_winner_is_never_stopped_whatever_the_regrets(scale, spread):
    rng = np.random.default_rng(13)
    for _ in range(100):
        shape = tuple(rng.integers(1, [7, 5, 5, 7]))
        apart = np.exp(spread * rng.normal(size=(shape[0], 1, 1, 1)))
        steps = rng.exponential(scale, shape) * apart
        regrets = np.where(rng.random(shape) < 0.3, 0.0, steps).cumsum(axis=3)
        chosen = replayed(regrets)
        best = [score([mean(row) for row in one]) for one in regrets[..., -1].tolist()]
        assert chosen == best.index(min(best))  # of equals the first, as without stopping


TABLES = {
    "name": "race", "horizon": 100, "seeds": [5, 6], "problem": {"dim": 3},
    "environment": {"clients": 2, "arms": 4},
    "algorithm": [
        {"name": "fedglb-ucb", "threshold": 1.0, "solver": "newton"}, {"name": "n-ons-glm"},
        {"name": "fedglb-ucb-1", "updates": 7, "solver": "newton"},
    ],
}  # fmt: skip
BEFORE = ((10.0,), (20.0,), (15.0,))


def test_a_candidate_that_may_win_ends_with_the_regrets_of_a_sweep(tmp_path):
    experiment = fg.read_experiment(TABLES)
    made = run_while_it_can_win(experiment, BEFORE, float("inf"))
    runs = fg.sweep(TABLES, tmp_path / "sweep", jobs=1).runs
    by_label = runs["regret"].to_numpy().reshape(3, 2)
    expected = [mean([*k, *row]) for k, row in zip(BEFORE, by_label.tolist(), strict=True)]
    assert made.regrets == expected  # to the bit, although the steps are cut into pieces
    assert made.steps == 300  # the seed before included


def test_seeds_that_do_not_fit_beside_each_other_are_played_later(monkeypatch):
    experiment = fg.read_experiment({**TABLES, "seeds": [5, 6, 7, 8, 9]})
    whole = run_while_it_can_win(experiment, BEFORE, float("inf"))
    monkeypatch.setattr(race_module, "LARGEST", 2 * len(TABLES["algorithm"]))
    assert run_while_it_can_win(experiment, BEFORE, float("inf")) == whole
    assert whole.steps == 600
    limit = score(whole.regrets) - 0.5
    stopped = run_while_it_can_win(experiment, BEFORE, limit)
    assert 300 < stopped.steps < 600
    assert limit < score(stopped.regrets) <= score(whole.regrets)


def test_it_stops_at_the_first_look_at_which_it_cannot_win():
    experiment = fg.read_experiment(TABLES)
    traces = [
        [fg.simulate(c.algorithm, experiment.env, 100, seed).trace["regret"] for seed in (5, 6)]
        for c in experiment.configurations
    ]
    scores = [
        score([mean([*k, *(t[at] for t in row)]) for k, row in zip(BEFORE, traces, strict=True)])
        for at in range(100)
    ]
    for limit in (0.0, scores[30], scores[31], scores[98], scores[99]):
        made = run_while_it_can_win(experiment, BEFORE, limit)
        every = 100 // LOOKS
        looks = range(every - 1, 100, every)
        steps = 1 + next((at for at in looks if scores[at] > limit), 99)
        assert made.steps == 100 + 2 * steps
        assert score(made.regrets) == scores[steps - 1]


def entrants(limit=3.0):
    plan = read_plan({**FILE, "search": {**FILE["search"], "seeds": [101, 102]}}, "full")
    every = candidates(plan.search)
    return [
        Entrant(fg.read_experiment(searches(plan, [c], [102])[0]), ((9.0,),), limit) for c in every
    ]


@pytest.mark.slow
def test_jobs_do_not_change_anything_and_what_was_run_is_not_run_again(tmp_path, monkeypatch):
    counts = []
    alone = race(entrants(), tmp_path / "one", 1, counts.append)
    assert counts == list(range(1, len(alone) + 1))
    assert race(entrants(), tmp_path / "two", 2, lambda count: None) == alone
    monkeypatch.setattr(race_module, "run_while_it_can_win", None)
    assert race(entrants(), tmp_path / "two", 1, counts.append) == alone


def test_a_race_that_was_stopped_goes_on(tmp_path):
    class Stop(Exception):
        pass

    def stop(count):
        if count == 3:
            raise Stop

    with pytest.raises(Stop):
        race(entrants(), tmp_path / "a", 1, stop)
    assert len(list((tmp_path / "a").iterdir())) == 3
    damaged = next((tmp_path / "a").iterdir())
    damaged.write_text("{")
    assert race(entrants(), tmp_path / "a", 1, lambda count: None) == race(
        entrants(), tmp_path / "b", 1, lambda count: None
    )


def test_another_limit_another_start_or_another_candidate_is_another_question():
    one, *others = entrants()
    changed = [Entrant(one.experiment, one.before, 2.0), Entrant(one.experiment, ((8.0,),), 3.0)]
    names = [entrant.file() for entrant in (one, *others, *changed)]
    assert len(set(names)) == len(names)
    assert one.file() == entrants()[0].file()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_the_race_goes_on(tmp_path, monkeypatch):
    work, marker = race_module._work, tmp_path / "died"

    def dies_once(number, *rest):
        if number == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(number, *rest)

    monkeypatch.setattr(race_module, "_work", dies_once)
    made = race(entrants(), tmp_path / "a", 2, lambda count: None)
    assert marker.exists()
    assert made == race(entrants(), tmp_path / "b", 1, lambda count: None)


@pytest.mark.slow
def test_workers_that_die_again_and_again_end_the_race(tmp_path, monkeypatch):
    monkeypatch.setattr(race_module, "_work", lambda *rest: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(fg.SweepFailed, match=r"3 times in a row"):
        race(entrants(), tmp_path / "a", 2, lambda count: None)


def test_a_candidate_that_fails_is_named_after_the_others_have_ended(tmp_path, monkeypatch):
    play, calls = race_module.run_while_it_can_win, itertools.count()

    def fails_once(*arguments):
        if next(calls) == 1:
            raise ValueError("bad radius")
        return play(*arguments)

    monkeypatch.setattr(race_module, "run_while_it_can_win", fails_once)
    with pytest.raises(fg.SweepFailed, match=r"FedGLB-UCB D=1.*ValueError: bad radius"):
        race(entrants(), tmp_path / "a", 1, lambda count: None)
    assert len(list((tmp_path / "a").iterdir())) == len(entrants()) - 1
    assert all(json.loads(path.read_bytes())["steps"] for path in (tmp_path / "a").iterdir())
