"""`fedglb agent serve`: the agent as a service, for applications in any language."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from fedglb.cli.common import JsonEvents, in_panel, print_event, say
from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import number, one_of
from fedglb.federation.agent.decisions import DecisionRules, KeptArms, OnFullDisk
from fedglb.federation.agent.store import Durability
from fedglb.links import LINKS
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable

_where, _agent, _limit = map(in_panel, ("Where it listens", "The agent", "Limits"))
_EXTRA = ("starlette", "uvicorn", "prometheus_client", "httptools", "uvloop")
_MODES = ("600", "660")
_SLOW = 2.0  # seconds until a message explains the delay


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The agent's file; new if missing.")],
    bundle: Annotated[
        Path | None, _agent("The client's folder, to take part in a federation.")
    ] = None,
    dim: Annotated[int | None, _agent("Alone: d, features per arm.")] = None,
    link: Annotated[str, _agent(f"Alone: {', '.join(LINKS)}.")] = "logistic",
    radius: Annotated[float, _agent("Alone: S, the bound on ‖θ‖.")] = 1.0,
    explore: Annotated[float, _agent("The share of decisions drawn at random.")] = 0.0,
    durable: Annotated[
        str, _agent(f"What stored rewards survive: {', '.join(get_args(Durability))}.")
    ] = "process",
    expire_after: Annotated[
        float, _agent("Seconds that a decision waits for its reward; then it expires.")
    ] = DecisionRules.expire_after,
    max_pending: Annotated[
        int, _agent("Decisions that may wait for their reward.")
    ] = DecisionRules.max_pending,
    log: Annotated[
        str, _agent(f"Which arms are kept: {', '.join(get_args(KeptArms))}.")
    ] = "chosen",
    on_full_disk: Annotated[
        str, _agent(f"What choose does on a full disk: {', '.join(get_args(OnFullDisk))}.")
    ] = "raise",
    report_rewards: Annotated[
        bool, _agent("Report the number and the sum of rewards to the coordinator.")
    ] = False,
    follow_roster: Annotated[
        bool,
        _agent("Accept a roster in the bundle that only got smaller, also while running."),
    ] = False,
    wait: Annotated[
        float, _agent("Seconds to wait while another process has the file open.")
    ] = 30.0,
    http: Annotated[str, _where("Address and port; port 0: any free port.")] = "127.0.0.1:8731",
    socket: Annotated[Path | None, _where("A unix socket, in place of an address.")] = None,
    socket_mode: Annotated[
        str, _where("Its mode: 600 (this user) or 660 (its group, too).")
    ] = "600",
    token_file: Annotated[
        Path | None, _where("A file with the token that requests must carry.")
    ] = None,
    tls_cert: Annotated[Path | None, _where("A certificate, a PEM file.")] = None,
    tls_key: Annotated[Path | None, _where("The certificate's key, a PEM file.")] = None,
    max_body: Annotated[int, _limit("Bytes of a request's body.")] = 2**20,
    max_arms: Annotated[int, _limit("Arms of one request.")] = 1000,
    max_batch: Annotated[int, _limit("Items of a batch.")] = 1000,
    max_concurrent: Annotated[int, _limit("Concurrent requests.")] = 256,
    shutdown_timeout: Annotated[
        float, _limit("Seconds for requests in progress to finish at shutdown.")
    ] = 30.0,
    as_json: JsonEvents = False,
) -> None:
    """Run an agent as a service until Ctrl-C or SIGTERM: JSON over HTTP, see docs/applications.md.

    One process owns the file and the connection to the federation, and serves any number of others.
    It listens on this machine only, or on a unix socket; any other address requires --token-file,
    --tls-cert and --tls-key.

    Example: fedglb agent serve shop-1.db --dim 3 --socket /run/shop/agent.sock
    """
    with extra("service", *_EXTRA):
        from fedglb.service.agent import RequestLimits, make_app
        from fedglb.service.guard import Access
        from fedglb.service.listening import Listen
        from fedglb.service.server import serve as run
    names = {name: f"--{name.replace('_', '-')}" for name in locals()}
    with report_errors(**names | {"path": "FILE"}):
        limits = RequestLimits(max_body, max_arms, max_batch, max_concurrent)
        number("shutdown_timeout", shutdown_timeout, above=0.0)
        mode = int(one_of("socket_mode", socket_mode, _MODES), 8)
        listen = Listen.parse(http, token_file, tls_cert, tls_key, socket, mode)
        problem, about = _problem(bundle, dim, link, radius)
        from fedglb.federation import Agent

        _log_to_output(as_json)
        with _explain_delay():
            agent = Agent.open(
                file, problem, bundle=bundle, explore=explore,
                durable=cast("Durability", durable),
                expire_after=expire_after, max_pending=max_pending,
                log=cast("KeptArms", log), on_full_disk=cast("OnFullDisk", on_full_disk),
                report_rewards=report_rewards, follow_roster=follow_roster, wait=wait,
            )  # fmt: skip
        with agent:
            access = Access(listen.token, listen.hosts)
            app = make_app(agent, limits=limits, access=access, about=about)

            def on_listening(url: str) -> None:
                text = f"agent {about['client']} listens on {url}"
                print_event("listening", text, {"url": url}, as_json)

            run(app, listen, shutdown_timeout, on_listening)
        print_event("stopped", "all requests are answered, and the file is closed", {}, as_json)


def _problem(
    bundle: Path | None, dim: int | None, link: str, radius: float
) -> tuple[Problem, dict[str, str]]:
    """Return the problem, and the facts about the agent for its page."""
    if bundle is None:
        if dim is None:
            fail("--dim is required without --bundle", 2)
        problem = ProblemTable(dim, link, radius).build()
        return problem, {"client": "alone", "dim": str(dim)}
    if dim is not None:
        fail("--dim and --bundle exclude each other: the bundle has the federation's problem", 2)
    with extra():
        from fedglb.federation.bundle import Bundle
    found = Bundle.read(bundle)
    problem = found.agreement.problem
    about = {"client": found.client, "federation": found.federation, "dim": str(problem.dim)}
    return problem, about


@contextmanager
def _explain_delay() -> Iterator[None]:
    """Print a message if loading or compiling kernels takes long."""
    announce_compilation()
    later = threading.Timer(
        _SLOW, say, ["still opening: kernels are compiled, or samples replayed"]
    )
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()


class _ToOutput(logging.Handler):
    """Prints log records of the package and the server as events."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        level = {"level": record.levelname.lower()}
        print_event("log", self.format(record), level, self._as_json)


def _log_to_output(as_json: bool) -> None:
    for name, level in (("fedglb", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(_ToOutput(as_json))
