"""`fedglb federation status`: members, updates and alarms of a federation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.federation.errors import Unavailable

if TYPE_CHECKING:
    from fedglb.federation.coordinator.status import CoordinatorStatus, PrivacyStatus

_UPDATES = 5  # the last ones, in the table
_ALLOWED = "the operator's folder, or the coordinator's"


def status(
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
    """Show a federation's members, updates and alarms.

    Run it as the coordinator's user, on its machine. If the coordinator does not run, it says so
    and shows the contents of its file. The exit code is 1 if there is an alarm (a coordinator that
    does not run is one).

    Example: fedglb federation status ./demo
    """
    with report_errors(bundle="FOLDER", path="--state"):
        found = found_status(folder, state)
    if as_json:
        typer.echo(found.to_json().decode())
    else:
        _show(found)
    raise typer.Exit(1 if found.alarms else 0)


def found_status(folder: Path, state: Path | None) -> CoordinatorStatus:
    """Return the status of the federation in a folder, the operator's or the coordinator's."""
    with extra():
        from fedglb.federation.bundle import FILE
        from fedglb.federation.names import COORDINATOR
    inside = folder / COORDINATOR
    bundle = inside if (inside / FILE).is_file() else folder
    try:
        return _found(bundle, bundle / "state.db" if state is None else state)
    except Unavailable as error:
        fail(f"{error}; the coordinator does not respond", 1)


def _found(bundle: Path, state: Path) -> CoordinatorStatus:
    """Return the status: from the running coordinator, or else from its file."""
    from fedglb.errors import InvalidInput
    from fedglb.federation.bundle import FILE, Bundle
    from fedglb.federation.coordinator.board import ask
    from fedglb.federation.coordinator.status import stored_status
    from fedglb.federation.names import COORDINATOR
    from fedglb.federation.operator.listing import certificate_ends

    running = ask(state)
    if running is not None:
        return running
    if not (bundle / FILE).is_file():
        raise InvalidInput("bundle", str(bundle), f"{_ALLOWED}; this is neither")
    found = Bundle.read(bundle)
    if found.client != COORDINATOR:
        raise InvalidInput("bundle", str(bundle), _ALLOWED)
    return stored_status(found, state, certificate_ends(bundle))


def _show(found: CoordinatorStatus) -> None:
    console = Console(soft_wrap=True, highlight=False)

    def say(text: str) -> None:
        console.print(text, markup=False)

    if found.running and found.started is not None:
        say(f"Federation {found.federation}: the coordinator started at {_when(found.started)}.")
    else:
        say(f"Federation {found.federation}: the coordinator does not run. From its file:")
    totals = found.totals
    # on a schedule samples are sent once, in sums: their number is hidden
    counted = f"{totals.samples:,} samples in the model, " if found.schedule is None else ""
    say(
        f"{found.present} of {len(found.members)} clients present; {totals.updates} updates, "
        f"{counted}{totals.rounds:,} rounds, {_size(totals.bytes)} on the wire."
    )
    for line in _of_schedule(found):
        say(line)
    if found.updating is not None:
        say(f"Update {found.updating} is in progress, waiting for {_names(found.waiting_for)}.")
    for alarm in found.alarms:
        when = "" if alarm.since is None else f" ({_when(alarm.since)})"
        say(f"ALARM {alarm.kind}: {alarm.text}{when}")
    for table in (_members(found), _updates(found)):
        if table.row_count:
            console.print()
            console.print(table)


def _of_schedule(found: CoordinatorStatus) -> list[str]:
    schedule, privacy = found.schedule, found.privacy
    if schedule is None:
        return []
    following = f"the next update is due at {_when(schedule.next)}"
    waits = "it starts when the coordinator first runs" if schedule.start is None else following
    out = [f"Schedule of {schedule.updates} updates: {schedule.ended or waits}."]
    if privacy is not None:
        out.append(
            f"Privacy: {spent(privacy)} (δ = {privacy.delta:g}; more: fedglb federation privacy)."
        )
    return out


def spent(privacy: PrivacyStatus) -> str:
    """Return how much of the privacy budget is spent."""
    return (
        f"ε spent {privacy.spent:.4f} of {privacy.epsilon:.4f} in {privacy.releases} of "
        f"{privacy.updates} updates"
    )


def _members(found: CoordinatorStatus) -> Table:
    ends = {each.name: each.ends for each in found.certificates}
    table = Table(box=None, pad_edge=False)
    for name in ("client", "here", "joined", "last seen"):
        table.add_column(name, no_wrap=True)
    for name in ("samples", "share", "left out"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("certificate expires", no_wrap=True)
    for m in found.members:
        end = ends.get(m.name)
        table.add_row(
            m.name, "yes" if m.present else "no", _day(m.joined), _ago(m.seen, found.time),
            f"{m.samples:,}", f"{m.share:.1%}", f"{m.left_out}" if m.left_out else "", _day(end),
        )  # fmt: skip
    return table


def _updates(found: CoordinatorStatus) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("update", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for name in ("clients", "samples", "rounds", "ms", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("left out")
    for u in found.updates[-_UPDATES:]:
        table.add_row(
            str(u.number), _ago(u.at, found.time), f"{u.clients}", f"{u.samples:,}", f"{u.rounds}",
            f"{1e3 * u.seconds:,.0f}", _size(u.bytes),
            "; ".join(f"{client}: {why}" for client, why in u.left_out.items()),
        )  # fmt: skip
    return table


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nobody"


def _when(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _day(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def _ago(at: float | None, now: float) -> str:
    if at is None:
        return ""
    seconds = max(0.0, now - at)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
