"""Errors of the commands that open an agent's file: one line each, and an exit code."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from fedglb.cli.report_errors import as_options, fail
from fedglb.errors import Place
from fedglb.federation.errors import Unavailable


@contextmanager
def report_errors(if_open: str, **names: str) -> Iterator[None]:
    """Report errors inside.

    `if_open` says what to do where another process owns the file, and `names` what an argument is
    called on this command line.
    """
    called: dict[Place, str] = {(key,): name for key, name in names.items()}
    try:
        with as_options(called):
            yield
    except Unavailable as error:
        fail(f"{str(error).partition(', and one process')[0]}: {if_open}", 1)
    except (OSError, sqlite3.Error) as error:
        fail(str(error), 1)
