"""Sweeps in real processes, and what happens to them: killed, interrupted, no room, no worker."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path

import pytest

import fedglb as fg
from fedglb.studies.results.tables import part
from fedglb.studies.run import progress, task
from fedglb.studies.run.local import WorkerDied
from tests.studies.tiny import (
    bytes_of,
    fedglb,
    held,
    parts,
    patched,
    release,
    start,
    start_sweep,
    tables,
    toml,
    until,
)

sweeping = import_module("fedglb.studies.run.sweep")  # the name in the package is the function


def workers(process):
    """The worker processes of a sweep, by their ids."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in text.split()}
    return [pid for pid, command in commands.items() if b"LokyProcess" in command.read_bytes()]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# Kills itself right before the n-th rename or removal: manifest, four parts, all in one, two
# tables, manifest, and the four parts go. What a killed process left is removed before.
SUICIDE = """
import os, signal, sys
from pathlib import Path
from fedglb.cli import main
left = int(sys.argv.pop(1))
real, remove = os.replace, Path.unlink
def counted(call):
    def wrapper(path, *rest, **options):
        global left
        if "out" in os.fspath(path) and (call is real or ".unfinished" not in path.name):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(path, *rest, **options)
    return wrapper
os.replace, Path.unlink = counted(real), counted(remove)
main()
"""


@pytest.mark.slow
def test_killed_at_every_kind_of_moment_it_ends_the_same(tmp_path, undisturbed):
    folder, kept = tmp_path / "out", []
    sweep = ("sweep", toml(tmp_path), "--out", str(folder), "--jobs", "1")
    # the first manifest; the 2nd part; the 2nd part of a second try; runs after two more parts and
    # all in one, traces, the last manifest, and the second removal (each session begins with a
    # manifest, and writes all in one again)
    for moment in (1, 3, 3, 5, 4, 5, 7):
        process = start("-c", SUICIDE, str(moment), *sweep)
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, err
        kept.append(len(parts(folder)))
    assert kept == [0, 1, 2, 5, 5, 5, 4]
    assert fg.load_sweep(folder).manifest["complete"]
    out = fedglb(*sweep)
    assert out.returncode == 0, out.stderr
    assert bytes_of(folder) == bytes_of(undisturbed)
    assert sorted(os.listdir(folder)) == sorted(os.listdir(undisturbed))


def test_killed_from_outside_its_workers_leave_and_it_resumes(tmp_path, longer):
    folder = tmp_path / "out"
    experiment, expected = longer
    process = start_sweep(experiment, folder, "--jobs", "2", **held(tmp_path))
    pids = workers(process)
    assert len(pids) == 2
    process.kill()
    process.communicate()
    assert not fg.load_sweep(folder, partial=True).manifest["complete"]
    until(lambda: all(gone(pid) for pid in pids))
    fg.sweep(experiment, folder, jobs=1)
    assert bytes_of(folder) == bytes_of(expected)


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "out"
    experiment = toml(tmp_path, horizon=200, seeds=5000)
    process = start_sweep(experiment, folder, "--jobs", "2")
    pids = workers(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130
    said = "fedglb: stopped; finished runs are kept; the same command resumes"
    assert err.splitlines().count(said) == 1  # progress may come between
    assert "Traceback" not in err
    until(lambda: all(gone(pid) for pid in pids))
    kept = fg.load_sweep(folder, partial=True)
    assert kept.runs.height == 3 * len(parts(folder)) >= 6
    assert kept.manifest["sessions"][0]["wall_seconds"] > 0


@pytest.mark.slow
def test_a_worker_killed_once_costs_nothing(tmp_path, longer):
    folder = tmp_path / "out"
    experiment, expected = longer
    process = start_sweep(experiment, folder, "--jobs", "2", **held(tmp_path))
    os.kill(workers(process)[0], signal.SIGKILL)
    release(tmp_path)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert bytes_of(folder) == bytes_of(expected)


DEADLY = """
import sys
if any("loky" in argument for argument in sys.orig_argv):
    import os, signal
    import fedglb.studies.run.task as task
    real = task.compare
    def compare(algorithms, env, horizon, seed, **options):
        if seed == 2 and any(a.name == "N-ONS-GLM" for a in algorithms):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(algorithms, env, horizon, seed, **options)
    task.compare = compare
"""


@pytest.mark.slow
def test_what_kills_its_worker_every_time_is_named_and_all_else_is_finished(tmp_path, undisturbed):
    folder = tmp_path / "out"
    sweep = ("sweep", toml(tmp_path), "--out", str(folder), "--jobs", "2")
    out = fedglb(*sweep, **patched(tmp_path, DEADLY))
    assert out.returncode == 1
    last = out.stderr.strip().splitlines()[-1]
    assert "died 3 times" in last
    assert "N-ONS-GLM with seed 2" in last
    assert "resumes" in last
    assert "Traceback" not in out.stderr
    assert fg.load_sweep(folder, partial=True).runs.height == 11
    assert fedglb(*sweep).returncode == 0
    assert bytes_of(folder) == bytes_of(undisturbed)


@pytest.mark.some(3)
@pytest.mark.parametrize("jobs", [2, 3, 5])
@pytest.mark.parametrize("deadly", [{(2, 2)}, {(0, 1)}, {(0, 1), (1, 1), (2, 1)}])
def test_runs_that_kill_their_workers_take_none_of_the_others_with_them(
    tmp_path, monkeypatch, undisturbed, jobs, deadly
):
    """Here a death is as bad as it can be: nothing that runs beside it is ever finished before."""

    def run_locally(experiment, tasks, jobs, watch):
        sources = task.Sources.of(experiment)
        for first in range(0, len(tasks), jobs):
            together = tasks[first : first + jobs]
            for one in together:
                watch.report_file(one).write_text("0")
            if any((i, one.seed) in deadly for one in together for i in one.configurations):
                raise WorkerDied
            for one in together:
                yield task.work(sources, one, None, None)

    folder = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "run_locally", run_locally)
        with pytest.raises(fg.SweepFailed, match="died 3 times") as error:
            fg.sweep(tables(), folder, jobs=jobs)
    kept = fg.load_sweep(folder, partial=True).runs
    assert kept.height == 12 - len(deadly)
    labels = [c.label for c in fg.read_experiment(tables()).configurations]
    named = {
        (i, s)
        for i, s in product(range(3), range(1, 5))
        if f"{labels[i]} with seed {s}" in str(error.value)
    }
    assert named == deadly
    fg.sweep(tables(), folder, jobs=1)
    assert bytes_of(folder) == bytes_of(undisturbed)


def test_what_fails_is_named_and_all_else_is_finished(tmp_path, monkeypatch, undisturbed):
    real = task.compare

    def compare(algorithms, env, horizon, seed, **options):
        if seed == 3 and any(a.name == "N-ONS-GLM" for a in algorithms):
            raise FloatingPointError("lost")
        return real(algorithms, env, horizon, seed, **options)

    monkeypatch.setattr(task, "compare", compare)
    folder = tmp_path / "out"
    with pytest.raises(fg.SweepFailed, match="N-ONS-GLM with seed 3: FloatingPointError: lost"):
        fg.sweep(tables(), folder, jobs=1)
    assert fg.load_sweep(folder, partial=True).runs.height == 11
    monkeypatch.undo()
    fg.sweep(tables(), folder, jobs=1)
    assert bytes_of(folder) == bytes_of(undisturbed)


FULL = """
import resource, sys
from fedglb.cli import main
import fedglb.studies.results.store as store
real = store.Store.add
def add(self, content):
    if len(list((self.folder / "parts").iterdir())) == 2:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    return real(self, content)
store.Store.add = add
main()
"""


@pytest.mark.slow
def test_no_room_is_one_line_and_loses_nothing(tmp_path, undisturbed):
    folder = tmp_path / "out"
    sweep = ("sweep", toml(tmp_path), "--out", str(folder), "--jobs", "1")
    process = start("-c", FULL, *sweep)
    _, err = process.communicate()
    assert process.returncode == 1, err
    assert err.strip().splitlines()[-1].startswith(f"fedglb: cannot write {folder}")
    assert "File too large" in err
    assert "resumes" in err
    assert "Traceback" not in err
    assert fg.load_sweep(folder, partial=True).runs.height == 6
    assert fedglb(*sweep).returncode == 0
    assert bytes_of(folder) == bytes_of(undisturbed)


def test_progress_adds_up_and_ends_with_nothing_left(tmp_path):
    seen = []
    fg.sweep(tables(horizon=3000, seeds=1), tmp_path / "out", jobs=1, progress=seen.append)
    assert seen[-1].left == 0
    assert len(seen[-1].finished) == seen[-1].runs == 3
    assert seen[-1].interactions == 3 * 2 * 3000
    assert all(0 <= s.interactions <= 18_000 and s.interactions + s.left == 18_000 for s in seen)


def test_an_error_of_progress_in_the_watching_thread_is_raised_and_runs_are_kept(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "_LOOK_EVERY", 0.0)
    failed = threading.Event()

    def tell(status):
        if threading.current_thread() is not threading.main_thread():
            failed.set()
            raise ZeroDivisionError("in the view")
        assert failed.wait(600)

    monkeypatch.setattr(threading, "excepthook", pytest.fail)
    with pytest.raises(ZeroDivisionError, match="in the view"):
        fg.sweep(tables(), tmp_path / "out", jobs=1, progress=tell)
    assert fg.load_sweep(tmp_path / "out", partial=True).runs.height >= 3


def test_tasks_are_entered_and_finished_from_several_threads(tmp_path):
    experiment = fg.read_experiment(tables(seeds=3000))
    watch = progress.Watch(experiment, part([], 1, [], 0.0), lambda status: None)
    watch.folder = tmp_path
    tasks = [task.Task(seed, (0,)) for seed in experiment.seeds]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        dispatch = threading.Thread(target=lambda: [watch.report_file(t) for t in tasks])
        dispatch.start()
        while dispatch.is_alive():
            watch.finished(tasks[0], part([], 1, [], 0.0))
            watch.running()
    finally:
        sys.setswitchinterval(switch)
        dispatch.join()


@pytest.mark.parametrize("changes", [{"horizon": 50}, {"seeds": (9,)}, {"configurations": ()}])
def test_an_experiment_that_was_changed_is_refused(tmp_path, changes):
    experiment = fg.read_experiment(tables())
    with pytest.raises(fg.InvalidInput, match=f"experiment.{next(iter(changes))}"):
        fg.sweep(dataclasses.replace(experiment, **changes), tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_workers_report_steps(tmp_path):
    report = tmp_path / "report"
    experiment = fg.read_experiment(tables())
    task._reporter(report)(7)
    assert report.read_text() == "7"
    watch = progress.Watch(experiment, part([], 1, [], 0.0), None)
    one = task.Task(1, (0, 1))
    assert watch._steps(report, one) == 7 * 2 * 2


def test_a_worker_of_another_version_is_refused():
    experiment = fg.read_experiment(tables())
    ours = task.Sources.of(experiment)
    for theirs, what in (
        (replace(ours, code="other"), "another version"),
        (replace(ours, data="other"), "other data"),
    ):
        outcome = task.work(theirs, task.Task(1, (0,)), None, None)
        assert outcome.part is None
        assert what in outcome.failures[0]
    assert task.work(ours, task.Task(1, (0,)), None, None).part is not None


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2"])
def test_jobs_are_checked(tmp_path, jobs):
    with pytest.raises(fg.InvalidInput, match="jobs"):
        fg.sweep(tables(), tmp_path / "out", jobs=jobs)
    assert not (tmp_path / "out").exists()
