"""`fedglb agent serve`: the agent as a service, for applications in any language."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, get_args

import typer

from fedglb.cli.agent.models import in_table, options_of, read_models
from fedglb.cli.agent.problem import AgentProblem
from fedglb.cli.common import JsonEvents, OnAlarm, in_panel, print_event, seconds
from fedglb.cli.progress import announce_compilation, explain_delay
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import InvalidInput, number, one_of
from fedglb.federation.agent.decisions import (
    DecisionRules,
    KeptArms,
    Late,
    OnFullDisk,
    WithoutRecords,
)
from fedglb.federation.agent.store import Durability
from fedglb.links import LINKS
from fedglb.problem_table import ProblemTable

_AGENT = "The agent"
_where, _agent, _limit = map(in_panel, ("Where it listens", _AGENT, "Limits"))
_EXTRA = ("starlette", "uvicorn", "prometheus_client", "httptools", "uvloop")
_MODES = ("600", "660")


def serve(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="The agent's file; new if missing.", show_default=False
        ),
    ] = None,
    bundle: Annotated[
        Path | None, _agent("The client's folder, to take part in a federation.")
    ] = None,
    dim: Annotated[int | None, _agent("Alone: d, features per arm.")] = None,
    features: Annotated[
        Path | None, _agent("Alone: a TOML file, the schema by which records become arms.")
    ] = None,
    strict: Annotated[
        bool, _agent("Refuse a record with a field that the schema does not have.")
    ] = False,
    without_records: Annotated[
        str,
        _agent(
            "What another schema does with samples that came as vectors: "
            f"{', '.join(get_args(WithoutRecords))}."
        ),
    ] = "refuse",
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
    default_reward: Annotated[
        float | None, _agent("The reward of a decision that got none in time, e.g. 0 for clicks.")
    ] = None,
    reward_after: Annotated[
        str, _agent("How long a decision waits for its reward, then it gets the default: 30m, 2h.")
    ] = "30m",
    late: Annotated[
        str,
        _agent(f"A reward that comes after the default one: {', '.join(get_args(Late))}."),
    ] = "replace",
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
    config: Annotated[
        Path | None,
        typer.Option(
            help="In place of FILE: a TOML file with a table [models.NAME] for each of several "
            "agents: its `file`, and those of the options above that it needs."
        ),
    ] = None,
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
    on_alarm: OnAlarm = None,
    as_json: JsonEvents = False,
) -> None:
    """Run an agent as a service until Ctrl-C or SIGTERM: JSON over HTTP, see docs/applications.md.

    One process owns the file and the connection to the federation, and serves any number of others.
    It listens on this machine only, or on a unix socket; any other address requires --token-file,
    --tls-cert and --tls-key.

    With --config it serves several agents, each with its file, its schema and its federation:
    /v1/NAME/choose, and a page at /NAME/.

    Example: fedglb agent serve shop-1.db --features features.toml --socket /run/shop/agent.sock
    """
    given = dict(locals())
    with extra("service", *_EXTRA):
        from fedglb.service.agent import RequestLimits, make_app
        from fedglb.service.guard import Access
        from fedglb.service.listening import Listen
        from fedglb.service.models import Model, check_model_name, make_models_app
        from fedglb.service.server import serve as run
    options = ["file", *options_of(serve, _AGENT)]
    if (file is None) == (config is None):
        fail("either FILE or --config is required", 2)
    names = {name: f"--{name.replace('_', '-')}" for name in locals()}
    with report_errors(**names | {"path": "FILE"}):
        limits = RequestLimits(max_body, max_arms, max_batch, max_concurrent)
        number("shutdown_timeout", shutdown_timeout, above=0.0)
        mode = int(one_of("socket_mode", socket_mode, _MODES), 8)
        listen = Listen.parse(http, token_file, tls_cert, tls_key, socket, mode)
        announce_compilation()
        tables = {"": {name: given[name] for name in options}}
        if config is not None:
            for name in options:
                source = context.get_parameter_source(name)
                if source is not None and source.name != "DEFAULT":
                    allowed = f"it in a table of {config}: each model has its own"
                    raise InvalidInput(name, given[name], allowed)
            tables = read_models(config, serve, _AGENT)
        problems: dict[str, AgentProblem] = {}
        for name, table in tables.items():
            with in_table(config, name):
                if config is not None:
                    check_model_name(name)
                problem = ProblemTable(*(table.pop(key) for key in ("dim", "link", "radius")))
                problems[name] = AgentProblem.of(table["bundle"], table["features"], problem)
        from fedglb.federation import Agent
        from fedglb.federation.agent.alarms import watching
        from fedglb.federation.alarms import AlarmCommand

        commands: dict[str, AlarmCommand] = {}
        if on_alarm is not None:
            of = {name: name or found.client for name, found in problems.items()}
            commands = {name: AlarmCommand(on_alarm, of[name]) for name in tables}
        with ExitStack() as stack:
            stack.enter_context(_logged_to_output(as_json))
            models: dict[str, Model] = {}
            with explain_delay(lambda: "still opening: kernels are compiled, or samples replayed"):
                for name, table in tables.items():
                    found = problems[name]
                    opened = {**table, "problem": found.problem, "features": found.features}
                    with in_table(config, name):
                        opened["reward_after"] = seconds("reward_after", table["reward_after"])
                        agent = stack.enter_context(Agent.open(opened.pop("file"), **opened))
                    models[name] = Model(agent, found.about)
                    watched = table["file"], table["bundle"], found.client, commands.get(name)
                    stack.enter_context(watching(agent.alarms, *watched))
            access = Access(listen.token, listen.hosts)
            if config is None:
                app = make_app(
                    models[""].agent, limits=limits, access=access, about=models[""].about
                )
                text, facts = f"agent {models[''].about['client']} listens", {}
            else:
                app = make_models_app(models, limits=limits, access=access)
                text, facts = f"{len(models)} models listen", {"models": list(models)}

            def on_listening(url: str) -> None:
                print_event("listening", f"{text} on {url}", {"url": url, **facts}, as_json)

            run(app, listen, shutdown_timeout, on_listening)
        print_event("stopped", "all requests are answered, and the file is closed", {}, as_json)


class _ToOutput(logging.Handler):
    """Prints log records of the package and the server as events."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        level = {"level": record.levelname.lower()}
        print_event("log", self.format(record), level, self._as_json)


@contextmanager
def _logged_to_output(as_json: bool) -> Iterator[None]:
    """Print what the package and the server log inside this block."""
    handler, before = _ToOutput(as_json), {}
    for name, level in (("fedglb", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        before[logger] = logger.level
        logger.setLevel(level)
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
            logger.removeHandler(handler)
