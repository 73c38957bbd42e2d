"""The alarms of an agent's service: rewards that stop or fall, its certificate, its disk."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agent import alarms
from fedglb.federation.agent.alarms import (
    Batch,
    Batches,
    Conditions,
    Silence,
    has_fallen,
    is_longer,
    silence_now,
    times,
    usual_silence,
    watching,
)
from fedglb.federation.alarms import AlarmBoard
from tests.federation.helpers.nats_federation import eventually

NOW = 1.8e9
HOUR, DAY = 3600.0, 86400.0
PROBLEM = fg.Problem(dim=2)


def file_of(path, made, rewarded, rewards=None):
    """Write an agent's file: when decisions were made, when rewards came (nan: none), and these."""
    fg.Agent.open(path, PROBLEM).close()
    rewards = np.ones(len(made)) if rewards is None else rewards
    has = np.flatnonzero(~np.isnan(rewarded))
    sequence = np.full(len(made), -1)
    sequence[has[np.argsort(rewarded[has], kind="stable")]] = np.arange(1, len(has) + 1)
    rows = [
        (k + 1, m, *((s, r, w) if s > 0 else (None, None, None)))
        for k, (m, s, r, w) in enumerate(
            zip(made.tolist(), sequence.tolist(), rewards.tolist(), rewarded.tolist(), strict=True)
        )
    ]
    with closing(sqlite3.connect(path)) as db:
        db.executemany(
            "INSERT INTO decisions(number, prefix, made, arms, arm, x, score, width, model, "
            "revision, sequence, reward, rewarded) VALUES (?, 'p', ?, 2, 0, x'00', 0, 0, 0, 1, "
            "?, ?, ?)",
            rows,
        )
        db.commit()
    return path


# -- no rewards ------------------------------------------------------------------------------------


def traffic(rng, days: int, per_hour, share: float, delay: float):
    """Decisions by a rate that changes over the day; a share gets a reward, after a while."""
    hours = np.arange(24 * days)
    counts = rng.poisson([per_hour(hour % 24) for hour in hours])
    made = np.sort(np.repeat(hours, counts) * HOUR + HOUR * rng.random(counts.sum()))
    rewarded = made + rng.exponential(delay, len(made))
    return made, np.where(rng.random(len(made)) < share, rewarded, np.nan)


def silences(made, rewarded, begin: float, end: float, every: float):
    """The alarm at each look, as the service takes them: what is usual is read every hour."""
    arrived, usual_at, usual, out = np.sort(rewarded[~np.isnan(rewarded)]), -math.inf, None, []
    for now in np.arange(begin, end, every):
        known, came = made[: np.searchsorted(made, now)], arrived[: np.searchsorted(arrived, now)]
        if now - usual_at >= HOUR:
            usual, usual_at = usual_silence(known[-100_000:], came[-100_000:]), now
        after = np.searchsorted(known, came[-1], side="right") if len(came) else len(known)
        first = known[after] if after < len(known) else now
        silence = Silence(now - first, len(known) - after)
        out.append(usual is not None and is_longer(silence, usual))
    return np.array(out)


STREAMS = {
    "a shop with clicks": (lambda hour: 200 if 8 <= hour < 20 else 4, 0.02, 60.0),
    "a site that never sleeps": (lambda hour: 600, 0.05, 600.0),
    "closed at night": (lambda hour: 60 if 8 <= hour < 18 else 0, 0.5, 1800.0),
    "few decisions, all rewarded": (lambda hour: 3, 1.0, 5 * HOUR),
}


LATEST = dict(zip(STREAMS, (16 * HOUR, HOUR, 2 * HOUR, 10 * HOUR), strict=True))


@pytest.mark.parametrize("name", STREAMS)
def test_rewards_that_come_as_usual_are_no_alarm_and_none_is_one(name):
    rate, share, delay = STREAMS[name]
    made, rewarded = traffic(np.random.default_rng(1), 60, rate, share, delay)
    assert not silences(made, rewarded, 0.0, 60 * DAY, 300.0).any()
    # from noon of the 50th day none arrives any more
    stop = 50 * DAY + 12 * HOUR
    stopped = np.where(rewarded < stop, rewarded, np.nan)
    found = silences(made, stopped, stop, stop + 4 * DAY, 900.0)
    assert found[-1]
    late = np.argmax(found) * 900.0
    assert late <= LATEST[name]
    assert found[np.argmax(found) :].all()  # it holds


def test_what_is_usual_is_the_second_longest_silence():
    made = np.arange(0.0, 1000.0, 1.0)
    rewarded = np.concatenate([np.arange(0.5, 500.0, 2.0), np.arange(560.5, 900.0, 2.0)])
    found = usual_silence(made, rewarded)
    assert found == Silence(1.5, 2)  # decisions at 1 and 2, a reward at 2.5
    twice = np.concatenate([rewarded, np.arange(940.5, 990.0, 2.0)])
    assert usual_silence(made, twice) == Silence(41.5, 42)  # from 899 to 940.5
    assert usual_silence(made, rewarded[:99]) is None


def test_a_silence_is_longer_than_usual_in_time_and_in_decisions():
    usual = Silence(3 * HOUR, 10)
    assert is_longer(Silence(3.1 * HOUR, 31), usual)
    assert not is_longer(Silence(2.9 * HOUR, 31), usual)
    assert not is_longer(Silence(3.1 * HOUR, 30), usual)
    assert not is_longer(Silence(800.0, 31), Silence(1.0, 10))
    assert is_longer(Silence(1000.0, 31), Silence(1.0, 10))
    # only so many decisions are counted
    assert is_longer(Silence(DAY, 100_000), Silence(HOUR, 40_000))


def test_hours_without_decisions_are_no_silence():
    made = np.concatenate([k * DAY + np.arange(0.0, HOUR, 10.0) for k in range(5)])
    found = usual_silence(made, made + 5.0)
    assert found == Silence(5.0, 1)


def test_three_times_the_second_longest_of_n_is_rare():
    """24/((n + 1)(n + 2)(n + 3)) for decisions between rewards of constant probability."""
    rng, n, tries = np.random.default_rng(2), 10, 400_000
    gaps = np.sort(rng.exponential(size=(tries, n)), axis=1)
    found = np.mean(rng.exponential(size=tries) > 3.0 * gaps[:, -2])
    expected = 24.0 / (11 * 12 * 13)
    assert abs(found - expected) < 5.0 * math.sqrt(expected / tries)


def test_silences_are_read_from_the_file(tmp_path):
    made = NOW + np.arange(0.0, 1000.0, 1.0)
    rewarded = np.where(np.arange(1000) < 900, made + 0.5, np.nan)
    with closing(sqlite3.connect(file_of(tmp_path / "a.db", made, rewarded))) as db:
        assert silence_now(db, NOW + 2000.0) == Silence(1100.0, 100)
        assert usual_silence(*times(db)) == usual_silence(made, rewarded[:900])


def test_default_rewards_are_no_rewards(tmp_path):
    made = NOW + np.arange(0.0, 1000.0, 1.0)
    rewarded = np.where(np.arange(1000) < 900, made + 0.5, made + 30.0)
    with closing(sqlite3.connect(file_of(tmp_path / "a.db", made, rewarded))) as db:
        assert silence_now(db, NOW + 2000.0).decisions == 0
        db.execute("UPDATE decisions SET defaulted = 1 WHERE made >= ?", (NOW + 900.0,))
        assert silence_now(db, NOW + 2000.0) == Silence(1100.0, 100)
        assert usual_silence(*times(db)) == usual_silence(made, rewarded[:900])


# -- falling rewards -------------------------------------------------------------------------------


def batches(rng, means, count: int, draw) -> list[Batch]:
    """Batches with these means, in order."""
    out = []
    for mean in means:
        rewards = draw(rng, mean, count)
        out.append(Batch(count, float(rewards.mean()), float(rewards.var())))
    return out


def alarmed(found: list[Batch]) -> np.ndarray:
    """The alarm after each batch, as the service takes it."""
    out, stands = [], False
    for k in range(len(found)):
        stands = has_fallen(found[max(0, k - 168) : k + 1][::-1], stands)
        out.append(stands)
    return np.array(out)


def clicks(rng, mean, count):
    return np.repeat([1.0, 0.0], [ones := rng.binomial(count, mean), count - ones])


def normal(rng, mean, count):
    return rng.normal(mean, 1.0, count)


HORIZON = 3000  # batches: at least 125 days
KINDS = [(0.02, 10_000, clicks), (0.5, 1000, clicks), (0.98, 1000, clicks), (-3.0, 1000, normal)]


@pytest.mark.parametrize(("mean", "count", "draw"), KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_rewards_of_one_mean_raise_no_alarm_and_a_fall_does(mean, count, draw, seed):
    rng = np.random.default_rng(seed)
    steady = batches(rng, [mean] * HORIZON, count, draw)
    assert not alarmed(steady).any()
    sd = math.sqrt(steady[0].variance / count)
    fallen = steady[-200:] + batches(rng, [mean - 12.0 * sd] * 100, count, draw)
    found = alarmed(fallen)
    assert not found[:200].any()
    assert found[200]  # at once
    assert found[200:210].all()  # it holds
    assert not found[-1]  # what lasts becomes usual
    back = alarmed(fallen[:205] + batches(rng, [mean] * 3, count, draw))
    assert back[204]
    assert not back[-1]  # rewards have recovered


@pytest.mark.parametrize(("mean", "count", "draw"), [KINDS[0], KINDS[1], KINDS[3]])
def test_the_share_of_false_alarms_is_the_stated_one(mean, count, draw, monkeypatch):
    """At 1 % in place of one in a million, so that there are some to count."""
    monkeypatch.setattr(alarms, "_FALSE", 0.01)
    found = batches(np.random.default_rng(5), [mean] * 20_000, count, draw)
    times_ = sum(has_fallen(found[k - 168 : k + 1][::-1], False) for k in range(168, len(found)))
    share = times_ / (len(found) - 168)
    assert 0.006 < share < 0.013


def test_days_and_nights_raise_no_alarm():
    hours = np.arange(24 * 60)
    for pattern in (1 + 0.8 * np.sin(hours / 24 * 2 * np.pi), np.where(hours % 24 == 3, 0.2, 1.0)):
        found = batches(np.random.default_rng(3), 0.05 * pattern, 10_000, clicks)
        assert not alarmed(found).any()


def test_rewards_that_were_all_equal():
    ones = [Batch(1000, 1.0, 0.0)] * 30
    almost = Batch(1000, 0.999, 0.000999)
    assert not has_fallen([almost, *ones], False)
    assert not has_fallen([replace(ones[0], mean=1.0 - 1e-15), *ones], False)
    assert has_fallen([Batch(1000, 0.0, 0.0), *ones], False)
    assert has_fallen([Batch(1000, 0.9, 0.09), *ones], False)
    assert not has_fallen([Batch(1000, 2.0, 0.0), *ones], False)


def test_a_new_agent_is_not_tested():
    ones = [Batch(1000, 1.0, 0.0)]
    assert not has_fallen([Batch(1000, 0.0, 0.0), *23 * ones], False)
    assert has_fallen([Batch(1000, 0.0, 0.0), *24 * ones], False)
    assert not has_fallen([], False)


def test_batches_are_hours_of_at_least_a_thousand_rewards(tmp_path):
    """First 25 hours with 100 rewards each, then 3 with 12,000: a step at each hour."""
    at = np.concatenate(
        [NOW + h * HOUR + np.arange(n) * HOUR / n for h, n in enumerate([100] * 25 + [12_000] * 3)]
    )
    rewards = np.floor((at - NOW) / HOUR)
    path = file_of(tmp_path / "a.db", at, at, rewards)
    found = Batches()
    with closing(sqlite3.connect(path)) as db:
        assert found.read(db)
        assert [b.count for b in found.found] == [10_000] * 3 + [1000] * 2
        assert [b.mean for b in found.found[:3]] == pytest.approx([27.0, 26.0, 25.0], abs=0.01)
        assert [b.mean for b in found.found[3:]] == pytest.approx([19.5, 9.5], abs=0.2)
        assert found.found[3].variance == pytest.approx(8.25, abs=0.2)
        assert not found.read(db)


def test_a_later_batch_begins_after_the_last(tmp_path):
    at = NOW + np.arange(40_000) * 2.4  # 1,500 an hour
    path = file_of(tmp_path / "a.db", at, at, np.arange(40_000.0))
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE decisions SET sequence = NULL WHERE number > 37000")
        found = Batches()
        assert found.read(db)
        assert len(found.found) == 25
        assert found.found[0].mean == pytest.approx(36_250, abs=2)
        db.execute("UPDATE decisions SET sequence = number WHERE number <= 38100")
        assert not found.read(db)  # within the hour
        db.execute("UPDATE decisions SET sequence = number WHERE number <= 38600")
        assert found.read(db)
        assert len(found.found) == 26
        assert found.found[0].mean == pytest.approx(37_850, abs=2)


def test_a_later_batch_has_a_thousand_rewards(tmp_path):
    at = NOW + np.arange(4000) * 36.0  # 100 an hour
    path = file_of(tmp_path / "a.db", at, at)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE decisions SET sequence = NULL WHERE number > 2500")
        found = Batches()
        assert found.read(db)
        db.execute("UPDATE decisions SET sequence = number WHERE number <= 3499")
        assert not found.read(db)
        db.execute("UPDATE decisions SET sequence = number WHERE number <= 3500")
        assert found.read(db)


def test_imported_samples_are_no_rewards(tmp_path):
    at = NOW + np.arange(30_000) * 1.0
    path = file_of(tmp_path / "a.db", at, at)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE decisions SET arms = 0 WHERE number BETWEEN 10000 AND 20000")
        found = Batches()
        assert found.read(db)
        assert all(batch.count >= 500 for batch in found.found)
        assert sum(batch.count for batch in found.found) <= 20_000
        assert silence_now(db, at[-1] + 5.0).decisions == 0


# -- the service -----------------------------------------------------------------------------------


def test_the_service_says_that_rewards_have_stopped_and_have_fallen(tmp_path):
    n = 40_000
    now = time.time()
    made = now - 40 * HOUR + np.arange(n) * 3.6
    rewards = np.where(np.arange(n) < n - 1500, 1.0, 0.0) * (np.arange(n) % 2)
    fallen = file_of(tmp_path / "a.db", made, made, rewards)
    board = AlarmBoard()
    [found] = Conditions(fallen, None, "shop").look(board, now)
    assert (found.kind, found.client) == ("rewards_fall", None)
    assert "the last 1,000 rewards is 0, of those before 0.494:" in found.text
    stopped = np.where(np.arange(n) < n - 1500, made, np.nan)
    silent = file_of(tmp_path / "b.db", made, stopped, 1.0 * (np.arange(n) % 2))
    [found] = Conditions(silent, None, "shop").look(board, now)
    assert found.kind == "no_rewards"
    assert found.since == pytest.approx(made[n - 1500], abs=10.0)
    sound = file_of(tmp_path / "c.db", made, made, 1.0 * (np.arange(n) % 2))
    assert Conditions(sound, None, "shop").look(board, now) == []


def test_a_running_agent_shows_its_alarms_and_reads_its_file_alone(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "fedglb.federation.agent.alarms")
    monkeypatch.setattr(alarms, "LOOK_EVERY", 0.01)
    monkeypatch.setattr("fedglb.federation.alarms.shutil.disk_usage", lambda path: (10**12, 0, 5))

    told = []

    class Program:
        def call(self, facts):
            told.append((facts["kind"], facts["state"], threading.current_thread().name))

    path = tmp_path / "a.db"
    with fg.Agent.open(path, PROBLEM) as agent:
        assert agent.status.alarms == ()
        with watching(agent.alarms, path, None, "shop", Program()):
            eventually(lambda: agent.status.alarms, "the alarm")
            agent.observe(agent.choose([[1.0, 0.0]]).id, 1.0)
        assert [alarm.kind for alarm in agent.status.alarms] == ["disk"]
    assert told == [("disk", "start", "alarms")]
    assert "alarm disk: " in caplog.text
    fg.Agent.open(path, PROBLEM).close()  # nothing has it open


def test_a_fault_of_the_watch_stops_nothing(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(alarms, "LOOK_EVERY", 0.01)
    looks, ended = [], []

    def broken(path, stands):
        looks.append(path)
        time.sleep(0.1)
        ended.append(path)
        raise RuntimeError("broken disk")

    monkeypatch.setattr(alarms, "low_disk", broken)
    path = tmp_path / "a.db"
    with fg.Agent.open(path, PROBLEM) as agent, watching(agent.alarms, path, None, "shop", None):
        eventually(lambda: len(ended) >= 1, "a look")
        agent.choose([[1.0, 0.0]])
        eventually(lambda: len(looks) > len(ended), "another look")
    assert len(looks) == len(ended)  # the watch has ended before the file is closed
    assert "broken disk" in caplog.text
