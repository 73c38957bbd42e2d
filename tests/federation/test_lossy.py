"""Whatever network and crashes do, the federation ends where a lossless one does, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agreement import Agreement
from fedglb.protocol.persistence import to_arrays
from tests.federation.helpers.lossy_network import Harness, agreed, harness

BATCHES = (4, 3)
LOSSY = {"loss": 0.25, "twice": 0.25, "delay": 1.0}
ALGORITHMS = {
    "newton": fg.fedglb_ucb(0.0, fg.Newton()),
    "auto": fg.fedglb_auto(0.0),
    "personal": fg.fedglb_personal(0.0),
    "further rounds": fg.fedglb_mix(0.0, solver=fg.OneExchange(slack=1e-6)),
}
#: Which algorithm a seed is for.
CASES = [
    *(("newton", seed) for seed in range(30)),
    *(("auto", seed) for seed in range(20)),
    *(("personal", seed) for seed in range(20)),
    *(("further rounds", seed) for seed in range(5)),
]


def agreement(name: str) -> Agreement:
    return agreed(algorithm=ALGORITHMS[name])


def ledger(running: Harness) -> dict[tuple[str, str], tuple[int, int, int]]:
    """All that the ledger has; agents say again that they want an update, so that may repeat."""
    return {
        key: (e.messages, e.transfers, e.scalars)
        for key, e in running.coordinator.ledger.entries.items()
        if key[0] != "SyncRequest"
    }


def state(running: Harness) -> dict[str, bytes]:
    """The model and every agent's state, as bytes, but for the numbers of updates."""
    model = running.coordinator.model
    assert model is not None
    out = {f"model.{k}": v.tobytes() for k, v in to_arrays(model).items()}
    for node in running.all():
        arrays = node.learner.protocol_client.to_arrays()
        for name in ("update", "adopted", "frozen"):
            del arrays[name]
        out |= {f"{node.name}.{k}": np.asarray(v).tobytes() for k, v in arrays.items()}
    return out


def play(running: Harness, disturb: Callable[[], None] = lambda: None) -> None:
    running.until(running.everybody_here)
    for samples in BATCHES:
        newest = running.coordinator.finished
        running.feed(samples)

        def done(newest: int = newest) -> bool:
            disturb()
            return running.shared(newest + 1)

        running.until(done)


@pytest.fixture(scope="module")
def lossless(tmp_path_factory):
    found = {}
    for name in ALGORITHMS:
        with harness(tmp_path_factory.mktemp("lossless"), agreement=agreement(name)) as running:
            play(running)
            assert running.coordinator.syncs == len(BATCHES)
            assert running.coordinator.ledger.entries["NewModel", "down"].messages == 6
            found[name] = state(running), ledger(running)
    return found


@pytest.mark.some(6)
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_loss_doubling_delay_and_reordering_change_nothing(
    tmp_path: Path, lossless, name, seed
) -> None:
    with harness(tmp_path, agreement=agreement(name), seed=seed, **LOSSY) as running:
        play(running)
        assert (state(running), ledger(running)) == lossless[name]


@pytest.mark.some(6)
@pytest.mark.parametrize(("name", "seed"), CASES)
def test_nor_do_crashes(tmp_path: Path, lossless, name, seed) -> None:
    with harness(tmp_path, agreement=agreement(name), seed=seed, **LOSSY) as running:
        rng = np.random.default_rng(1000 + seed)
        crashes = 0

        def disturb() -> None:
            nonlocal crashes
            if rng.random() < 0.02 and crashes < 12:
                crashes += 1
                match rng.integers(3):
                    case 0:
                        running.crash()
                    case 1:
                        running.stop()
                    case 2:
                        name = str(rng.choice(list(running.nodes)))
                        if running.nodes[name].up:
                            running.take_down(name)

        play(running, disturb)
        assert state(running) == lossless[name][0]
        assert ledger(running) == lossless[name][1]
        numbers = [e.facts["update"] for e in running.events if e.kind == "updating"]
        assert numbers == sorted(set(numbers))  # none is used twice
