"""Progress of anything that takes more than a moment, on standard error."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedglb.kernels.cache import cache

LINE_EVERY = 30.0  # seconds, where there is no terminal to draw a bar on


def say(text: str) -> None:
    """Write a line to standard error."""
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.print(text, style="dim")


@functools.cache  # once per process
def announce_compilation() -> None:
    """Say that kernels are compiled, if this is the first run."""
    if cache().fresh:
        text = "compiling the kernels (once; later runs start at once)"
        Console(stderr=True).print(text, style="dim")


@contextmanager
def progress(title: str, steps: int) -> Iterator[Callable[[int], None]]:
    """Give a function to call with the number of steps done; draw a bar on a terminal."""
    console = Console(stderr=True)
    announce_compilation()
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"), BarColumn(),
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(title, total=steps)
            yield lambda done: bar.update(task, completed=done)
        return
    last = time.monotonic()

    def line(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            console.print(f"{title}: step {done}/{steps}")

    yield line
