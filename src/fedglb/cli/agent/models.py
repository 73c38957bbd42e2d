"""The file of `fedglb agent serve --config`: a table per model, with options of the command."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, Place, relocated, under
from fedglb.io.toml import convert, read_file

#: What a table calls the file and the name of a model.
_KEYS: dict[Place, Place] = {("path",): ("file",), ("model",): ()}


def options_of(command: Callable[..., None], panel: str) -> dict[str, Any]:
    """Return the type of each option of a command in one panel of its help, by its name."""
    hints = typing.get_type_hints(command, include_extras=True)
    return {
        name: hint.__origin__
        for name, hint in hints.items()
        if getattr(getattr(hint, "__metadata__", (None,))[0], "rich_help_panel", None) == panel
    }


def read_models(path: Path, command: Callable[..., None], panel: str) -> dict[str, dict[str, Any]]:
    """Return the options of each model: `[models.NAME]` has those of the command, and `file`.

    Paths are relative to the file's folder.
    """
    hints = options_of(command, panel)
    places = {"file", *(name for name, hint in hints.items() if Path in _parts(hint))}
    defaults = inspect.signature(command).parameters
    fields = [
        (name, str | None if name in places else hint, defaults[name].default)
        for name, hint in hints.items()
    ]
    table = msgspec.defstruct("Model", [("file", str), *fields], forbid_unknown_fields=True)
    kind = msgspec.defstruct("Models", [("models", dict[str, table])], forbid_unknown_fields=True)  # type: ignore[valid-type]
    found: Any = convert(read_file(path, "config"), kind, str(path))
    if not found.models:
        with under(source=str(path)):
            raise InvalidInput("models", {}, "at least one table [models.NAME]")
    return {
        name: {
            key: path.parent / value if key in places and value is not None else value
            for key, value in msgspec.structs.asdict(each).items()
        }
        for name, each in found.models.items()
    }


@contextmanager
def in_table(path: Path | None, name: str) -> Iterator[None]:
    """Add the model's table to errors raised inside, unless they name another file."""
    try:
        yield
    except InvalidInput as error:
        if path is None or error.source is not None:
            raise
        with under("models", name, source=str(path)), relocated(_key):
            raise


def _key(place: Place) -> Place:
    return _KEYS.get(place, place)


def _parts(hint: Any) -> tuple[Any, ...]:
    return (hint, *typing.get_args(hint))
