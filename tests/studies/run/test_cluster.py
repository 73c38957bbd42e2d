"""A sweep on a real Dask cluster: a scheduler and two workers, each a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module

import pytest

import fedglb as fg
from tests.studies import own_parts
from tests.studies.tiny import (
    bytes_of,
    fedglb,
    held,
    patched,
    release,
    start_sweep,
    tables,
    toml,
    until,
)

Client = pytest.importorskip("distributed").Client
sweeping = import_module("fedglb.studies.run.sweep")  # the name in the package is the function


@contextmanager
def process(*arguments, **environment):
    """A Dask process, its output thrown away; ended at the end."""
    started = subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def worker(stack, file, folder, name, **environment):
    return stack.enter_context(
        process(
            "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(folder),
            "--name", name, **environment,
        )
    )  # fmt: skip


@contextmanager
def cluster(folder, workers, **environment):
    """Give the address of a scheduler and its worker processes."""
    file = folder / "scheduler.json"
    with ExitStack() as stack:
        stack.enter_context(
            process(
                "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                "--scheduler-file", str(file), **environment,
            )
        )  # fmt: skip
        until(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        names = ("first", "second")[:workers]
        running = [worker(stack, file, folder, name, **environment) for name in names]
        address = json.loads(file.read_text())["address"]
        # A worker that comes late has no part in a short sweep: nothing would happen to it.
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(workers)
        yield address, running


def test_a_worker_killed_half_way_changes_nothing(tmp_path, longer):
    folder = tmp_path / "out"
    experiment, expected = longer
    with cluster(tmp_path, 2, **held(tmp_path)) as (address, (first, _)):
        sweep = start_sweep(experiment, folder, "--cluster", address)
        first.send_signal(signal.SIGKILL)
        release(tmp_path)
        _, err = sweep.communicate(timeout=600)
    assert sweep.returncode == 0, err
    result = fg.load_sweep(folder)
    assert result.manifest["sessions"][0]["cluster"] == address
    assert bytes_of(folder) == bytes_of(expected)


@pytest.mark.slow
def test_results_that_wait_while_their_worker_dies_are_kept_or_worked_out_again(
    tmp_path, undisturbed
):
    with cluster(tmp_path, 1) as (address, (first,)), ExitStack() as stack:
        client = stack.enter_context(Client(address, set_as_default=False))
        happened = []

        def all_worked_out():
            return sum(map(len, client.has_what().values())) == 4

        def tell(status):  # holds up whoever takes the results, at the first of them
            if threading.current_thread() is threading.main_thread() and not happened:
                happened.append(status)
                until(all_worked_out)
                first.kill()
                until(lambda: not client.nthreads())
                worker(stack, tmp_path / "scheduler.json", tmp_path, "second")

        fg.sweep(tables(), tmp_path / "out", cluster=address, progress=tell)
        assert len(happened[0].finished) == 3
    assert bytes_of(tmp_path / "out") == bytes_of(undisturbed)


# Waits until the other worker has given something, then kills its own.
DEADLY = """
import sys
if "worker" in sys.argv:
    import os, signal, time
    from pathlib import Path
    import fedglb.studies.run.task as task
    real = task.compare
    def compare(algorithms, env, horizon, seed, **options):
        if seed == 1:
            while not any(Path(os.environ["PARTS"]).glob("*.parquet")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(algorithms, env, horizon, seed, **options)
    task.compare = compare
"""


@pytest.mark.slow
def test_what_kills_its_workers_is_named_and_the_rest_is_kept(tmp_path):
    folder = tmp_path / "out"
    deadly = patched(tmp_path, DEADLY) | {"PARTS": str(folder / "parts")}
    once = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with cluster(tmp_path, 2, **deadly, **once) as (address, _):
        out = fedglb("sweep", toml(tmp_path), "--out", str(folder), "--cluster", address)
    assert out.returncode == 1
    assert "resumes" in out.stderr
    kept = fg.load_sweep(folder, partial=True).runs
    # Dask says so of what waited behind it, too: here that may be one more, or two.
    killed = {s for s in range(1, 5) if f"with seed {s}: KilledWorker" in out.stderr}
    assert 1 in killed
    assert killed ^ set(kept["seed"]) == {1, 2, 3, 4}
    assert kept.height == 3 * (4 - len(killed)) >= 3


@pytest.mark.slow
def test_the_scheduler_gone_is_an_error_and_finished_runs_are_kept(tmp_path):
    folder = tmp_path / "out"
    experiment = toml(tmp_path, horizon=200, seeds=5000)
    with cluster(tmp_path, 1) as (address, _):
        sweep = start_sweep(experiment, folder, "--cluster", address)
    _, err = sweep.communicate(timeout=600)
    assert sweep.returncode == 1
    assert "the connection to the scheduler is lost" in err
    assert "resumes" in err
    assert fg.load_sweep(folder, partial=True).runs.height >= 6


class Network:
    """A client whose network fails at one kind of call."""

    status = "finished"

    def __init__(self, fails):
        self.fails = fails

    def ask(self, call, answer):
        if call == self.fails:
            raise TimeoutError(f"{call} timed out")
        return answer

    def nthreads(self):
        return self.ask("nthreads", {"worker": 1})

    def submit(self, *_, **__):
        return self.ask("submit", self)

    @property
    def loop(self):
        return self

    def add_callback(self, call, *arguments):
        asyncio.run(call(*arguments))

    async def result(self):
        return self.ask("result", None)


@pytest.mark.parametrize("call", ["nthreads", "submit", "result"])
def test_a_fault_of_the_network_is_not_one_of_the_disk(tmp_path, monkeypatch, call):
    monkeypatch.setattr(sweeping, "connected", lambda address: nullcontext(Network(call)))
    with pytest.raises(fg.SweepFailed, match=f"scheduler is lost: TimeoutError: {call} timed out"):
        fg.sweep(tables(), tmp_path / "out", cluster="tcp://x:1")


def test_no_scheduler_is_an_error_that_names_the_address(tmp_path):
    closed = ("tcp://127.0.0.1:1", "127.0.0.1:1")
    for address in ("", *closed, "nonsense://x", "tcp://127.0.0.1:99999"):
        with pytest.raises(fg.InvalidInput, match="address of a Dask scheduler") as error:
            fg.sweep(tables(), tmp_path / "out", cluster=address)
        assert repr(address) in str(error.value)
    assert not (tmp_path / "out").exists()


def test_without_dask_the_message_says_what_to_install(tmp_path):
    hidden = patched(tmp_path, "import sys\nsys.modules['distributed'] = None\n")
    arguments = ("sweep", toml(tmp_path), "--out", str(tmp_path / "out"), "--cluster", "tcp://x:1")
    out = fedglb(*arguments, **hidden)
    assert out.returncode == 2
    assert "pip install 'fedglb[cluster]'" in out.stderr


class Local(own_parts.Coins):
    """Made unfit for a cluster by the test: its name leads nowhere."""

    __qualname__ = "elsewhere.<locals>.Local"


@pytest.mark.slow
def test_parts_of_ones_own_run_there_and_those_that_workers_lack_are_refused_by_name(
    tmp_path, monkeypatch
):
    algorithms = {
        "mine": own_parts.cautious(0.5), "plain": own_parts.plain(), "pooled": own_parts.Pooled(),
    }  # fmt: skip
    experiment = fg.Experiment.of(algorithms, own_parts.coins(2), 9, 2)
    fg.sweep(experiment, tmp_path / "alone", jobs=1)
    (tmp_path / "only_here.py").write_text(
        "import fedglb as fg\ndef make():\n    return fg.n_ons_glm()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    local = fg.Experiment.of(algorithms, Local(fg.Problem(dim=2), 2), 9, 2)
    named = tables(algorithm=[{"name": "only_here:make"}], defaults={})
    with cluster(tmp_path, 2) as (address, _):
        fg.sweep(experiment, tmp_path / "out", cluster=address)
        for refused, said in (
            (local, r"no cluster for .*elsewhere\.<locals>\.Local: its workers cannot import"),
            (named, r"workers have all modules .* cannot import only_here; install it"),
        ):
            with pytest.raises(fg.InvalidInput, match=said):
                fg.sweep(refused, tmp_path / "refused", cluster=address)
        with Client(address, set_as_default=False) as client:
            client.upload_file(str(tmp_path / "only_here.py"))
        fg.sweep(named, tmp_path / "uploaded", cluster=address)
        text = (tmp_path / "only_here.py").read_text()
        (tmp_path / "only_here.py").write_text(text.replace("()\n", "(ridge=2.0)\n"))
        monkeypatch.delitem(sys.modules, "only_here")
        with pytest.raises(fg.InvalidInput, match="has another version of only_here"):
            fg.sweep(named, tmp_path / "refused", cluster=address)
    assert not (tmp_path / "refused").exists()
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "alone")
    assert fg.load_sweep(tmp_path / "uploaded").runs.height == 4
