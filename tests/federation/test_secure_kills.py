"""kill -9 of agents and coordinator in secure sums, with everything else as it would be run.

As in `test_private_kills`: real processes, and in each phase one of them dies at a write or at a
message. A recorder beside the coordinator hears all that agents send: whatever dies, an agent
agrees to one sum of an update at most, and sends one vector for an attempt.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from fedglb.federation.agreement import AgreementTable
from fedglb.federation.preload import preload
from fedglb.federation.wire.codec import decode_up
from fedglb.federation.wire.sum_messages import Consent
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import BatchSums, MaskedSum
from tests.federation.helpers.kill_points import Fault
from tests.federation.helpers.recorded import DIM, EACH, ONE_PASS
from tests.federation.helpers.self_healing import COORDINATOR, Kept, state
from tests.federation.secure_sums.test_masks import is_uniform
from tests.federation.test_kills import start_all
from tests.federation.test_private_kills import Recorder, recorded, strike

NAMES = ("a", "b", "c")
SECURE = AgreementTable(
    3, ProblemTable(DIM, radius=3.0),
    {**ONE_PASS.algorithm, "privacy": {"epsilon": 1.0, "delta": 1e-6}}, minimum=3,
)  # fmt: skip
DEATHS = [
    ("a", Fault("before", "REPLACE INTO secure_sum", 1)),
    ("b", Fault("after", "REPLACE INTO secure_sum", 1)),
    ("b", Fault("before", "send MaskedSum", 1)),
    ("c", Fault("sent", "send MaskedSum", 1)),
    ("a", Fault("after", "INSERT INTO releases", 1)),
    ("b", Fault("after", "UPDATE secure_sum", 1)),
    ("c", Fault("before", "COMMIT", 1)),
    ("a", Fault("after", "COMMIT", 1)),
    ("b", Fault("before", "send Consent", 1)),
    ("c", Fault("sent", "send Consent", 1)),
    (COORDINATOR, Fault("sent", "send SumCall", 1)),
    (COORDINATOR, Fault("sent", "send SumCall", 3)),
    (COORDINATOR, Fault("before", "send AllHere", 2)),
    (COORDINATOR, Fault("sent", "send AllHere", 3)),
    (COORDINATOR, Fault("before", "send NewModel", 1)),
]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    preload(SECURE.build())


class SumRecorder(Recorder):
    """Hears what agents send to the coordinator about sums."""

    def __init__(self) -> None:
        self.vectors: dict[tuple[str, int, int], set[bytes]] = defaultdict(set)
        self.consents: dict[tuple[str, int], set[tuple[bytes, bytes]]] = defaultdict(set)
        self.plain = 0

    def keep(self, subject: str, data: bytes) -> None:
        client = subject.rpartition(".")[2]
        match decode_up(data, client, DIM)[1]:
            case MaskedSum() as m:
                self.vectors[client, m.update, m.attempt].add(m.numbers.tobytes())
            case Consent() as m:
                self.consents[client, m.update].add((m.transcript, m.seed))
            case BatchSums():
                self.plain += 1


@pytest.mark.slow
def test_nobody_agrees_to_two_sums_of_one_update(tmp_path):
    with Kept(tmp_path, NAMES, SECURE) as kept:
        start_all(kept)
        kept.gather()
        with recorded(kept.running, SumRecorder()) as recorder:
            kept.play(0)
            for phase, (name, fault) in enumerate(DEATHS, 1):
                strike(kept, phase, name, fault)
            arrays = state(kept.children[COORDINATOR])
        assert recorder.plain == 0
        assert {len(each) for each in recorder.consents.values()} == {1}
        assert {len(each) for each in recorder.vectors.values()} == {1}
        finished = arrays["releases.keys"].tolist()
        assert len(finished) == 1 + len(DEATHS)
        for update in finished:
            agreed = [recorder.consents.get((name, update), set()) for name in NAMES]
            about = {transcript for each in agreed for transcript, _ in each}
            assert len(about) <= 1, "all agree to the same sum"
        seen = b"".join(vector for each in recorder.vectors.values() for vector in each)
        assert is_uniform(np.frombuffer(seen, np.int64))
        for name in NAMES:
            kept.check_log(name, (1 + len(DEATHS)) * EACH)
