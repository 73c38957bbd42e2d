"""Processes that compile, for the tests of the cache of kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

#: The end of a script: what the process compiled and loaded, as its last line.
_TELL = """
import json
from fedglb.kernels.cache import counts
print(json.dumps([counts.compiled, counts.loaded]))
"""
ONE_KERNEL = """
import numpy as np
from fedglb.kernels.linalg import dot
assert dot(np.ones(3), np.ones(3)) == 3.0
"""


def start(script: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process with a folder of compiled kernels of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FEDGLB_SAID")}
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", script + _TELL],
        env={**kept, "NUMBA_CACHE_DIR": str(folder), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, int, str]:
    """How many kernels it compiled, how many it loaded, and its standard error."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    compiled, loaded = json.loads(out.splitlines()[-1])
    return compiled, loaded, err


def run(script: str, folder: Path, **environment: str) -> tuple[int, int, str]:
    return finish(start(script, folder, **environment))
