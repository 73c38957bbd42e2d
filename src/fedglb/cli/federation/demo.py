"""`fedglb federation demo`: a demonstration federation on this machine."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.federation.report_errors import extra, report_errors
from fedglb.cli.progress import announce_compilation
from fedglb.cli.report_errors import fail
from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    from fedglb.federation.demo.summary import Summary

_INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    clients: Annotated[int, typer.Option(help="Agents, each a process of its own.")] = 5,
    decisions: Annotated[int, typer.Option(help="Decisions that each agent makes.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of arms and users.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(help="A new folder, which is kept.", show_default="a temporary one"),
    ] = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="With differential privacy and secure sums, on a schedule."),
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder.")] = False,
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
        import fedglb.federation.connection  # noqa: F401  # what the processes will need
        from fedglb.cli.federation.demo_view import view
        from fedglb.federation.demo.director import DemoFailed, Director
        from fedglb.federation.demo.plan import DemoPlan
        from fedglb.federation.operator import nats_server
    announce_compilation()
    names = {"clients": "--clients", "decisions": "--decisions", "seed": "--seed"}
    with report_errors(**names, folder="--folder"), _interruptible():
        nats_server.program()  # says what to install
        plan = DemoPlan(clients, decisions, seed, private=private)
        with _place(folder, keep) as place:
            try:
                with view() as show:
                    summary = Director(plan, place, show).run()
            except DemoFailed as error:
                fail(str(error), 1)
    _answer(summary, place if folder is not None or keep else None, as_json)


@contextmanager
def _interruptible() -> Iterator[None]:
    """On Ctrl-C, SIGTERM and SIGHUP, end all processes and clean up as at the regular end."""

    def stop(sign: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:  # a second one must not interrupt the clean-up
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {sign: signal.signal(sign, stop) for sign in _SIGNALS}
    try:
        yield
    except KeyboardInterrupt:
        fail("stopped; all processes have ended", _INTERRUPTED)
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def _place(folder: Path | None, keep: bool) -> Iterator[Path]:
    """Give the demonstration's folder; a temporary one is deleted at the end, unless `keep`."""
    if folder is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInput("folder", str(folder), "a new or empty folder: this one is neither")
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    place = Path(tempfile.mkdtemp(prefix="fedglb-demo-"))
    try:
        yield place
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def _answer(summary: Summary, place: Path | None, as_json: bool) -> None:
    import msgspec

    from fedglb.cli.federation.demo_view import summary_lines

    if as_json:
        folder = None if place is None else str(place)
        typer.echo(json.dumps({**msgspec.to_builtins(summary), "folder": folder}))
        return
    for line in summary_lines(summary):
        typer.echo(line)
    if place is not None:
        typer.echo(f"Files and logs: {place}")
