"""How far a sweep is, on standard error: a live view on a terminal, else a line every 30 s."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedglb.cli.progress import announce_compilation
from fedglb.display.bar import LINE_EVERY
from fedglb.sweeps import Finished, SweepStatus, pareto_front

_MOST_SHOWN = 5


@contextmanager
def view() -> Iterator[Callable[[str, SweepStatus | None], None]]:
    """Give a function to call with what is being done and, for a sweep, how far it is."""
    console = Console(stderr=True, markup=False, emoji=False)
    announce_compilation()
    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:

            def draw(title: str, status: SweepStatus | None) -> None:
                if status is None:  # stays on the screen
                    live.console.print(title, style="dim", soft_wrap=True, highlight=False)
                live.update(Text(title) if status is None else drawing(title, status))

            yield draw
        return
    last = time.monotonic()

    def line(title: str, status: SweepStatus | None) -> None:
        nonlocal last
        if status is None:
            console.print(title, soft_wrap=True, highlight=False)
        elif time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            console.print(f"{title}: {in_a_line(status)}", soft_wrap=True, highlight=False)

    yield line


def in_a_line(status: SweepStatus) -> str:
    """Return the status as one line of text.

    Examples
    --------
    >>> done = (Finished("a", 1, 10.0, 50, 500), Finished("b", 1, 20.0, 60, 600))
    >>> in_a_line(SweepStatus(runs=4, finished=done, interactions=4000, left=4000, seconds=2.0))
    '2/4 runs, 2,000 interactions/s, 2 s left; best so far: a (regret 10.0, 50 transfers)'
    """
    text = f"{len(status.finished)}/{status.runs} runs, {_speed(status)}, {_left(status)} left"
    best = [f"{n} (regret {r:,.1f}, {c:,.0f} transfers)" for n, r, c in trade_offs(status.finished)]
    return text + (f"; best so far: {', '.join(best)}" if best else "")


def drawing(title: str, status: SweepStatus) -> RenderableType:
    """Return the live view."""
    head = Text(f"{title}: {len(status.finished)}/{status.runs} runs, ")
    head.append(f"{_speed(status)}, {_left(status)} left")
    whole = status.interactions + status.left
    parts: list[RenderableType] = [
        head, ProgressBar(total=whole or 1, completed=status.interactions, width=60),
    ]  # fmt: skip
    best = trade_offs(status.finished)
    if best:
        table = Table(title="best trade-offs so far", title_justify="left")
        table.add_column("configuration", no_wrap=True)
        table.add_column("regret", justify="right")
        table.add_column("transfers", justify="right")
        for name, regret, transfers in best:
            table.add_row(name, f"{regret:,.1f}", f"{transfers:,.0f}")
        parts.append(table)
    return Group(*parts)


def trade_offs(finished: Sequence[Finished]) -> list[tuple[str, float, float]]:
    """Return up to 5 configurations of the Pareto front: label, mean regret, mean transfers.

    Examples
    --------
    >>> runs = [Finished("a", 1, 10.0, 50, 0), Finished("b", 1, 20.0, 60, 0),
    ...         Finished("c", 1, 30.0, 0, 0), Finished("c", 2, 40.0, 0, 0)]
    >>> trade_offs(runs)
    [('c', 35.0, 0.0), ('a', 10.0, 50.0)]
    """
    grouped: dict[str, list[Finished]] = {}
    for run in finished:
        grouped.setdefault(run.label, []).append(run)
    means = [
        (label, fmean(r.regret for r in runs), fmean(r.transfers for r in runs))
        for label, runs in grouped.items()
    ]
    front = [means[i] for i in pareto_front([(m[2], m[1]) for m in means])]
    if len(front) <= _MOST_SHOWN:
        return front
    return [front[round(i * (len(front) - 1) / (_MOST_SHOWN - 1))] for i in range(_MOST_SHOWN)]


def _speed(status: SweepStatus) -> str:
    return f"{status.interactions / max(status.seconds, 1e-9):,.0f} interactions/s"


def _left(status: SweepStatus) -> str:
    if not status.interactions:
        return "unknown time"
    seconds = status.left * status.seconds / status.interactions
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
