"""Names that an application gives or gets: ids of arms and decisions, keys, subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from fedglb.errors import InvalidInput, Place
from fedglb.federation.errors import UnknownDecision

_LARGEST_ID = 2**63 - 1  # the largest whole number that SQLite stores
_LONGEST = 200  # characters of an id or a key
_SHOWN = 60  # characters of one that is too long


def checked_ids(ids: Sequence[str | int] | None, count: int) -> list[str | int] | None:
    """Return the ids of arms, or raise if one is invalid or missing."""
    if ids is None:
        return None
    given = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(given) != count:
        raise InvalidInput("ids", given, f"one string or whole number for each of {count} arms")
    for k, each in enumerate(given):
        check_id(("ids", k), each)
    return given


def check_id(argument: str | Place, value: object) -> None:
    """Raise `InvalidInput` if a value cannot be an arm's id."""
    if is_text(value) or (type(value) is int and abs(value) <= _LARGEST_ID):
        return
    allowed = f"a string of at most {_LONGEST} characters, or a whole number of 64 bits"
    raise InvalidInput(argument, _shown(value), allowed)


def checked_key(key: object, name: str = "key") -> str:
    """Return a key or a subject, or raise if it is invalid."""
    if is_text(key) and key:
        return key
    raise InvalidInput(name, _shown(key), f"a string of 1 to {_LONGEST} characters")


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a text that is not too long, without halves of characters."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    return value.isascii() or value.encode("utf-8", "replace").decode() == value


def _shown(value: object) -> object:
    too_long = isinstance(value, str) and len(value) > _LONGEST
    return f"{value[:_SHOWN]} …" if too_long else value  # type: ignore[index]


def parse_id(id: object) -> tuple[str, int]:  # noqa: A002
    """Return the prefix and the number of a decision's id."""
    if is_text(id) and id.isascii():
        prefix, dash, index = id.rpartition("-")
        if dash and index.isdigit() and len(index) < 19:
            return prefix, int(index)
    raise UnknownDecision(f"{_shown(id)!r} is not a decision's id; expected the `id` of a Decision")


def parse_ids(name: str, ids: object) -> list[tuple[str, str, int]]:
    """Return each of the ids of decisions once, with its prefix and its number."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InvalidInput(name, ids, "a list of ids of decisions")
    return list(dict.fromkeys((str(id_), *parse_id(id_)) for id_ in ids))
