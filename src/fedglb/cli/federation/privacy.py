"""`fedglb federation privacy`: the privacy that a federation promises, and how much is spent."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.durations import in_words
from fedglb.cli.federation.status import found_status, spent
from fedglb.cli.report_errors import fail, report_errors

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
    """Show a federation's privacy: what it promises, to whom, how much is spent, the next update.

    Run it as the coordinator's user, on its machine; the coordinator need not run. An agent's own
    status shows what that agent has released.

    Example: fedglb federation privacy ./demo
    """
    with report_errors(bundle="FOLDER", path="--state"):
        found = found_status(folder, state)
    if found.schedule is None:
        fail("this federation has no schedule and no privacy (see --epsilon of init)", 1)
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
        "single client's.",
        f"Roster: {sums.roster} ({len(sums.members)} members: {', '.join(sums.members)}).",
    ]


def _lines(promise: PrivacyStatus | None, schedule: ScheduleStatus, now: float) -> list[str]:
    """Return the lines about privacy and schedule."""
    out = []
    if promise is None:
        out.append("No privacy: sums are sent without noise.")
    else:
        several = f", {promise.contributions} interactions per user"
        out += [
            f"Promised: ε = {promise.epsilon:g}, δ = {promise.delta:g} for all updates together "
            f"({promise.neighbours} neighbours{several if promise.contributions > 1 else ''}; "
            f"by zCDP ε = {promise.zcdp_epsilon:.3g}).",
            f"{spent(promise)}.",
            *(f"Protected: {sentence}." for sentence in promise.protects),
            *(f"Note: {sentence}." for sentence in promise.caveats),
        ]
    if schedule.ended is not None:
        out.append(f"No more updates: {schedule.ended}.")
    elif schedule.next is None:
        out.append("The schedule starts when the coordinator first runs.")
    else:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(schedule.next))
        late = schedule.next <= now
        wait = "now, with enough clients" if late else f"in {in_words(schedule.next - now)}"
        out.append(f"Next update: {when} ({wait}); {schedule.done} of {schedule.updates} are past.")
    return out
