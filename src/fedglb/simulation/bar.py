"""A progress bar: in a notebook, on a terminal, else as a line every 30 s.

On a terminal it is rich's. In a notebook rich would need another package, ipywidgets; one HTML
element that is redrawn does the same.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

#: Called as draw(done, total, text), possibly from another thread.
Draw: TypeAlias = Callable[[int, int, str], None]

LINE_EVERY = 30.0  # seconds, without a notebook or a terminal
_DRAW_EVERY = 0.2  # seconds, in a notebook: every drawing is a message to the browser


@contextmanager
def bar(title: str) -> Iterator[Draw]:
    """Yield a function that draws the progress in the way that suits stderr."""
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False)
    if console.is_jupyter:
        with _in_notebook(title) as draw:
            yield draw
    elif console.is_terminal:
        with _on_terminal(console, title) as draw:
            yield draw
    else:
        yield _lines(console, title)


@contextmanager
def steps_bar(
    progress: Callable[[int], None] | bool | None, title: str, steps: int
) -> Iterator[Callable[[int], None] | None]:
    """Yield the function to call with the number of steps done: `progress`, a bar, or None."""
    if progress is True:
        with bar(title) as draw:
            yield lambda done: draw(done, steps, f"step {done:,}/{steps:,}")
    else:
        yield None if progress is False else progress


@contextmanager
def _in_notebook(title: str) -> Iterator[Draw]:
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    begin = time.monotonic()
    last = -_DRAW_EVERY
    done, total, text = 0, 1, "begins"

    def shown() -> dict[str, str]:
        seconds = time.monotonic() - begin
        return {
            "text/plain": f"{title}: {text}",
            "text/html": as_html(title, done, total, text, seconds),
        }

    handle = display(shown(), raw=True, display_id=True)

    def draw(now: int, of: int, words: str) -> None:
        nonlocal last, done, total, text
        done, total, text = now, of, words
        if time.monotonic() - last >= _DRAW_EVERY:
            last = time.monotonic()
            handle.update(shown(), raw=True)

    try:
        yield draw
    finally:
        handle.update(shown(), raw=True)


def as_html(title: str, done: int, total: int, text: str, seconds: float) -> str:
    """Return the bar as HTML, in the colours of the page around it."""
    left = seconds * (total - done) / done if done else 0.0
    rest = (
        f"{timedelta(seconds=round(left))} left"
        if done < total
        else f"took {timedelta(seconds=round(seconds))}"
    )
    return (
        '<div style="font-variant-numeric:tabular-nums">'
        f'{html.escape(title)} <progress value="{done}" max="{max(total, 1)}" '
        f'style="width:16em;vertical-align:middle"></progress> {html.escape(text)}, {rest}</div>'
    )


@contextmanager
def _on_terminal(console: Console, title: str) -> Iterator[Draw]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task(title, total=None, text="")
        yield lambda done, total, text: drawn.update(task, completed=done, total=total, text=text)


def _lines(console: Console, title: str) -> Draw:
    last = time.monotonic()

    def line(done: int, total: int, text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LINE_EVERY:
            last = time.monotonic()
            console.print(f"{title}: {text}", soft_wrap=True, highlight=False)

    return line
