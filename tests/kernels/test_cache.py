"""Compiled kernels on disk: what one process has compiled, the next one loads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cache_in_process import ONE_KERNEL, finish, run, start

WARNING = "compiled kernels cannot be kept"


def test_a_second_process_loads_what_the_first_has_compiled(tmp_path):
    assert run(ONE_KERNEL, tmp_path)[:2] == (1, 0)
    assert run(ONE_KERNEL, tmp_path)[:2] == (0, 1)


@pytest.mark.slow
def test_processes_that_start_together_do_not_disturb_each_other(tmp_path):
    together = [start(ONE_KERNEL, tmp_path) for _ in range(3)]
    assert {sum(finish(each)[:2]) for each in together} == {1}
    assert run(ONE_KERNEL, tmp_path)[:2] == (0, 1)


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


@pytest.mark.slow
def test_a_users_own_functions_keep_their_own_cache_folder(tmp_path):
    script = ONE_KERNEL + "import numba\nassert numba.config.CACHE_DIR == before\n"
    script = "import numba\nbefore = numba.config.CACHE_DIR\n" + script
    assert run(script, tmp_path)[:2] == (1, 0)


# -- folders that cannot be written to ------------------------------------------------------------


def read_only(script: str) -> str:
    """A script that takes every folder for one that cannot be written to: root may write to all."""
    return (
        """
import builtins, os, tempfile
def refuse_temporary(*rest, dir=None, made=tempfile.TemporaryFile, **named):
    if f"{os.sep}kernels-" in str(dir):
        raise PermissionError(13, "Permission denied", str(dir))
    return made(*rest, dir=dir, **named)
tempfile.TemporaryFile = refuse_temporary
def refuse(path, flags, *rest, opened=os.open, **named):
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and f"{os.sep}kernels-" in str(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *rest, **named)
def refuse_file(path, mode="r", *rest, opened=builtins.open, **named):
    if set(mode) & set("wax+") and f"{os.sep}kernels-" in str(path):
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
def test_what_is_missing_in_a_read_only_folder_is_compiled_for_this_process(tmp_path):
    run(ONE_KERNEL, tmp_path)
    files = sorted(tmp_path.rglob("*"))
    script = ONE_KERNEL + "from fedglb.kernels.linalg import norm\nnorm(np.ones(3))\n"
    assert run(read_only(script), tmp_path) == (1, 1, "")
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.slow
def test_an_empty_read_only_folder_is_reported_once(tmp_path):
    script = ONE_KERNEL + "from fedglb.kernels.linalg import norm\nnorm(np.ones(3))\n"
    compiled, loaded, said = run(read_only(script), tmp_path)
    assert (compiled, loaded) == (2, 0)
    assert said.count(WARNING) == 1
    for part in (str(tmp_path), "Permission denied", "NUMBA_CACHE_DIR", "fedglb warm-up"):
        assert part in said


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_reported_once_and_not_again_by_children(tmp_path):
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
    assert said.count(WARNING) == 1


# -- entries and their parts ----------------------------------------------------------------------


def test_a_part_that_raises_in_an_entry_is_reported(tmp_path):
    """An entry has the environments of its parts, from the compiler and from disk."""
    from fedglb.kernels.compile import kernel

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
