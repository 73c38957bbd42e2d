"""Shared by several commands: options, durations, printing of answers and events."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
JsonEvents: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print events as JSON, one per line, for scripts.")
]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(help="Worker processes.", show_default="one per core")
]
OnAlarm: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="A program that is run when an alarm starts or ends, with JSON on standard input.",
        show_default="none",
    ),
]
AgentFile: TypeAlias = Annotated[Path, typer.Argument(metavar="AGENT.db", help="The agent's file.")]
CopyFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="COPY.db", help="The copy: a new file.")
]
OperatorFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The operator's folder, as made by `init`.")
]
CoordinatorFolder: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The operator's folder, or the coordinator's.")
]
StateFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="The coordinator's state.", show_default="coordinator/state.db"),
]
Requests: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--request",
        metavar="FILE",
        help="A client's request, made by `fedglb agent key`; may be repeated. The keys of clients "
        "without one are made here.",
        show_default="none",
    ),
]
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def in_panel(panel: str) -> Callable[..., Any]:
    """Return a function that makes the options of one help panel."""

    def option(text: str, default: str | None = None) -> Any:
        return typer.Option(help=text, rich_help_panel=panel, show_default=default or True)

    return option


def console(stderr: bool = False) -> Console:
    """Return a console that prints text as it is, and wraps no line."""
    from rich.console import Console

    return Console(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)


def say(text: str) -> None:
    """Write a line to standard error."""
    console(stderr=True).print(text, style="dim")


def print_json(answer: object) -> None:
    """Print an answer for scripts."""
    typer.echo(json.dumps(answer, ensure_ascii=False, allow_nan=False))


def print_event(kind: str, text: str, facts: Mapping[str, object], as_json: bool) -> None:
    """Print an event of a service, unbuffered."""
    now = time.time()
    if as_json:
        print_json({"event": kind, "text": text, "time": now, **finite(facts)})
    else:
        typer.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))} {text}")


def print_copied(to: Path, as_json: bool) -> None:
    """Print the path and the size of a backup."""
    size = to.stat().st_size
    if as_json:
        print_json({"copy": str(to), "bytes": size})
    else:
        typer.echo(f"{to}: {size:,} bytes")


def finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON, which has neither NaN nor infinity: they become null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


def print_keys_made_here(names: Sequence[str], secure_sums: bool) -> None:
    """Say what it means that the operator made these clients' keys."""
    if not names:
        return
    sums = "; whoever has those of all but one client, read that one's numbers in secure sums"
    typer.echo(
        f"Made here: the key{'s' * (len(names) > 1)} of {', '.join(names)}. Whoever has a copy can "
        f"act as that client{sums * secure_sums}. Clients that make their own keys "
        "(fedglb agent key) avoid this."
    )


def seconds(option: str, text: str) -> float:
    """Return a duration such as 90s, 1.5h or 20 in seconds."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhd]?)\s*", text)
    value = float(found[1]) * _UNITS[found[2]] if found else math.nan
    if not 0.0 < value < math.inf:
        raise InvalidInput(option, text, "a duration such as 30s, 10m, 1h or 2d")
    return value
