"""Report errors of a running sweep: one line each, with an exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from fedglb.environments.datasets import DataUnavailable
from fedglb.errors import InvalidInput, Place
from fedglb.studies import SweepFailed

_INTERRUPTED = 130
_OPTIONS: dict[Place, str] = {
    ("folder",): "--out", ("jobs",): "--jobs", ("cluster",): "--cluster",
    ("profile",): "--profile",
}  # fmt: skip
_KEPT = "what is finished is kept, and the same command resumes"


@contextmanager
def as_options(names: Mapping[Place, str]) -> Iterator[None]:
    """Make errors raised inside name the option at fault; places in a file stay as they are.

    `names` maps an argument, or a place within one, to its option.

    Examples
    --------
    >>> with as_options({("confidence", "fixed"): "--alpha"}):
    ...     raise InvalidInput(("confidence", "fixed"), -1.0, "a finite number >= 0")
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: --alpha = -1.0 is not allowed: give a finite number >= 0
    """
    try:
        yield
    except InvalidInput as error:
        prefixes = (error.path[:n] for n in range(len(error.path), 0, -1))
        found = next((prefix for prefix in prefixes if prefix in names), None)
        if error.source is None and found is not None:
            error.path = (names[found], *error.path[len(found) :])
        raise


@contextmanager
def report_errors(place: Path, **names: str) -> Iterator[None]:
    """Report errors raised inside: Ctrl-C, a failed sweep, missing data, a full disk.

    `names` maps an argument that is not an option to its name on this command line.
    """
    called: dict[Place, str] = {**_OPTIONS, **{(key,): name for key, name in names.items()}}
    try:
        with as_options(called):
            yield
    except KeyboardInterrupt:
        fail(f"stopped; {_KEPT}", _INTERRUPTED)
    except SweepFailed as error:
        fail(f"{error}; {_KEPT}", 1)
    except DataUnavailable as error:
        fail(str(error), 1)
    except OSError as error:
        name = error.filename or place
        fail(f"cannot write {name}: {error.strerror or error}; {_KEPT}", 1)


def fail(text: str, code: int) -> NoReturn:
    """Print the text to standard error and exit."""
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.print(f"fedglb: {text}", style="red")
    raise typer.Exit(code)
