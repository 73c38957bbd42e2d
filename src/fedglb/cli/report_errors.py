"""What can go wrong while a sweep runs, each in one line and with an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console

from fedglb.datasets import DataUnavailable
from fedglb.errors import InvalidInput
from fedglb.sweeps import SweepFailed

_INTERRUPTED = 130
_OPTIONS = {"folder": "--out", "jobs": "--jobs", "cluster": "--cluster", "profile": "--profile"}
_KEPT = "what is finished is kept, and the same command resumes"


@contextmanager
def report_errors(place: Path, **names: str) -> Iterator[None]:
    """Report what happens inside: stopped, failed, no room, an option that is not allowed.

    `names` says what an argument is called on this command line, where it is not an option.
    """
    try:
        yield
    except InvalidInput as error:
        argument = {**_OPTIONS, **names}.get(error.argument, error.argument)
        raise InvalidInput(argument, error.value, error.allowed) from None
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
    """Say it on standard error and leave."""
    console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
    console.print(f"fedglb: {text}", style="red")
    raise typer.Exit(code)
