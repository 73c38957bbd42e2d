"""`fedglb federation demo`: a demonstration federation on this machine."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated, Any

import typer

from fedglb.cli.common import console
from fedglb.cli.report_errors import extra, fail, report_errors

_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    clients: Annotated[int, typer.Option(help="Number of agents, one process each.")] = 5,
    decisions: Annotated[int, typer.Option(help="Decisions per agent.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of arms and users.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(help="A new folder, which is kept.", show_default="a temporary one"),
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="With differential privacy and secure sums, on a schedule."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Watch a federation: server, coordinator and agents, each a process on this machine.

    Each agent has simulated users. On the way one agent is killed and started again. At the end
    you see how much less regret the federation had than separate learners on the same arms and
    users, and how many acknowledged rewards were lost (none should be). It takes half a minute;
    Ctrl-C ends all processes and deletes the temporary folder.

    Example: fedglb federation demo
    """
    with extra("demo"):
        import fedglb.federation.connection  # noqa: F401  # imported by the child processes
        from fedglb.federation.demo import Demo, DemoFailed, DemoPlan
        from fedglb.federation.operator import nats_server
    names = {name: f"--{name}" for name in ("clients", "decisions", "seed", "folder")}
    with report_errors(**names), _interruptible(), ExitStack() as cleanup:
        nats_server.program()  # says what to install
        plan = DemoPlan(clients, decisions, seed, private)
        place = folder
        if place is None:
            temporary = TemporaryDirectory(prefix="fedglb-demo-", ignore_cleanup_errors=True)
            place = Path(cleanup.enter_context(temporary))
        say = cleanup.enter_context(_progress())
        try:
            found = Demo(plan, place, say).run()
        except DemoFailed as error:
            fail(str(error), 1)
    if as_json:
        typer.echo(json.dumps({**found, "folder": None if folder is None else str(folder)}))
        return
    typer.echo(_text(found))
    if folder is not None:
        typer.echo(f"Files and logs: {folder}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """On Ctrl-C, SIGTERM and SIGHUP, end all processes and clean up as at the regular end."""

    def stop(sign: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:  # a second signal must not interrupt the clean-up
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for sign in _SIGNALS:
        signal.signal(sign, stop)
    try:
        yield
    except KeyboardInterrupt:
        fail("stopped; all processes have ended", _INTERRUPTED)


@contextmanager
def _progress() -> Iterator[Callable[[str, bool], None]]:
    """Give a function that shows events and, on a terminal's last line, the progress."""
    out = console(stderr=True)
    with out.status("starting") as status:
        yield lambda text, event: out.print(text) if event else status.update(text)


def _text(found: dict[str, Any]) -> str:
    together, separate, killed = found["regret"], found["separate_regret"], found["killed"]
    text = f"""\
Regret: {together:.1f} of the federation, {separate:.1f} of separate learners on the same arms and \
users ({1.0 - together / max(separate, 1e-9):.0%} less).
{found["decisions"]:,} decisions, {found["acknowledged"]:,} rewards acknowledged, \
{found["lost"]} lost.
{killed["agent"]} was killed after {killed["decisions"]} decisions, was down for \
{killed["seconds"]:.1f} s and found {killed["returned"]} decisions in its file.
{found["updates"]} global updates, {found["rounds"]} rounds and {found["bytes"]:,} bytes on the \
wire in {found["seconds"]:.0f} s."""
    if found["epsilon"] is None:
        return text
    return f"""{text}
Private: every message was noise around sums; all updates together have ε = \
{found["epsilon"]:.3g}, δ = {found["delta"]:g} for each interaction."""
