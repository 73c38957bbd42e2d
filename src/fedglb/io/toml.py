"""Files in TOML: read with messages that name file, key and what is allowed; and written."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, one_of

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text in quotes", "bool": "true or false",
    "array": "a list", "object": "a table", "null": "nothing",
}  # fmt: skip


def read_file(path: Path, argument: str = "FILE") -> dict[str, Any]:
    """Read a TOML file, or raise `InvalidInput` with its name and the line at fault."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(
            argument, str(path), f"a TOML file; this one breaks off: {error}"
        ) from None
    except UnicodeDecodeError:
        raise InvalidInput(argument, str(path), "a TOML file, which is text in UTF-8") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput(argument, str(path), f"a TOML file that can be read: {reason}") from None


def reject_unknown_keys(
    table: Mapping[str, Any], kind: type[msgspec.Struct], source: str, prefix: str
) -> None:
    """Refuse a key that the table does not have, with the nearest ones."""
    for key, value in table.items():
        try:
            one_of("", key, kind.__struct_fields__)
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {prefix}{key}", value, error.allowed) from None


def explain(message: str, raw: Mapping[str, Any], source: str) -> InvalidInput:
    """Turn msgspec's "Expected `int`, got `str` - at `$.horizon`" into the package's words."""
    text, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    missing = re.search(r"missing required field `(\w+)`", text)
    if missing:
        path = f"{path}.{missing[1]}".lstrip(".")
        return InvalidInput(f"{source}: {path}", None, f"this key: it is missing from {source}")
    expected = re.search(r"Expected `([^`]+)`", text)
    options = expected[1].split(" | ") if expected else []
    words = [_KINDS[kind] for kind in options if kind != "null" and kind in _KINDS]
    return InvalidInput(f"{source}: {path}", _at(raw, path), " or ".join(words) or text)


def _at(raw: Any, path: str) -> Any:
    """Return what stands at a path such as ``algorithm[0].name``."""
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            raw = raw[int(index)] if index else raw[key]
        except (KeyError, IndexError, TypeError):
            return None
    return raw


def to_toml(table: Mapping[str, Any], name: str = "") -> str:
    """Write tables of numbers, words and lists as TOML; what is None is left out.

    Examples
    --------
    >>> print(to_toml({"client": "shop-1", "algorithm": {"solver": {"name": "agd"}}}))
    client = "shop-1"
    <BLANKLINE>
    [algorithm]
    <BLANKLINE>
    [algorithm.solver]
    name = "agd"
    <BLANKLINE>
    """
    given = {key: value for key, value in table.items() if value is not None}
    lines = [f"[{name}]"] if name else []
    tables = []
    for key, value in given.items():
        if isinstance(value, Mapping):
            tables.append(to_toml(value, f"{name}.{_key(key)}" if name else _key(key)))
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return "\n".join(["".join(f"{line}\n" for line in lines), *tables])


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # inf and nan are TOML's words too
    if isinstance(value, str):  # JSON's escapes are TOML's, except for the character DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    raise InvalidInput("value", value, "numbers, words, lists and tables of them")
