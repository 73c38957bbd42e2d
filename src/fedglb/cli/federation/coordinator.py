"""`fedglb federation coordinator`: the service that joins the agents into one learner."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.federation.report_errors import extra, report_errors
from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import fail
from fedglb.federation.errors import Unavailable

if TYPE_CHECKING:
    from fedglb.federation.coordinator.events import CoordinatorEvent


def coordinator(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="The coordinator's folder, as `init` made it.")
    ],
    state: Annotated[
        Path | None,
        typer.Option(help="The file of its state.", show_default="BUNDLE/state.db"),
    ] = None,
    quorum: Annotated[int, typer.Option(help="Clients that an update needs to its end.")] = 1,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for an answer; then the update goes on without.")
    ] = 30.0,
    absent_after: Annotated[
        float, typer.Option(help="Seconds of silence after which a client counts as gone.")
    ] = 10.0,
    most_samples: Annotated[
        int | None,
        typer.Option(help="Samples that a client may claim to have.", show_default="any number"),
    ] = None,
    after: Annotated[
        int, typer.Option(help="Number of the last update, if the file of the state was lost.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events as JSON, one a line, for scripts.")
    ] = False,
) -> None:
    """Run the coordinator until Ctrl-C or SIGTERM.

    It keeps its state in one file: killed at any moment and started again, it goes on, and an
    update that was cut off is made anew. Events go to standard output, one a line.

    Example: fedglb federation coordinator ./demo/coordinator --quorum 3
    """
    with extra():
        from fedglb.federation.bundle import Bundle
        from fedglb.federation.coordinator.policy import Policy
        from fedglb.federation.coordinator.service import serve
    announce_compilation()
    names = {"quorum": "--quorum", "time_limit": "--time-limit", "bundle": "BUNDLE"}
    names |= {"absent_after": "--absent-after", "most_samples": "--most-samples"}
    with report_errors(**names, path="--state"):
        policy = Policy(quorum, time_limit, absent_after, most_samples)
        found = Bundle.read(bundle)
        place = bundle / "state.db" if state is None else state
        _tell("started", f"coordinator of {found.federation} at {found.server}", {}, as_json)

        def tell(event: CoordinatorEvent) -> None:
            _tell(event.kind, event.text, event.facts, as_json)

        try:
            serve(found, place, policy, tell, after)
        except Unavailable as error:
            fail(str(error), 1)


def _tell(kind: str, text: str, facts: dict[str, object], as_json: bool) -> None:
    now = time.time()
    if as_json:
        line = json.dumps({"event": kind, "text": text, "time": now, **facts})
    else:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))} {text}"
    typer.echo(line)  # flushed: a log that lags behind is of no use
