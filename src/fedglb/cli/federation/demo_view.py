"""The view of a demonstration: live on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedglb.federation.demo.state import DONE, KILLED, PLAYING, RETURNING, AgentState, DemoState
from fedglb.federation.demo.summary import Summary

_LINE_EVERY = 3.0  # seconds, where there is no terminal
_DRAW_EVERY = 0.2
_NOTES = 6
_COLOURS = {PLAYING: "green", DONE: "green", KILLED: "bold red", RETURNING: "yellow"}


@contextmanager
def view() -> Iterator[Callable[[DemoState], None]]:
    """Give a function that shows the state; it may be called as often as one likes."""
    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    last, printed = -_LINE_EVERY, 0
    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def draw(state: DemoState) -> None:
                nonlocal last
                if time.monotonic() - last >= _DRAW_EVERY:
                    last = time.monotonic()
                    live.update(drawing(state), refresh=True)

            yield draw
        return

    def line(state: DemoState) -> None:
        nonlocal last, printed
        for note in state.notes[printed:]:
            console.print(note, soft_wrap=True)
        printed = len(state.notes)
        if state.decisions and time.monotonic() - last >= _LINE_EVERY:
            last = time.monotonic()
            console.print(one_line(state), soft_wrap=True)

    yield line


def drawing(state: DemoState) -> RenderableType:
    """Return the live view."""
    head = Text("A federation on this machine", style="bold")
    head.append(f"  {state.plan.clients} agents, a coordinator, NATS at ", style="dim")
    head.append(state.address or "…", style="dim")
    notes = state.notes[-_NOTES:]
    return Group(
        head,
        _agents(state),
        Text(_update(state)),
        Text(_wire(state)),
        Text(_regret(state), style="bold"),
        Text(),
        *(Text(note, style=_note_style(note)) for note in notes),
    )


def _note_style(note: str) -> str:
    return "red" if "is killed" in note else "green" if "is back" in note else "dim"


def one_line(state: DemoState) -> str:
    """Return the state in one line."""
    whole = state.plan.clients * state.plan.decisions
    made = f"{state.decisions:,}/{whole:,} decisions; {_update(state)}"
    return f"{made}; {_wire(state)}; {_regret(state)}"


def summary_lines(summary: Summary) -> list[str]:
    """Return the summary, line by line."""
    killed, share = summary.killed, 1.0 - summary.regret / max(summary.separate_regret, 1e-9)
    return [
        f"Regret: {summary.regret:.1f} of the federation, {summary.separate_regret:.1f} of "
        f"{summary.clients} separate learners on the same arms and users ({share:.0%} less).",
        f"{summary.decisions:,} decisions, {summary.acknowledged:,} rewards acknowledged, "
        f"{summary.lost} lost.",
        f"{killed.agent} was killed after {killed.decisions} decisions, was down for "
        f"{killed.seconds:.1f} s and found {killed.returned} decisions in its file.",
        f"{summary.updates} global updates, {summary.rounds} rounds, {summary.scalars:,} scalars; "
        f"on the wire {summary.bytes:,} bytes in {summary.messages:,} messages.",
        *_privacy(summary),
        f"{summary.seconds:.0f} s, {summary.clients} agents, seed {summary.seed}.",
    ]


def _privacy(summary: Summary) -> list[str]:
    if summary.epsilon is None:
        return []
    return [
        f"Private: every message was noise around sums; all updates together have epsilon = "
        f"{summary.epsilon:.3g}, delta = {summary.delta:g} for each interaction."
    ]


def _agents(state: DemoState) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("agent", no_wrap=True)
    table.add_column("decisions", width=12)
    for name in ("", "rewards", "regret", "model"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("connected", no_wrap=True)
    table.add_column("present", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=11)
    for name, agent in state.agents.items():
        table.add_row(name, *_row(agent, state.plan.decisions))
    return table


def _row(agent: AgentState, whole: int) -> list[RenderableType]:
    report, gone = agent.report, agent.doing in (KILLED, RETURNING)
    numbers = ["-"] * 3 if report is None else [
        f"{report.rewards:.0f}", f"{report.regret:.1f}", str(report.model) if report.model else "-",
    ]  # fmt: skip
    return [
        ProgressBar(total=whole, completed=agent.decisions, width=12),
        f"{agent.decisions}/{whole}", *numbers,
        "yes" if agent.connected and not gone else "no",
        "yes" if agent.present else "no",
        Text(agent.doing, style=_COLOURS.get(agent.doing, "dim")),
    ]  # fmt: skip


def _update(state: DemoState) -> str:
    last = state.update
    if not last:
        return "no update yet"
    known = f"{last['samples']:,} samples of " if last["samples"] else ""
    return (
        f"update {last['number']}: {known}{last['clients']} agents, "
        f"{last['rounds']} rounds, {1e3 * last['seconds']:.0f} ms"
    )


def _wire(state: DemoState) -> str:
    here = f"{state.present} of {state.plan.clients} agents present"
    plural = "s" * (state.updates != 1)
    return f"{state.size:,} bytes on the wire, {state.updates} update{plural}; {here}"


def _regret(state: DemoState) -> str:
    baseline = state.baseline_regret
    other = "" if baseline is None else f", of separate learners {baseline:.1f}"
    return f"regret of the federation {state.regret:.1f}{other}"
