"""Progress of a sweep on standard error: a live view on a terminal, else a line every 30 s."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedglb.cli.progress import announce_compilation, repeating
from fedglb.io.durations import in_words
from fedglb.simulation.bar import LINE_EVERY
from fedglb.studies import Finished, SweepStatus, pareto_front
from fedglb.studies.run.progress import counted

_MOST_SHOWN = 5
_LOOK_EVERY = 1.0  # seconds


@contextmanager
def view() -> Iterator[Callable[[str, SweepStatus | None], None]]:
    """Yield a function that shows the current task and, for a sweep, its status."""
    console = Console(stderr=True, markup=False, emoji=False)
    announce_compilation(in_workers=True)
    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:

            def draw(title: str, status: SweepStatus | None) -> None:
                if status is None:  # stays on the screen
                    live.console.print(title, style="dim", soft_wrap=True, highlight=False)
                live.update(Text(title) if status is None else drawing(title, status))

            yield draw
        return
    lines = _Lines(console)
    with lines.breathing():
        yield lines.tell


class _Lines:
    """A line when a task begins, and one every 30 s while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title, self._status = "", ""
        self._since = self._last = time.monotonic()
        self._lock = threading.Lock()  # a sweep reports from another thread

    def tell(self, title: str, status: SweepStatus | None) -> None:
        """Set the current task and its status."""
        with self._lock:
            if status is None:
                self._print(title)
                self._title, self._status = title, ""
                self._since = self._last
                return
            self._title, self._status = title, in_a_line(status)
            self._line_if_due()

    def breathing(self) -> AbstractContextManager[None]:
        """Also write lines without a new status: a search has none for minutes."""

        def look() -> None:
            with self._lock:
                self._line_if_due()

        return repeating(look, _LOOK_EVERY, _LOOK_EVERY)

    def _line_if_due(self) -> None:
        if self._title and time.monotonic() - self._last >= LINE_EVERY:
            since = in_words(time.monotonic() - self._since)
            self._print(f"{self._title}: {self._status or f'running for {since}'}")

    def _print(self, text: str) -> None:
        self._last = time.monotonic()
        self._console.print(text, soft_wrap=True, highlight=False)


def in_a_line(status: SweepStatus) -> str:
    """Return the status as one line of text: how far, how long it took and will take, the best.

    >>> done = (Finished("a", 1, 10.0, 50, 500), Finished("b", 1, 20.0, 60, 600))
    >>> in_a_line(SweepStatus(runs=4, finished=done, interactions=4000, left=4000, seconds=2.0))
    '2/4 runs (50 %), 2 s so far, 2 s left, 2,000 interactions/s; least regret: a 10.0'
    """
    whole = status.interactions + status.left
    share = f" ({status.interactions / whole:.0%})".replace("%", " %") if whole else ""
    text = (
        f"{counted(status)}{share}, {in_words(status.seconds)} so far, "
        f"{_left(status)} left, {_speed(status)}"
    )
    best = min(trade_offs(status.finished), key=lambda b: b[1], default=None)
    return text if best is None else f"{text}; least regret: {best[0]} {best[1]:,.1f}"


def drawing(title: str, status: SweepStatus) -> RenderableType:
    """Return the live view."""
    head = Text(f"{title}: {counted(status)}, ")
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
    return in_words(status.left * status.seconds / status.interactions)
