"""Errors on the command line: one line each, with an exit code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from fedglb.environments.datasets import DataUnavailable
from fedglb.errors import InvalidInput, Place
from fedglb.federation.errors import Unavailable
from fedglb.federation.operator.nats_server import ServerFault
from fedglb.studies import SweepFailed

_INTERRUPTED = 130
_OPTIONS = {"folder": "--out", "jobs": "--jobs", "cluster": "--cluster", "profile": "--profile"}
_FEDERATION = ("nats", "cryptography")
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
def report_errors(
    place: Path | None = None, /, *, if_open: str = "", **names: str
) -> Iterator[None]:
    """Report errors raised inside; `InvalidInput` names the option and goes to `main`.

    Parameters
    ----------
    place
        The folder of a sweep, which can be resumed after an error or Ctrl-C.
    if_open
        What to do if another process has the agent's or coordinator's file open.
    names
        Maps an argument to its name on this command line.
    """
    resume = "" if place is None else f"; {_KEPT}"
    called = names if place is None else {**_OPTIONS, **names}
    try:
        yield
    except InvalidInput as error:
        first, *rest = error.path
        found = called.get(error.argument) or called.get(str(error.path[-1]))
        if error.source is not None:
            pass  # a place in a file keeps its keys
        elif found is not None:
            error.path = (found,)
        else:
            error.path = (called.get(str(first), first), *rest)
        raise
    except Unavailable as error:
        text = str(error)
        fail(f"{text.partition(', and one process')[0]}: {if_open}" if if_open else text, 1)
    except (SweepFailed, ServerFault, sqlite3.Error) as error:
        fail(f"{error}{resume}", 1)
    except DataUnavailable as error:
        fail(str(error), 1)
    except OSError as error:
        where = error.filename or place or "the folder"
        reason = f"{where}: {error.strerror or error}"
        fail(reason if place is None else f"cannot write {reason}{resume}", 1)
    except KeyboardInterrupt:
        if place is None:
            raise
        fail(f"stopped{resume}", _INTERRUPTED)


@contextmanager
def extra(name: str = "federation", *modules: str) -> Iterator[None]:
    """Import the modules of an extra inside this block; if one is missing, say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in (modules or _FEDERATION):
            raise
        fail(f"{error.name} is not installed: run pip install 'fedglb[{name}]'", 1)


def fail(text: str, code: int) -> NoReturn:
    """Print the text to standard error and exit."""
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.print(f"fedglb: {text}", style="red")
    raise typer.Exit(code)
