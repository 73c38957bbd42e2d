"""What the agent's service has loaded once it answers, and what it says before it compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.in_process import federation
from tests.federation.helpers.nats_process import free_port

#: Serve until a visitor in a thread has made some calls; print what the process has loaded.
SERVE = """
import json, os, signal, sys, threading
from fedglb.cli import main
from fedglb.kernels.cache import counts

def visit():
    from fedglb.service import AgentClient
    client = AgentClient(f"http://{sys.argv[-1]}", patience=300.0)
    assert client.status.samples == 0
    ready = counts.loaded
    for _ in range(3):
        client.observe(client.choose(ARMS, context=CONTEXT).id, 1.0)
    client.preview(ARMS, context=CONTEXT)
    found = {"compiled": counts.compiled, "later": counts.loaded - ready, "loaded": [*sys.modules]}
    print("found", json.dumps(found), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=visit, daemon=True).start()
main()
"""
SCHEMA = """
version = 1
[context.hour]
kind = "number"
knots = [0, 12, 24]
[arm.category]
kind = "category"
levels = ["shoes", "books"]
"""
VECTORS = "ARMS, CONTEXT = [[1.0, 0.0], [0.0, 1.0]], None"
RECORDS = "ARMS, CONTEXT = [{'category': 'shoes'}, {'category': 'books'}], {'hour': 9}"
NOT_SERVED = {
    "fedglb.simulation", "fedglb.studies", "joblib", "matplotlib", "numba.np.linalg", "pandas",
    "polars", "rich", "scipy.linalg", "scipy.optimize", "scipy.special", "sklearn",
}  # fmt: skip
NOT_ALONE = {"cryptography", "fedglb.federation.coordinator", "nats"}


@pytest.mark.parametrize(
    ("options", "calls", "not_loaded"),
    [
        (["--dim", "2"], VECTORS, NOT_SERVED | NOT_ALONE),
        (["--features", "features.toml"], RECORDS, NOT_SERVED | NOT_ALONE),
        (["--bundle", "shops/clients/shop-1"], VECTORS, NOT_SERVED),
    ],
)
def test_the_service_has_loaded_what_it_needs_and_no_more(tmp_path, options, calls, not_loaded):
    """What is not needed would take tens of MB, and a second of each start."""
    (tmp_path / "features.toml").write_text(SCHEMA)
    if "--bundle" in options:
        folder = tmp_path / "shops"
        made = federation("init", folder, "--name", "shops", "--clients", "shop-1", "--dim", "2")
        assert made.returncode == 0, made.stderr
    for name in ("first.db", "again.db"):  # the first process may have to compile
        words = ["agent", "serve", name, *options, "--http", f"127.0.0.1:{free_port()}"]
        done = subprocess.run(
            [sys.executable, "-c", f"{calls}\n{SERVE}", *words], cwd=tmp_path, timeout=600,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (line,) = [each for each in done.stdout.splitlines() if each.startswith("found ")]
        found = json.loads(line.removeprefix("found "))
        if not found["compiled"]:
            break
    assert (found["compiled"], found["later"]) == (0, 0)  # the first decision waits for no kernel
    assert not_loaded & {*found["loaded"]} == set()
    assert {"numba", "fedglb.service.agent"} <= {*found["loaded"]}


def test_it_says_how_long_it_compiles_before_it_does(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    init = ["federation", "init", "--name", "shops", "--clients", "shop-1", "--dim", "2"]

    def start(*words):
        return subprocess.Popen(
            [sys.executable, "-m", "fedglb", *words], cwd=tmp_path, env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    for folder, said in (("shops", "compiling the kernels: 1 to 3 s, once"), ("again", "")):
        with start(*init, folder) as process:
            assert process.stderr.read().partition(" (")[0] == said
        assert process.returncode == 0
    # A few kernels are on disk now, and not those of a service.
    with start("agent", "serve", "agent.db", "--bundle", "shops/clients/shop-1") as process:
        try:
            assert process.stderr.readline().startswith("compiling the kernels: 10 to 30 s, once")
        finally:
            process.kill()
