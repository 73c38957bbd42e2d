"""Names that occur twice in one JSON object: decoders take the last one without a word."""

from __future__ import annotations

import json
import re
from typing import Any

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')  # of valid JSON


class RepeatedName(ValueError):
    """A name occurs twice in one object."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the name {name!r} occurs twice in one object")


def check_names(text: bytes, count: int) -> None:
    """Raise `RepeatedName` if a name occurs twice; `count`: different names, or fewer.

    Each name has a colon outside of strings, so if there are `count` of them no name was lost;
    else each object is looked at. The text must be valid JSON.
    """
    if text.count(b":") == count or _STRINGS.sub(b"", text).count(b":") == count:
        return
    json.loads(text, object_pairs_hook=_once)


def count_names(value: Any) -> int:
    """Return the number of names in decoded JSON."""
    if isinstance(value, dict):
        return len(value) + sum(map(count_names, value.values()))
    return sum(map(count_names, value)) if isinstance(value, list) else 0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedName(next(name for name in names if names.count(name) > 1))
    return found
