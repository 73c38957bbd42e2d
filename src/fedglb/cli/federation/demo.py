"""`fedglb federation demo`: a demonstration federation on this machine."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    from fedglb.federation.demo import DemoSummary

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
    announce_compilation()
    names = {"clients": "--clients", "decisions": "--decisions", "seed": "--seed"}
    with report_errors(**names, folder="--folder"), _interruptible():
        nats_server.program()  # raises if it is not installed
        plan = DemoPlan(clients, decisions, seed, private)
        with _place(folder) as place, _progress() as say:
            try:
                summary = Demo(plan, place, say).run()
            except DemoFailed as error:
                fail(str(error), 1)
    kept = None if folder is None else str(folder)
    if as_json:
        import msgspec

        typer.echo(json.dumps({**msgspec.to_builtins(summary), "folder": kept}))
        return
    typer.echo(_text(summary))
    if kept is not None:
        typer.echo(f"Files and logs: {kept}")


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
def _place(folder: Path | None) -> Iterator[Path]:
    """Give the demonstration's folder; a temporary one is deleted at the end."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="fedglb-demo-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput("folder", str(folder), "a new or empty folder: this one is neither")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


@contextmanager
def _progress() -> Iterator[Callable[[str, bool], None]]:
    """Give a function that shows events and, on a terminal's last line, the progress."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    with console.status("starting") as status:
        yield lambda text, event: console.print(text) if event else status.update(text)


def _text(found: DemoSummary) -> str:
    killed, share = found.killed, 1.0 - found.regret / max(found.separate_regret, 1e-9)
    private = (
        (
            "Private: clients sent sums with noise; all updates together have ε = "
            f"{found.epsilon:.3g}, δ = {found.delta:g} for each interaction.\n"
        )
        if found.epsilon is not None
        else ""
    )
    return f"""\
Regret: {found.regret:.1f} of the federation, {found.separate_regret:.1f} of {found.clients} \
separate learners on the same arms and users ({share:.0%} less).
{found.decisions:,} decisions, {found.acknowledged:,} rewards acknowledged, {found.lost} lost.
{killed["agent"]} was killed after {killed["decisions"]} decisions, was down for \
{killed["seconds"]:.1f} s and found {killed["returned"]} decisions in its file.
{found.updates} global updates, {found.rounds} rounds, {found.bytes:,} bytes on the wire.
{private}{found.seconds:.0f} s, {found.clients} agents, seed {found.seed}."""
