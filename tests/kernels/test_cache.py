"""Compiled kernels on disk: one process of a machine compiles each, and all use what is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from fedglb.kernels import cache as module
from fedglb.kernels.cache import KernelLock, KernelsNotKept, say_if_not_kept
from fedglb.kernels.compile import kernel
from tests.kernels.cache_in_process import ONE_KERNEL, finish, run, start

NOBODY = "compiled kernels are not kept"
#: Holds the lock of every kernel that it compiles until it is told to go on.
HOLDING = """
import sys
from fedglb.kernels.numba_cache import _DiskCache
save = _DiskCache.save_overload
def wait_and_save(self, *arguments):
    print("compiling", flush=True)
    sys.stdin.readline()
    save(self, *arguments)
_DiskCache.save_overload = wait_and_save
"""


def holding(script, folder):
    """A process that has compiled a kernel, has its lock, and has not written it yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING + script],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "compiling\n"
    return process


def test_a_second_process_loads_what_the_first_has_compiled(tmp_path):
    assert run(ONE_KERNEL, tmp_path)[:2] == (1, 0)
    assert run(ONE_KERNEL, tmp_path)[:2] == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_one_process_compiles_and_if_it_is_killed_another_one_does(tmp_path, killed):
    first = holding(ONE_KERNEL, tmp_path)
    others = [start(ONE_KERNEL, tmp_path) for _ in range(2)]
    if killed:
        os.kill(first.pid, signal.SIGKILL)
    first.communicate(None if killed else "\n", timeout=600)
    assert sorted(finish(other)[:2] for other in others) == [(0, 1), (1, 0) if killed else (0, 1)]
    assert run(ONE_KERNEL, tmp_path)[:2] == (0, 1)


def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path):
    """The parent dies with the lock; its child lives on, and others can go on."""
    script = """
import os, sys
from fedglb.kernels.cache import KernelLock
lock = KernelLock(sys.argv[1])
assert lock.acquire()
child = os.fork()
if child == 0:
    os.close(1)
    sys.stdin.readline()
    os._exit(0)
print("forked", flush=True)
os.kill(os.getpid(), 9)
"""
    path = str(tmp_path / "kernel.lock")
    process = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "forked\n"
    assert process.wait(600) == -signal.SIGKILL
    lock = KernelLock(path)
    assert lock.acquire()
    lock.release()
    process.communicate("\n")


def test_a_process_holds_one_lock_at_most(tmp_path):
    """Two processes that each hold one and want the other's would wait for ever."""
    one, two = (KernelLock(str(tmp_path / name)) for name in "ab")
    assert one.acquire()
    assert not two.acquire()
    assert not one.acquire()
    one.release()
    one.release()
    assert two.acquire()
    two.release()


def test_a_thread_does_not_release_the_lock_of_another(tmp_path):
    lock = KernelLock(str(tmp_path / "kernel.lock"))
    assert lock.acquire()
    other = threading.Thread(target=lock.release)
    other.start()
    other.join()
    assert KernelLock._held is lock
    lock.release()
    assert KernelLock._held is None
    assert not KernelLock(str(tmp_path / "missing" / "kernel.lock")).acquire()  # no folder


def test_who_has_waited_long_enough_compiles_for_itself(tmp_path, monkeypatch):
    """The other one may have been stopped."""
    fcntl = pytest.importorskip("fcntl")
    path = str(tmp_path / "kernel.lock")
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    with open(path, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert not KernelLock(path).acquire()
    lock = KernelLock(path)
    assert lock.acquire()
    lock.release()


@pytest.mark.slow
def test_threads_of_a_process_compile_a_kernel_once(tmp_path):
    script = """
import threading
import numpy as np
from fedglb.kernels.linalg import dot, norm
calls = [lambda: dot(np.ones(3), np.ones(3)), lambda: norm(np.ones(4))] * 4
threads = [threading.Thread(target=call) for call in calls]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    assert run(script, tmp_path)[:2] == (2, 0)


# -- folders that cannot be written to ------------------------------------------------------------


def read_only(script: str) -> str:
    """A script that takes every folder for one that cannot be written to: root may write to all."""
    return (
        """
import builtins, os
def refuse(path, flags, *rest, opened=os.open, **named):
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and "kernels-" in str(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *rest, **named)
def refuse_file(path, mode="r", *rest, opened=builtins.open, **named):
    if set(mode) & set("wax+") and "kernels-" in str(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, mode, *rest, **named)
os.open, builtins.open = refuse, refuse_file
"""
        + script
    )


@pytest.mark.slow
def test_a_complete_folder_that_is_read_only_is_used_without_a_word(tmp_path):
    run(ONE_KERNEL, tmp_path)
    assert run(read_only(ONE_KERNEL), tmp_path) == (0, 1, "")


@pytest.mark.slow
def test_what_is_missing_in_a_read_only_folder_is_said_once(tmp_path):
    run(ONE_KERNEL, tmp_path)
    script = ONE_KERNEL + "from fedglb.kernels.linalg import norm, log_det\nnorm(np.ones(3))\n"
    compiled, loaded, said = run(read_only(script + "log_det(np.eye(3))"), tmp_path)
    assert (compiled, loaded) == (2, 1)
    assert said.count(NOBODY) == 1
    for part in (str(tmp_path), "Permission denied", "NUMBA_CACHE_DIR", "fedglb warm-up"):
        assert part in said


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_said_once_and_not_again_by_children(tmp_path):
    (tmp_path / "file").write_text("")
    script = (
        ONE_KERNEL
        + """
import subprocess, sys
from fedglb.kernels.linalg import norm
norm(np.ones(3))
child = "import numpy as np; from fedglb.kernels.linalg import dot; dot(np.ones(3), np.ones(3))"
subprocess.run([sys.executable, "-c", child], check=True)
"""
    )
    compiled, loaded, said = run(script, tmp_path / "file" / "folder")
    assert (compiled, loaded) == (2, 0)
    assert said.count(NOBODY) == 1


def test_before_workers_start_it_is_said_once_that_nothing_will_be_kept(monkeypatch, tmp_path):
    say_if_not_kept()  # nothing is said of a folder that can be written to
    monkeypatch.setenv(module._SAID, "1")  # so that it is as it was afterwards
    monkeypatch.delenv(module._SAID)
    monkeypatch.setattr(module, "cache", module.cache.__wrapped__)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "folder"))
    with pytest.warns(KernelsNotKept, match="cannot be made"):
        say_if_not_kept()
    say_if_not_kept()  # a second one would be an error here


def test_kernels_that_check_indices_are_kept_apart(monkeypatch):
    folders = set()
    for value in ("0", "1", ""):
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", value)
        folders.add(module.cache.__wrapped__().folder)
    assert len(folders) == 2


# -- entries and their parts ----------------------------------------------------------------------


def test_a_part_that_raises_in_an_entry_is_reported():
    """An entry has the environments of its parts, from the compiler and from disk."""

    @kernel
    def part(n: int) -> float:
        if n < 0:
            raise ValueError("negative")
        return float(np.empty(n).shape[0])

    @kernel
    def entry(n: int) -> float:
        return part(n) + 1.0

    assert entry(2) == 3.0
    assert part(2) == 2.0
    with pytest.raises(ValueError, match="negative"):
        entry(-1)


def test_a_lock_is_free_after_a_kernel_that_does_not_compile():
    @kernel
    def wrong(x: float) -> float:
        return x.nothing  # type: ignore[attr-defined]

    with pytest.raises(Exception, match="nothing"):
        wrong(1.0)
    assert KernelLock._held is None
