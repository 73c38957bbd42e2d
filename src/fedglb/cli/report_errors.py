"""Errors on the command line: one line each, with an exit code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from fedglb.cli.common import console
from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable, UnknownDecision
from fedglb.federation.operator.nats_server import ServerFault

_INTERRUPTED = 130
_OPTIONS = {"folder": "--out", "jobs": "--jobs", "cluster": "--cluster", "profile": "--profile"}
_FEDERATION = ("nats", "cryptography")
_KEPT = "finished runs are kept; the same command resumes"


@contextmanager
def report_errors(
    place: Path | None = None, /, *, if_open: str = "", **names: str
) -> Iterator[None]:
    """Report errors raised inside; `InvalidInput` names the option and goes to `main`.

    `place` is the folder of a sweep, which can be resumed after an error or Ctrl-C; `if_open` is
    the remedy if another process has the agent's or coordinator's file open; `names` maps an
    argument to its name on this command line.
    """
    resume, called = "", names
    faults: tuple[type[Exception], ...] = (ServerFault, UnknownDecision, sqlite3.Error)
    if place is not None:
        from fedglb.studies import SweepFailed

        resume, called, faults = f"; {_KEPT}", {**_OPTIONS, **names}, (*faults, SweepFailed)
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
    except faults as error:
        fail(f"{error}{resume}", 1)
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
    complain(text)
    raise typer.Exit(code)


def complain(text: str) -> None:
    """Print an error."""
    console(stderr=True).print(f"fedglb: {text}", style="red")
