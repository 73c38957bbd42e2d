"""Five agents and a coordinator, each a process, over TLS: the same as the simulation."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.problem_table import ProblemTable
from fedglb.protocol import Coordinator
from tests.federation.helpers.json_processes import agent, coordinator
from tests.federation.helpers.nats_federation import federation
from tests.federation.helpers.recorded import Simulation, recording

N, K, D, T = 5, 6, 5, 30
NAMES = [f"client-{i}" for i in range(N)]  # sorted as their numbers are
TABLES = {
    "newton": {
        "name": "fedglb-ucb", "threshold": 0.5, "exploration": 0.3,
        "solver": {"name": "newton", "tolerance": 1e-14},
    },
    # a rule that draws nothing: an agent draws by the seed in its file
    "auto": {"name": "fedglb-auto", "threshold": 0.5, "choice": {"name": "ucb", "ties": "first"}},
    "personal": {
        "name": "fedglb-personal", "threshold": 0.5, "choice": {"name": "ucb", "ties": "first"},
    },
}  # fmt: skip


def played(tmp_path, table, arms, rewards):
    """Play the recording with processes, one event after the other: choices and models."""
    state, models = tmp_path / "state.db", []
    choices = np.full((T, N), -1)
    with federation(tmp_path, NAMES, table) as running, ExitStack() as stack:
        head = stack.enter_context(coordinator(running, state, "--absent-after", "60"))
        agents = [stack.enter_context(agent(running, name, tmp_path)) for name in NAMES]
        for each in agents:
            assert each.next() == {"ready": 1}
        joined = {head.hear(lambda e: e["event"] == "joined")["client"] for _ in NAMES}
        assert joined == set(NAMES)
        for t in range(T):
            for i, each in enumerate(agents):
                answer = each.ask(
                    do="play", arms=arms[t, i].tolist(), rewards=rewards[t, i].tolist(), t=t + 1
                )
                choices[t, i] = answer["arm"]
                if answer["fired"]:
                    models.append(adopted_by_all(agents, len(models) + 1))
        assert head.process.poll() is None
    return choices, models, state


def adopted_by_all(agents, update):
    """Wait until every agent has adopted the model of an update; return it."""
    for each in agents:
        each.tell(do="model", update=update)
    models = [each.next() for each in agents]
    assert models == [{**models[0], "update": update}] * N
    return models[0]


@pytest.mark.some(2)
@pytest.mark.parametrize("name", TABLES)
def test_processes_over_a_network_do_what_the_simulation_does(tmp_path, name):
    table = AgreementTable(N, ProblemTable(D), TABLES[name])
    agreement = table.build()
    arms, means, rewards = recording((T, N, K, D), seed=7)
    if name != "newton":  # items that recur, known by their features
        arms[:], means[:] = arms[0, 0], means[0, 0]
        if name == "personal":  # every other client likes what the others do not
            means[:, 1::2] = 1.0 - means[:, 1::2]
            means = np.round(means)
        rewards = (np.random.default_rng(7).random((*rewards.shape[:2], 1)) < means).astype(float)
    env = fg.Recorded(agreement.problem, arms, means, rewards=rewards)
    expected = Simulation(agreement.algorithm, env, T, 0)
    expected.run()
    assert len(expected.models) >= 8

    choices, models, state = played(tmp_path, table, arms, rewards)

    np.testing.assert_array_equal(choices, expected.recorder.log.choices)
    assert [m["t"] for m in models] == [m.t for m in expected.models]
    for got, wanted in zip(models, expected.models, strict=True):
        for field in ("theta", "matrix", "radius_terms", "ridge", "effects", "spread"):
            np.testing.assert_array_equal(got[field], getattr(wanted, field))  # to the bit
    assert name == "newton" or len(models[-1]["effects"]) > 2
    assert name != "personal" or max(models[-1]["spread"][:2]) > 0.0

    file = CoordinatorStore(state, agreement)
    arrays, traffic = file.state()
    updates = file.last_updates(T * N)
    file.close()
    kept = Coordinator.from_arrays(agreement.algorithm, agreement.setting, arrays)
    order = ["message", "direction"]
    wanted = expected.coordinator.ledger.frame().sort(order)
    assert_frame_equal(kept.ledger.frame().sort(order), wanted)
    assert kept.rounds == expected.coordinator.rounds
    made = expected.recorder.update_frame().select("t", "n").rows()
    assert [(u.number, u.clients, u.t, u.samples) for u in updates] == [
        (k, N, *row) for k, row in enumerate(made, 1)
    ]
    check_traffic(traffic, wanted)


def check_traffic(traffic, ledger):
    """More was sent than the ledger counts (in doubles): there are headers, hellos, heartbeats."""
    for counted in ledger.iter_rows(named=True):
        messages, size = traffic.entries[f"{counted['message']}.{counted['direction']}"]
        assert messages >= counted["messages"], counted
        assert size > 8 * counted["scalars"], counted
    assert traffic.entries["Hello.up"][0] >= N
