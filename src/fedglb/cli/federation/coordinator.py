"""`fedglb federation coordinator`: the service that runs the global updates; `backup`: its file."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.common import (
    CoordinatorFolder,
    CopyFile,
    Json,
    JsonEvents,
    OnAlarm,
    StateFile,
    print_copied,
    print_event,
)
from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import InvalidInput
from fedglb.federation.errors import Superseded

_SUPERSEDED = 3  # exit code: another coordinator runs, so a restart of this one does not help

if TYPE_CHECKING:
    from fedglb.federation.coordinator.board import Board
    from fedglb.federation.coordinator.events import CoordinatorEvent


def coordinator(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="The coordinator's folder, as made by `init`.")
    ],
    state: Annotated[
        Path | None,
        typer.Option(help="The file with its state.", show_default="BUNDLE/state.db"),
    ] = None,
    quorum: Annotated[
        int, typer.Option(help="Minimum number of clients in an update, from start to end.")
    ] = 1,
    time_limit: Annotated[
        float, typer.Option(help="Seconds to wait for an answer; then the client is left out.")
    ] = 30.0,
    absent_after: Annotated[
        float, typer.Option(help="Seconds of silence after which a client counts as absent.")
    ] = 10.0,
    max_samples: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of samples a client may claim.",
            show_default="20 × the median client",
        ),
    ] = None,
    min_interval: Annotated[
        float, typer.Option(help="Minimum seconds between the starts of two updates.")
    ] = 1.0,
    after: Annotated[
        int, typer.Option(help="Number of the last update, if the file with the state was lost.")
    ] = 0,
    http: Annotated[
        str | None,
        typer.Option(
            help="Serve a live page here, such as 127.0.0.1:8732; port 0: any free port.",
            show_default="no page",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that the page requires.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Its certificate, a PEM file.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key, a PEM file.")] = None,
    on_alarm: OnAlarm = None,
    as_json: JsonEvents = False,
) -> None:
    """Run the coordinator until Ctrl-C or SIGTERM.

    Its state is in one file. It may be killed at any moment; after a restart it repeats the
    interrupted update. Events go to standard output, one per line.
    `fedglb federation status` shows its state; --http serves it as a live page, on loopback
    addresses only, unless --token-file, --tls-cert and --tls-key are present.

    Example: fedglb federation coordinator ./demo/coordinator --quorum 3
    """
    with extra():
        from fedglb.federation.alarms import AlarmCommand
        from fedglb.federation.bundle import Bundle
        from fedglb.federation.coordinator.board import Board
        from fedglb.federation.coordinator.policy import CoordinatorPolicy
        from fedglb.federation.coordinator.service import opened, serve
        from fedglb.federation.operator.listing import certificate_ends
    announce_compilation()
    names = {name: f"--{name.replace('_', '-')}" for name in locals()}
    with report_errors(**names | {"bundle": "BUNDLE", "path": "--state"}):
        policy = CoordinatorPolicy(
            quorum, time_limit, absent_after, max_samples, min_interval=min_interval
        )
        found = Bundle.read(bundle)
        found.tls()  # fail now if key and certificate do not match
        place = bundle / "state.db" if state is None else state
        board = Board(lambda: certificate_ends(bundle))
        started = f"coordinator of {found.federation} at {found.server}"
        command = None if on_alarm is None else AlarmCommand(on_alarm, of=found.federation)

        def on_event(event: CoordinatorEvent) -> None:
            print_event(event.kind, event.text, event.facts, as_json)
            if command is not None and event.kind == "alarm":
                command.call(event.facts)

        page = _page(board, http, token_file, tls_cert, tls_key)
        try:
            with opened(found, place) as store:  # before the page: another one may have both
                print_event("started", started, {}, as_json)
                with page as url:
                    if url is not None:
                        print_event("serving", f"the page is at {url}", {"url": url}, as_json)
                    serve(found, store, place, policy, on_event, after, board)
        except Superseded as error:
            fail(str(error), _SUPERSEDED)


def _page(
    board: Board, http: str | None, token: Path | None, certificate: Path | None, key: Path | None
) -> AbstractContextManager[str | None]:
    """Return a block inside which the page is served, if `http` is set."""
    if http is None:
        return nullcontext()
    with extra("service", "starlette", "uvicorn", "prometheus_client", "httptools"):
        from fedglb.service.coordinator import serving
        from fedglb.service.listening import Listen
    return serving(board, Listen.parse(http, token, certificate, key))


def backup(
    folder: CoordinatorFolder, to: CopyFile, state: StateFile = None, as_json: Json = False
) -> None:
    """Copy the coordinator's file atomically; the coordinator may keep running.

    Keys and members are not in it: back up authority/ offline.

    Example: fedglb federation backup ./demo /backup/state-monday.db
    """
    from fedglb.federation.names import COORDINATOR
    from fedglb.federation.sqlite import backup as copy

    inside = folder / COORDINATOR
    place = (inside if inside.is_dir() else folder) / "state.db" if state is None else state
    with report_errors(source="FOLDER" if state is None else "--state", path="COPY.db"):
        if not place.is_file():
            allowed = "the state file of a coordinator: the file does not exist"
            raise InvalidInput("source", str(place), allowed)
        copy("coordinator", place, to)
    print_copied(to, as_json)
