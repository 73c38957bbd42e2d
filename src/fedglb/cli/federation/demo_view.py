"""How a demonstration looks: a live view on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedglb.demo.state import DONE, KILLED, PLAYING, RETURNING, AgentState, DemoState
from fedglb.demo.summary import Summary

_LINE_EVERY = 3.0  # seconds, where there is no terminal
_DRAW_EVERY = 0.2
_NOTES = 6
_COLOURS = {PLAYING: "green", DONE: "green", KILLED: "bold red", RETURNING: "yellow"}


@contextmanager
def view() -> Iterator[Callable[[DemoState], None]]:
    """Give a function to call, as often as one likes, with how the demonstration stands."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    last, told = -_LINE_EVERY, 0
    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def draw(standing: DemoState) -> None:
                nonlocal last
                if time.monotonic() - last >= _DRAW_EVERY:
                    last = time.monotonic()
                    live.update(drawing(standing), refresh=True)

            yield draw
        return

    def line(standing: DemoState) -> None:
        nonlocal last, told
        for note in standing.notes[told:]:
            console.print(note, soft_wrap=True)
        told = len(standing.notes)
        if standing.decisions and time.monotonic() - last >= _LINE_EVERY:
            last = time.monotonic()
            console.print(in_a_line(standing), soft_wrap=True)

    yield line


def drawing(standing: DemoState) -> RenderableType:
    """Return the live view."""
    head = Text("A federation on this machine", style="bold")
    head.append(f"  {standing.plan.clients} agents, a coordinator, NATS at ", style="dim")
    head.append(standing.address or "…", style="dim")
    notes = standing.notes[-_NOTES:]
    return Group(
        head,
        _agents(standing),
        Text(_update(standing)),
        Text(_wire(standing)),
        Text(_regret(standing), style="bold"),
        Text(),
        *(Text(note, style=_note_style(note)) for note in notes),
    )


def _note_style(note: str) -> str:
    return "red" if "is killed" in note else "green" if "is back" in note else "dim"


def in_a_line(standing: DemoState) -> str:
    """Return how it stands, in words."""
    whole = standing.plan.clients * standing.plan.decisions
    said = f"{standing.decisions:,}/{whole:,} decisions; {_update(standing)}"
    return f"{said}; {_wire(standing)}; {_regret(standing)}"


def in_words(summary: Summary) -> list[str]:
    """Return the summary, line by line."""
    killed, share = summary.killed, 1.0 - summary.regret / max(summary.separate_regret, 1e-9)
    return [
        f"Regret {summary.regret:.1f} together, {summary.separate_regret:.1f} as "
        f"{summary.clients} separate learners on the same arms and users ({share:.0%} less).",
        f"{summary.decisions:,} decisions, {summary.acknowledged:,} rewards acknowledged, "
        f"{summary.lost} lost.",
        f"{killed.agent} was killed after {killed.decisions} decisions, was away for "
        f"{killed.seconds:.1f} s and found {killed.returned} in its file.",
        f"{summary.updates} global updates, {summary.rounds} rounds, {summary.scalars:,} scalars; "
        f"on the wire {summary.bytes:,} bytes in {summary.messages:,} messages.",
        f"{summary.seconds:.0f} s, {summary.clients} agents, seed {summary.seed}.",
    ]


def _agents(standing: DemoState) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("agent", no_wrap=True)
    table.add_column("decisions", width=12)
    for name in ("", "rewards", "regret", "model"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("online", no_wrap=True)
    table.add_column("present", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=11)
    for name, seat in standing.seats.items():
        table.add_row(name, *_row(seat, standing.plan.decisions))
    return table


def _row(seat: AgentState, whole: int) -> list[RenderableType]:
    said, gone = seat.said, seat.doing in (KILLED, RETURNING)
    numbers = ["-"] * 3 if said is None else [
        f"{said.rewards:.0f}", f"{said.regret:.1f}", str(said.model) if said.model else "-",
    ]  # fmt: skip
    return [
        ProgressBar(total=whole, completed=seat.decisions, width=12),
        f"{seat.decisions}/{whole}", *numbers,
        "yes" if seat.connected and not gone else "no",
        "yes" if seat.present else "no",
        Text(seat.doing, style=_COLOURS.get(seat.doing, "dim")),
    ]  # fmt: skip


def _update(standing: DemoState) -> str:
    last = standing.update
    if not last:
        return "no update yet"
    return (
        f"update {last['number']}: {last['samples']:,} samples of {last['clients']} agents, "
        f"{last['rounds']} rounds, {1e3 * last['seconds']:.0f} ms"
    )


def _wire(standing: DemoState) -> str:
    here = f"{standing.present} of {standing.plan.clients} agents present"
    plural = "s" * (standing.updates != 1)
    return f"{standing.size:,} bytes on the wire, {standing.updates} update{plural}; {here}"


def _regret(standing: DemoState) -> str:
    alone = standing.alone
    other = "" if alone is None else f", separate learners {alone:.1f}"
    return f"regret together {standing.regret:.1f}{other}"
