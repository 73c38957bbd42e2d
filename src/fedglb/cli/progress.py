"""Progress of anything that takes more than a moment, on standard error."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from fedglb.kernels.cache import cache
from fedglb.simulation.bar import bar


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
    announce_compilation()
    with bar(title) as draw:
        yield lambda done: draw(done, steps, f"step {done}/{steps}")
