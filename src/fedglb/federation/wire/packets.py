"""The encoding of messages, derived once per class from the types of its fields.

A packet has the fields of its message, with arrays as bytes. The client is left out, because the
subject names it; a session is added. The field `type` holds the message's `name`.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fedglb.federation.wire.arrays import (
    Sizes,
    pack_integers,
    pack_matrix,
    pack_numbers,
    pack_rows,
    pack_vector,
    unpack_integers,
    unpack_matrix,
    unpack_numbers,
    unpack_rows,
    unpack_vector,
)
from fedglb.typing import ArrayKind

Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Text: TypeAlias = Annotated[str, Meta(max_length=200)]
Reason: TypeAlias = Annotated[str, Meta(max_length=1000)]
#: The schema of records.
Document: TypeAlias = Annotated[str, Meta(max_length=2**20)]
Facts: TypeAlias = Annotated[dict[Text, Text], Meta(max_length=200)]
#: A digest, a key or a seed.
Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
#: A set of members, one bit for each place in the roster.
Bitmap: TypeAlias = Annotated[bytes, Meta(max_length=8192)]

M = TypeVar("M")
#: Encode and decode a field's value.
Pack: TypeAlias = Callable[[Any, int], Any]
Unpack: TypeAlias = Callable[[Any, Sizes], Any]

_ARRAYS: dict[ArrayKind, tuple[Callable[..., bytes], Callable[..., Any]]] = {
    ArrayKind.VECTOR: (pack_vector, unpack_vector),
    ArrayKind.SYMMETRIC: (pack_matrix, unpack_matrix),
    ArrayKind.NUMBERS: (pack_numbers, unpack_numbers),
    ArrayKind.ROWS: (pack_rows, unpack_rows),
    ArrayKind.INTEGERS: (pack_integers, unpack_integers),
}


@dataclass(frozen=True)
class SessionMessage:
    """Base of the messages beside the protocol's; `name` is the message's name on the wire."""

    name: ClassVar[str]
    upward: ClassVar[bool]


@dataclass(frozen=True)
class _Field:
    """The type of a field on the wire, and its converters (None: sent as it is)."""

    type: Any
    convert: tuple[Pack, Unpack] | None = None
    says_d: bool = False  # whether its value has length d


class PacketType(Generic[M]):
    """The encoding of one dataclass: a message, or a model inside one.

    `tag` is the message's name on the wire; None: part of a message, without a session.
    """

    def __init__(self, kind: type[M], tag: str | None = None) -> None:
        self.kind: Callable[..., M] = kind
        hints = typing.get_type_hints(kind, include_extras=True)
        given = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
        self._addressed = given.pop("client", None) is not None
        self._names = tuple(given)
        fields = [_field(name, hints[name]) for name in given]
        self._converted = [(k, *f.convert) for k, f in enumerate(fields) if f.convert]
        self._says_d = next((k for k, f in enumerate(fields) if f.says_d), None)
        self.struct = msgspec.defstruct(
            kind.__name__,
            [
                *([] if tag is None else [("session", Name)]),
                *(
                    (name, field.type)
                    if given[name].default is dataclasses.MISSING
                    else (name, field.type, given[name].default)
                    for name, field in zip(given, fields, strict=True)
                ),
            ],
            frozen=True, forbid_unknown_fields=True, omit_defaults=True,
            tag=tag, tag_field=None if tag is None else "type",
        )  # fmt: skip

    def pack(self, message: M, *session: str) -> Any:
        """Return the packet; `InvalidInput` if shapes of arrays differ."""
        values = [getattr(message, name) for name in self._names]
        d = 0 if self._says_d is None else len(values[self._says_d])
        for k, pack, _ in self._converted:
            if values[k] is not None:
                values[k] = pack(values[k], d)
        return self.struct(*session, *values)

    def unpack(self, packet: Any, sizes: Sizes, client: str) -> M:
        """Return the message of `client` in a packet, with fresh arrays."""
        values = [getattr(packet, name) for name in self._names]
        for k, _, unpack in self._converted:
            if values[k] is not None:
                values[k] = unpack(values[k], sizes)
        return self.kind(client, *values) if self._addressed else self.kind(*values)


def _field(name: str, hint: Any) -> _Field:
    """Return the encoding of a field of this type."""
    given = [a for a in typing.get_args(hint) if a is not type(None)]
    optional = type(None) in typing.get_args(hint)
    inner = given[0] if optional else hint
    if dataclasses.is_dataclass(inner):
        part: PacketType[Any] = PacketType(typing.cast(type[Any], inner))
        return _Field(
            part.struct | None if optional else part.struct,
            (lambda value, _: part.pack(value), lambda value, sizes: part.unpack(value, sizes, "")),
        )
    marks = getattr(inner, "__metadata__", ())
    for kind in (mark for mark in marks if isinstance(mark, ArrayKind)):
        pack, unpack = (partial(convert, name) for convert in _ARRAYS[kind])
        sent: Any = bytes | None if optional else bytes
        says_d = kind in (ArrayKind.VECTOR, ArrayKind.SYMMETRIC)
        return _Field(sent, (pack, unpack), not optional and says_d)
    return _Field(hint)
