"""`fedglb federation status`: members, updates and alarms; `privacy`: promise and budget spent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedglb.cli.common import CoordinatorFolder, Json, StateFile, console, print_json
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable
from fedglb.io.durations import in_words
from fedglb.privacy import spent_text

if TYPE_CHECKING:
    from rich.table import Table

    from fedglb.federation.coordinator.differences import SpreadStatus
    from fedglb.federation.coordinator.status import (
        CoordinatorStatus,
        MemoryStatus,
        PrivacyStatus,
        ScheduleStatus,
        SumsStatus,
    )

_UPDATES = 5  # the last ones, in the table
_ALLOWED = "the operator's folder, or the coordinator's"


def status(folder: CoordinatorFolder, state: StateFile = None, as_json: Json = False) -> None:
    """Show a federation's members, updates and alarms.

    Run it as the coordinator's user, on its machine. If the coordinator does not run, the status
    comes from its file. The exit code is 1 if there is an alarm (a coordinator that does not run
    is one).

    Example: fedglb federation status ./demo
    """
    found = read_status(folder, state)
    if as_json:
        typer.echo(found.to_json().decode())
    else:
        _show(found)
    raise typer.Exit(1 if found.alarms else 0)


def privacy(folder: CoordinatorFolder, state: StateFile = None, as_json: Json = False) -> None:
    """Show a federation's privacy: the promise, the budget spent, the next update.

    Run it as the coordinator's user, on its machine; the coordinator need not run. An agent's own
    status shows what that agent has released.

    Example: fedglb federation privacy ./demo
    """
    import msgspec

    found = read_status(folder, state)
    if found.schedule is None:
        fail("this federation has no schedule and no privacy (see --epsilon of init)", 1)
    if as_json:
        parts = {
            "privacy": found.privacy, "schedule": found.schedule, "secure_sums": found.secure_sums,
        }  # fmt: skip
        plain = {name: msgspec.to_builtins(part) for name, part in parts.items()}
        print_json({"federation": found.federation, "running": found.running, **plain})
        return
    for line in _promised(found.privacy, found.schedule, found.time) + _sums(found.secure_sums):
        typer.echo(line)


def coordinator_folder(folder: Path) -> Path:
    """Return the coordinator's folder, which the operator's may have in it."""
    with extra():
        from fedglb.federation.bundle import FILE
        from fedglb.federation.names import COORDINATOR
    inside = folder / COORDINATOR
    return inside if (inside / FILE).is_file() else folder


def read_status(folder: Path, state: Path | None) -> CoordinatorStatus:
    """Return the status: from the running coordinator, or else from its file."""
    with extra():
        from fedglb.federation.bundle import FILE, Bundle
        from fedglb.federation.coordinator.board import ask, place_of
        from fedglb.federation.coordinator.status import stored_status
        from fedglb.federation.names import COORDINATOR
        from fedglb.federation.operator.listing import certificate_ends
    bundle = coordinator_folder(folder)
    place = bundle / "state.db" if state is None else state
    with report_errors(bundle="FOLDER", path="--state"):
        try:
            running = ask(place)
            if running is not None:
                return running
            if not (bundle / FILE).is_file():
                raise InvalidInput("bundle", str(bundle), f"{_ALLOWED}")
            found = Bundle.read(bundle)
            if found.client != COORDINATOR:
                raise InvalidInput("bundle", str(bundle), _ALLOWED)
            return stored_status(found, place, certificate_ends(bundle))
        except Unavailable as error:
            if place_of(place).exists():
                fail(f"{error}; the coordinator does not respond", 1)
            fail("the coordinator is starting: try again (if that lasts, see its log)", 1)


def _show(found: CoordinatorStatus) -> None:
    say = console().print
    if found.running and found.started is not None:
        say(f"Federation {found.federation}: the coordinator started at {_when(found.started)}.")
    else:
        runs = "the coordinator does not run, or only just starts"
        say(f"Federation {found.federation}: {runs}. From its file:")
    totals = found.totals
    # on a schedule samples are sent once, in sums: their number is hidden
    counted = "" if totals.samples is None else f"{totals.samples:,} samples in the model, "
    say(
        f"{found.present} of {len(found.members)} clients present; {totals.updates} updates, "
        f"{counted}{totals.rounds:,} rounds, {_size(totals.bytes)} on the wire."
    )
    say(f"Agreed: {found.algorithm}, which chooses by {found.choice}.")
    for line in _of_schedule(found):
        say(line)
    if found.updating is not None:
        awaited = ", ".join(found.waiting_for) or "no client"
        say(f"Update {found.updating} is in progress, waiting for {awaited}.")
    if found.spread is not None:
        say(_spread(found.spread))
    if found.memory is not None:
        say(_memory(found.memory))
    if found.frozen is not None:
        update, since = found.frozen.update, _when(found.frozen.since)
        say(f"Frozen since {since}: all clients choose with the model of update {update}.")
    for alarm in found.alarms:
        when = "" if alarm.since is None else f" ({_when(alarm.since)})"
        say(f"ALARM {alarm.kind}: {alarm.text}{when}")
    for caveat in found.caveats:
        say(f"Note: {caveat}.", style="dim")
    for table in (_members(found), _updates(found)):
        if table.row_count:
            say()
            say(table)


def _spread(spread: SpreadStatus) -> str:
    text = "Clients are alike"
    if spread.theta or spread.effects:
        text = f"Clients differ: weights by ± {spread.theta:.2g}, effects by ± {spread.effects:.2g}"
    return f"{text}; far from all others: {spread.far}."


def _memory(memory: MemoryStatus) -> str:
    text = "Memory: all samples count alike, until newer ones say something else"
    if memory.half_life is not None:
        text = f"Memory: samples count half after {in_words(memory.half_life)}"
    older = "" if memory.since is None else f"; those from before {_when(memory.since)} count less"
    return f"{text}{older}."


def _of_schedule(found: CoordinatorStatus) -> list[str]:
    schedule, privacy = found.schedule, found.privacy
    if schedule is None:
        return []
    following = f"the next update is due at {_when(schedule.next)}"
    waits = "it starts when the coordinator first runs" if schedule.start is None else following
    out = [f"Schedule of {schedule.updates} updates: {schedule.ended or waits}."]
    if privacy is not None:
        out.append(
            f"Privacy: {_spent(privacy)} (δ = {privacy.delta:g}; more: fedglb federation privacy)."
        )
    return out


def _spent(privacy: PrivacyStatus) -> str:
    return (
        f"ε spent {spent_text(privacy.spent, privacy.epsilon)} of {privacy.epsilon:g} in "
        f"{privacy.releases} of "
        f"{privacy.updates} updates"
    )


def _sums(sums: SumsStatus | None) -> list[str]:
    if sums is None:
        return ["No secure sums: the coordinator sees each client's messages."]
    return [
        f"Secure sums: the coordinator sees sums over {sums.minimum} clients or more, and no "
        "single client's.",
        f"Roster: {sums.roster} ({len(sums.members)} members: {', '.join(sums.members)}).",
    ]


def _promised(promise: PrivacyStatus | None, schedule: ScheduleStatus, now: float) -> list[str]:
    out = []
    if promise is None:
        out.append("No privacy: sums are sent without noise.")
    else:
        several = f", {promise.contributions} interactions per user"
        out += [
            f"Promised: ε = {promise.epsilon:g}, δ = {promise.delta:g} for all updates together "
            f"({promise.neighbours} neighbours{several if promise.contributions > 1 else ''}; "
            f"by zCDP ε = {promise.zcdp_epsilon:.3g}).",
            f"{_spent(promise)}.",
            *(f"Protected: {sentence}." for sentence in promise.protects),
            *(f"Note: {sentence}." for sentence in promise.caveats),
        ]
    if schedule.ended is not None:
        out.append(f"No more updates: {schedule.ended}.")
    elif schedule.next is None:
        out.append("The schedule starts when the coordinator first runs.")
    else:
        late = schedule.next <= now
        wait = "now, with enough clients" if late else f"in {in_words(schedule.next - now)}"
        past = f"{schedule.done} of {schedule.updates} are done"
        out.append(f"Next update: {_when(schedule.next)} ({wait}); {past}.")
    return out


def _members(found: CoordinatorStatus) -> Table:
    from rich.table import Table

    ends = {each.name: each.ends for each in found.certificates}
    table = Table(box=None, pad_edge=False)
    for name in ("client", "here", "joined", "last seen"):
        table.add_column(name, no_wrap=True)
    for name in ("samples", "share", "left out"):
        table.add_column(name, justify="right", no_wrap=True)
    if found.spread is not None:
        table.add_column("distance", justify="right", no_wrap=True)
    table.add_column("certificate expires", no_wrap=True)
    for m in found.members:
        end = ends.get(m.name)
        table.add_row(
            m.name, "yes" if m.present else "no", _day(m.joined) or "never",
            _ago(m.seen, found.time), _count(m.samples),
            "" if m.share is None else f"{m.share:.1%}",
            f"{m.left_out}" if m.left_out else "",
            *([] if found.spread is None else [m.apart]), _day(end),
        )  # fmt: skip
    return table


def _updates(found: CoordinatorStatus) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("update", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for name in ("clients", "samples", "rounds", "ms", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("left out")
    for u in found.updates[-_UPDATES:]:
        table.add_row(
            str(u.number), _ago(u.at, found.time), f"{u.clients}", _count(u.samples), f"{u.rounds}",
            f"{1e3 * u.seconds:,.0f}", _size(u.bytes),
            "; ".join(f"{client}: {why}" for client, why in u.left_out.items()),
        )  # fmt: skip
    return table


def _count(samples: int | None) -> str:
    return "unknown" if samples is None else f"{samples:,}"


def _when(at: float | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return "" if at is None else time.strftime(form, time.localtime(at))


def _day(at: float | None) -> str:
    return _when(at, "%Y-%m-%d")


def _ago(at: float | None, now: float) -> str:
    if at is None:
        return ""
    return f"{in_words(max(0, round(now - at)))} ago"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
