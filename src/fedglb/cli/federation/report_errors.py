"""Errors of the operator's commands: one line each, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedglb.cli.report_errors import fail
from fedglb.errors import InvalidInput

_EXTRA = ("nats", "cryptography")


@contextmanager
def extra(name: str = "federation", *modules: str) -> Iterator[None]:
    """Import what an extra brings inside this block; if it is missing, say how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in (modules or _EXTRA):
            raise
        fail(f"{error.name} is not installed: run pip install 'fedglb[{name}]'", 1)


@contextmanager
def report_errors(**names: str) -> Iterator[None]:
    """Report errors inside; `names` says what an argument is called on this command line."""
    with extra():
        from fedglb.federation.operator.nats_server import ServerFault
    try:
        yield
    except InvalidInput as error:
        found = names.get(error.argument) or names.get(str(error.path[-1]))
        if found is not None and error.source is None:  # a place in a file keeps its keys
            error.path = (found,)
        raise
    except ServerFault as error:
        fail(str(error), 1)
    except OSError as error:
        fail(f"{error.filename or 'the folder'}: {error.strerror or error}", 1)
