"""The names that users' scripts rest on."""

from __future__ import annotations

from collections.abc import Iterator

import click
import typer

import fedglb as fg
from fedglb.cli import app


def public_names() -> list[str]:
    """Return the names of `import fedglb as fg`."""
    return sorted(fg.__all__)


def options() -> dict[str, list[str]]:
    """Return the options of every command."""
    return dict(sorted(_walk(typer.main.get_command(app), "fedglb")))


def _walk(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    given = [p for p in command.params if p.param_type_name == "option"]
    yield name, sorted(text for p in given for text in (*p.opts, *p.secondary_opts))
    for key, below in getattr(command, "commands", {}).items():
        yield from _walk(below, f"{name} {key}")
