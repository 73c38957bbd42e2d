"""`fedglb federation privacy`: what a federation promises, and what is spent of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.durations import in_words
from fedglb.cli.federation.report_errors import report_errors
from fedglb.cli.federation.status import found_status
from fedglb.cli.report_errors import fail

if TYPE_CHECKING:
    from fedglb.federation.coordinator.status import (
        CoordinatorStatus,
        PrivacyStatus,
        ScheduleStatus,
        SumsStatus,
    )


def privacy(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The operator's folder, or the coordinator's."),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            help="The file with the coordinator's state.", show_default="coordinator/state.db"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, for scripts.")
    ] = False,
) -> None:
    """Say what a federation promises, to whom, what is spent of it, and when the next update is.

    Run it as the user and on the machine of the coordinator, which need not run. What each client
    has released is in that client's status.

    Example: fedglb federation privacy ./demo
    """
    with report_errors(bundle="FOLDER", path="--state"):
        found = found_status(folder, state)
    if found.schedule is None:
        fail("this federation has no schedule and no privacy: see --epsilon of init", 1)
    if as_json:
        typer.echo(json.dumps(_plain(found)))
        return
    for line in _lines(found.privacy, found.schedule, found.time) + _sums(found.secure_sums):
        typer.echo(line)


def _plain(found: CoordinatorStatus) -> dict[str, Any]:
    import msgspec

    said = {"federation": found.federation, "running": found.running}
    parts = {
        "privacy": found.privacy,
        "schedule": found.schedule,
        "secure_sums": found.secure_sums,
    }
    return {**said, **{name: msgspec.to_builtins(part) for name, part in parts.items()}}


def _sums(sums: SumsStatus | None) -> list[str]:
    if sums is None:
        return ["No secure sums: the coordinator sees what each client sends."]
    return [
        f"Secure sums: the coordinator sees sums over {sums.minimum} clients or more, and no "
        "client's own.",
        f"Roster: {sums.roster} ({len(sums.members)} members: {', '.join(sums.members)}).",
    ]


def _lines(promise: PrivacyStatus | None, schedule: ScheduleStatus, now: float) -> list[str]:
    """Return what is said, line by line."""
    out = []
    if promise is None:
        out.append("No privacy: sums are sent without noise.")
    else:
        several = f", {promise.contributions} interactions a user"
        out += [
            f"Promised: epsilon = {promise.epsilon:g}, delta = {promise.delta:g} for all updates "
            f"together ({promise.neighbours} neighbours"
            f"{several if promise.contributions > 1 else ''}; by zCDP epsilon = "
            f"{promise.zcdp_epsilon:.3g}).",
            f"Spent: epsilon = {promise.spent:.3g} in {promise.releases} of {promise.updates} "
            f"updates; left: {promise.updates - promise.releases} updates.",
            *(f"Protected: {sentence}." for sentence in promise.protects),
            *(f"Note: {sentence}." for sentence in promise.caveats),
        ]
    if schedule.ended is not None:
        out.append(f"No more updates: {schedule.ended}.")
    elif schedule.next is None:
        out.append("The schedule has not started: it does when the coordinator first runs.")
    else:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(schedule.next))
        late = schedule.next <= now
        wait = "now, with enough clients" if late else f"in {in_words(schedule.next - now)}"
        out.append(
            f"Next update: {when} ({wait}); {schedule.done} of {schedule.updates} times are past."
        )
    return out
