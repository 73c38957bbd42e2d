"""Read and write TOML; errors name the file, the key and the expected value."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from fedglb.errors import InvalidInput, names_near, under

T = TypeVar("T")

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WORDS: dict[type[inspect.Type], str] = {
    inspect.IntType: "a whole number", inspect.FloatType: "a number",
    inspect.StrType: "text in quotes", inspect.BoolType: "true or false",
    inspect.ListType: "a list", inspect.DictType: "a table", inspect.StructType: "a table",
}  # fmt: skip
_PLAIN: dict[type[inspect.Type], Any] = {
    inspect.IntType: int, inspect.FloatType: float, inspect.StrType: str, inspect.BoolType: bool,
    inspect.NoneType: None, inspect.AnyType: Any,
}  # fmt: skip


def read_file(path: Path, argument: str = "FILE") -> dict[str, Any]:
    """Read a TOML file, or raise `InvalidInput` with its name and the line at fault."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(argument, str(path), f"a TOML file without mistakes: {error}") from None
    except UnicodeDecodeError:
        raise InvalidInput(argument, str(path), "a TOML file in UTF-8") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput(argument, str(path), f"a readable TOML file: {reason}") from None


def convert(raw: object, kind: type[T], source: str) -> T:
    """Return the tables of a file as a struct of type `kind`, or raise with the key at fault.

    Examples
    --------
    >>> class Server(msgspec.Struct, forbid_unknown_fields=True):
    ...     host: str
    ...     ports: list[int] = []
    >>> convert({"host": "localhost", "ports": [1, "2"]}, Server, "x.toml")
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: x.toml: ports[1] = '2': expected a whole number
    """
    with under(source=source):
        _check(raw, inspect.type_info(kind), source)
    return msgspec.convert(raw, kind)


def _check(value: Any, kind: inspect.Type, source: str) -> None:
    """Raise if msgspec would refuse `value`, but with the place in the file."""
    options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    for option in options:
        match option:
            case inspect.StructType() if isinstance(value, Mapping):
                return _check_struct(value, option, source)
            case inspect.DictType() if isinstance(value, Mapping):
                return _check_items(value.items(), option.value_type, source)
            case inspect.ListType() if isinstance(value, list):
                return _check_items(enumerate(value), option.item_type, source)
            case _ if type(option) in _PLAIN and _fits(value, _PLAIN[type(option)]):
                return None
    words = dict.fromkeys(_WORDS[type(each)] for each in options if type(each) in _WORDS)
    raise InvalidInput((), value, " or ".join(words))


def _check_items(items: Iterable[tuple[str | int, Any]], kind: inspect.Type, source: str) -> None:
    for key, value in items:
        with under(key):
            _check(value, kind, source)


def _check_struct(table: Mapping[str, Any], kind: inspect.StructType, source: str) -> None:
    names = [field.encode_name for field in kind.fields]
    if kind.forbid_unknown_fields:
        for key, value in table.items():
            if key not in names:
                raise InvalidInput(key, value, names_near(key, names))
    for field in kind.fields:
        if field.encode_name in table:
            with under(field.encode_name):
                _check(table[field.encode_name], field.type, source)
        elif field.required:
            allowed = f"a value: the key is missing from {source}"
            raise InvalidInput(field.encode_name, None, allowed)


def _fits(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def to_toml(table: Mapping[str, Any], name: str = "") -> str:
    """Write tables of numbers, text and lists as TOML; keys with the value None are left out.

    Examples
    --------
    >>> print(to_toml({"client": "shop-1", "algorithm": {"solver": {"name": "agd"}}}))
    client = "shop-1"
    <BLANKLINE>
    [algorithm.solver]
    name = "agd"
    <BLANKLINE>
    """
    given = {key: value for key, value in table.items() if value is not None}
    lines, tables = [], []
    for key, value in given.items():
        if isinstance(value, Mapping):
            tables.append(to_toml(value, f"{name}.{_key(key)}" if name else _key(key)))
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    if name and tables and not lines:
        return "\n".join(tables)
    lines = [f"[{name}]", *lines] if name else lines
    return "\n".join(["".join(f"{line}\n" for line in lines), *tables])


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _value(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)  # TOML writes inf and nan as Python does
    if isinstance(value, str):  # JSON's escapes are TOML's, except for the character DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    raise InvalidInput("value", value, "numbers, text, lists and tables of them")
