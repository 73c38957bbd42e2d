"""Two hundred agents, a coordinator and a server: one global update over TLS."""

from __future__ import annotations

import time
from contextlib import ExitStack

import numpy as np
import pytest

from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.protocol import Coordinator
from tests.federation.helpers.in_process import update
from tests.federation.helpers.json_processes import coordinator, crowd
from tests.federation.helpers.nats_federation import federation, table

AGENTS, PROCESSES, SAMPLES, DIM = 200, 4, 50, 10


@pytest.mark.slow
def test_an_update_of_two_hundred_agents(tmp_path, record_property):
    names = [f"agent-{i:03}" for i in range(AGENTS)]
    solver = {"name": "newton", "tolerance": 1e-14}
    clock, state = [time.monotonic()], tmp_path / "state.db"

    def lap():
        clock.append(time.monotonic())
        return clock[-1] - clock[-2]

    made = federation(tmp_path, names, table(AGENTS, DIM, solver=solver))
    times = {"init": lap()}
    with made as running, ExitStack() as stack:
        head = stack.enter_context(coordinator(running, state, "--absent-after", "60"))
        each = AGENTS // PROCESSES
        crowds = [
            stack.enter_context(crowd(running, names[k : k + each], tmp_path, SAMPLES))
            for k in range(0, AGENTS, each)
        ]
        for members in crowds:
            assert members.next() == {"ready": each}
        joined = [head.hear(lambda e: e["event"] == "joined") for _ in names]
        assert {event["client"] for event in joined} == set(names)
        times["first to last joined"] = joined[-1]["time"] - joined[0]["time"]
        times["open, 50 samples each, joined"] = lap()
        crowds[0].ask(do="request")
        for members in crowds:
            members.tell(do="model", update=1)
        models = [members.next() for members in crowds]
        times["request to model at all"] = lap()
        event = head.hear(lambda e: e["event"] == "updated")
    assert (event["clients"], event["samples"]) == (AGENTS, AGENTS * SAMPLES)
    assert all(model == {**models[0], "update": 1, "same": True} for model in models)

    agreement = made.coordinator_bundle.agreement
    expected = update(agreement, dict.fromkeys(names, SAMPLES))
    for name in ("theta", "matrix", "radius_terms"):
        np.testing.assert_allclose(models[0][name], getattr(expected, name), rtol=0, atol=1e-10)

    file = CoordinatorStore(state, agreement)
    arrays, _ = file.state()
    [row] = file.last_updates(9)
    file.close()
    kept = Coordinator.from_arrays(agreement.algorithm, agreement.setting, arrays)
    assert kept.ledger.transfers == 2 * AGENTS * (row.rounds + 1)
    times |= {"update": row.seconds, "rounds": row.rounds, "bytes": row.bytes}
    for name, value in times.items():
        record_property(name, value)
    print(times)
