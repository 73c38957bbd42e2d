"""`fedglb agent serve`: the agent as a service, for applications in any language."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from fedglb.cli.progress import announce_compilation, say
from fedglb.cli.report_errors import extra, report_errors
from fedglb.errors import InvalidInput, number, one_of
from fedglb.federation.agent.decisions import DecisionRules, KeptArms, OnFullDisk
from fedglb.federation.agent.store import Durability
from fedglb.links import LINKS
from fedglb.problem import Problem

_WHERE, _AGENT, _LIMITS = "Where it listens", "The agent", "Limits"
_EXTRA = ("starlette", "uvicorn", "prometheus_client", "httptools", "uvloop")
_MODES = ("600", "660")
_SLOW = 2.0  # seconds, after which it says what takes so long


def _option(text: str, panel: str) -> Any:
    return typer.Option(help=text, rich_help_panel=panel)


def serve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The agent's file; made if new.")],
    bundle: Annotated[
        Path | None, _option("The client's folder, to take part in a federation.", _AGENT)
    ] = None,
    dim: Annotated[
        int | None, _option("d, the numbers of an arm, for an agent alone.", _AGENT)
    ] = None,
    link: Annotated[str, _option(f"Alone: {', '.join(LINKS)}.", _AGENT)] = "logistic",
    radius: Annotated[float, _option("Alone: S, the bound on ‖θ‖.", _AGENT)] = 1.0,
    explore: Annotated[float, _option("The share of decisions drawn at random.", _AGENT)] = 0.0,
    durable: Annotated[
        str, _option(f"What a reward survives: {', '.join(get_args(Durability))}.", _AGENT)
    ] = "process",
    expire_after: Annotated[
        float, _option("Seconds that a decision waits for its reward.", _AGENT)
    ] = DecisionRules.expire_after,
    max_pending: Annotated[
        int, _option("Decisions that wait for their reward.", _AGENT)
    ] = DecisionRules.max_pending,
    log: Annotated[
        str, _option(f"Which arms are kept: {', '.join(get_args(KeptArms))}.", _AGENT)
    ] = "chosen",
    on_full_disk: Annotated[
        str, _option(f"What a choice does then: {', '.join(get_args(OnFullDisk))}.", _AGENT)
    ] = "raise",
    report_rewards: Annotated[
        bool, _option("Tell the coordinator how many rewards there were, and their sum.", _AGENT)
    ] = False,
    wait: Annotated[
        float, _option("Seconds to wait, at most, for another owner of the file.", _AGENT)
    ] = 30.0,
    http: Annotated[
        str, _option("Address and port; port 0: any that is free.", _WHERE)
    ] = "127.0.0.1:8731",
    socket: Annotated[
        Path | None, _option("A unix socket, in place of an address.", _WHERE)
    ] = None,
    socket_mode: Annotated[
        str, _option("Its mode: 600 (the same user) or 660 (the group, too).", _WHERE)
    ] = "600",
    token_file: Annotated[
        Path | None, _option("A file with the token that requests must carry.", _WHERE)
    ] = None,
    tls_cert: Annotated[Path | None, _option("A certificate, as PEM.", _WHERE)] = None,
    tls_key: Annotated[Path | None, _option("Its key.", _WHERE)] = None,
    max_body: Annotated[int, _option("Bytes of a request's body.", _LIMITS)] = 2**20,
    max_arms: Annotated[int, _option("Arms of one request.", _LIMITS)] = 1000,
    max_batch: Annotated[int, _option("Items of a batch.", _LIMITS)] = 1000,
    max_concurrent: Annotated[int, _option("Requests at a time.", _LIMITS)] = 256,
    shutdown_timeout: Annotated[
        float, _option("Seconds that requests in progress have at the end.", _LIMITS)
    ] = 30.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events as JSON, one per line, for scripts.")
    ] = False,
) -> None:
    """Run an agent as a service until Ctrl-C or SIGTERM: JSON over HTTP, see docs/applications.md.

    One process owns the file and the connection to the federation; any number of others ask it.
    It listens on this machine only, or on a unix socket. Any other address needs a certificate
    and a token.

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
        listen = Listen.parse(http, token_file, tls_cert, tls_key, socket, _octal(socket_mode))
        problem, about = _problem(bundle, dim, link, radius)
        one_of("durable", durable, get_args(Durability))
        from fedglb.federation import Agent

        _log_to_output(as_json)
        with _said_if_slow():
            agent = Agent.open(
                file, problem, bundle=bundle, explore=explore,
                durable=cast("Durability", durable),
                expire_after=expire_after, max_pending=max_pending,
                log=cast("KeptArms", log), on_full_disk=cast("OnFullDisk", on_full_disk),
                report_rewards=report_rewards, wait=wait,
            )  # fmt: skip
        with agent:
            access = Access(listen.token, listen.hosts)
            app = make_app(agent, limits=limits, access=access, about=about)

            def on_listening(url: str) -> None:
                _print("listening", f"agent {about['client']} listens on {url}", as_json, url=url)

            run(app, listen, shutdown_timeout, on_listening)
        _print("stopped", "all requests are answered, and the file is closed", as_json)


def _problem(
    bundle: Path | None, dim: int | None, link: str, radius: float
) -> tuple[Problem, dict[str, str]]:
    """Return the problem, and what the page says of the agent."""
    if bundle is None:
        if dim is None:
            raise InvalidInput("dim", None, "the numbers of an arm, or --bundle DIR")
        one_of("link", link, LINKS)
        return Problem(dim, LINKS[link](), radius), {"client": "alone", "dim": str(dim)}
    if dim is not None:
        raise InvalidInput("dim", dim, "none with --bundle, which has the federation's problem")
    with extra():
        from fedglb.federation.bundle import Bundle
    found = Bundle.read(bundle)
    problem = found.agreement.problem
    about = {"client": found.client, "federation": found.federation, "dim": str(problem.dim)}
    return problem, about


def _octal(mode: str) -> int:
    if mode not in _MODES:
        raise InvalidInput("socket_mode", mode, f"one of {', '.join(_MODES)}")
    return int(mode, 8)


@contextmanager
def _said_if_slow() -> Iterator[None]:
    """Say that kernels are loaded or compiled, if that takes long."""
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
    """Prints what the package and the server log, as events."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        _print("log", self.format(record), self._as_json, level=record.levelname.lower())


def _log_to_output(as_json: bool) -> None:
    for name, level in (("fedglb", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(_ToOutput(as_json))


def _print(event: str, text: str, as_json: bool, **facts: object) -> None:
    now = time.time()
    if as_json:
        typer.echo(json.dumps({"event": event, "text": text, "time": now, **facts}))
    else:
        typer.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))} {text}")
