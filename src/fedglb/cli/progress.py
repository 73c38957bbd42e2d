"""Progress on standard error: of compilation, of a run, of anything that takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedglb.cli.common import say
from fedglb.kernels.cache import cache, counts

_SLOW, _SAY_EVERY = 2.0, 10.0  # seconds until a delay is explained, and between two lines


def announce_compilation(about: str = "10 to 30 s", *, in_workers: bool = False) -> None:
    """Say how long compilation takes, once this process is about to compile its first kernel.

    `in_workers`: say it now, if no kernel is on disk.
    """

    def announce() -> None:
        say(f"compiling the kernels: {about}, once (later starts take about a second)")

    if not in_workers:
        counts.tell = counts.tell or announce
    elif cache().fresh:
        announce()


@contextmanager
def explain_delay(text: Callable[[], str]) -> Iterator[None]:
    """Say how far the work inside is, if it takes longer than 2 s, and then every 10 s."""
    with repeating(lambda: say(text()), _SLOW, _SAY_EVERY):
        yield


@contextmanager
def repeating(action: Callable[[], None], first: float, every: float) -> Iterator[None]:
    """Call an action in a thread, after `first` seconds and then every so many."""
    over = threading.Event()

    def look() -> None:
        wait = first
        while not over.wait(wait):
            action()
            wait = every

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def progress(title: str, steps: int, about: str = "10 to 30 s") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of steps done; draw a bar on a terminal."""
    from fedglb.simulation.bar import bar

    announce_compilation(about)
    with bar(title) as draw:
        yield lambda done: draw(done, steps, f"step {done}/{steps}")
