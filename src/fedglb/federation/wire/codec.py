"""The wire format: a message as bytes and back; docs/reference.md is its specification.

Four bytes (`fgb` and the version), then one MessagePack map: every field has a type and bounds.
"""

from __future__ import annotations

from typing import Any, Union, get_args

import msgspec
import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.wire.messages import Downward, Upward
from fedglb.federation.wire.packets import PacketType

VERSION = 1
MAX_BYTES = 8 * 1024 * 1024  # the server's max_payload
_MAGIC = b"fgb"
_HEADER = _MAGIC + bytes([VERSION])
_SHORT = 120  # characters of a reason: it may quote a name out of the payload


class Malformed(InvalidInput):
    """Bytes that are no message of this version; `value` says in short why."""

    def __init__(self, why: str, allowed: str = f"a message of wire format {VERSION}") -> None:
        super().__init__("message", why, allowed)


class OtherVersion(Malformed):
    """A message of another version of the wire format.

    Examples
    --------
    >>> str(OtherVersion(2))
    "message = 'wire format 2' is not allowed: give a message of wire format 1"
    """

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"wire format {version}")


def encode(message: Upward | Downward, session: str) -> bytes:
    r"""Return the bytes of a message; the client is left out, its subject says it.

    Of a symmetric matrix the lower triangle is sent. `InvalidInput` says what the other side
    would refuse, so that an error shows up here and not as a message without an answer.

    Examples
    --------
    >>> from fedglb.federation.wire.messages import Heartbeat
    >>> data = encode(Heartbeat(update=3, requested_at=0), session="s1")
    >>> data[:4]
    b'fgb\x01'
    >>> decode_up(data, client="shop-17", dim=10)
    ('s1', Heartbeat(update=3, requested_at=0, rewards=None))
    """
    kind = _TYPES.get(type(message))
    if kind is None:
        raise InvalidInput("message", type(message).__name__, "a message of a federation")
    packet = kind.pack(message, session)
    try:
        body = _ENCODER.encode(packet)
        _EITHER.decode(body)  # structs check their bounds when read, not when made
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(message.name, _short(error), "what the wire format allows") from None
    data = _HEADER + body
    if len(data) > MAX_BYTES:
        raise InvalidInput("message", f"{len(data)} bytes", f"at most {MAX_BYTES}: a smaller dim")
    return data


def decode_up(data: bytes, client: str, dim: int) -> tuple[str, Upward]:
    """Return session and message of what came from `client`, or raise `Malformed`."""
    body = _body(data)
    try:
        packet = _UP.decode(body)
        return packet.session, _OF[type(packet)].unpack(packet, dim, client)
    except Exception as error:  # also recursion, memory, bad UTF-8: no bytes may end a process
        raise Malformed(_short(error)) from None


def decode_down(data: bytes, client: str, dim: int) -> tuple[str, Downward]:
    """Return session and message of what came to `client`, or raise `Malformed`."""
    body = _body(data)
    try:
        packet = _DOWN.decode(body)
        return packet.session, _OF[type(packet)].unpack(packet, dim, client)
    except Exception as error:  # as above
        raise Malformed(_short(error)) from None


def kind_of(data: bytes) -> str | None:
    """Return the name that a message says it has, without reading the rest; None: it says none.

    It costs a microsecond, and nothing of the message is checked.

    Examples
    --------
    >>> from fedglb.federation.wire.messages import Heartbeat
    >>> kind_of(encode(Heartbeat(update=3, requested_at=0), session="s1"))
    'Heartbeat'
    """
    if not data.startswith(_HEADER):
        return None
    try:
        return _KIND.decode(memoryview(data)[len(_HEADER) :]).type
    except Exception:  # as above
        return None


# Numbers that are not finite pass: a loss may be infinite, and the rest is refused, with the
# field's name, where client and coordinator check what a message says (protocol/checks.py).


def _body(data: bytes) -> memoryview:
    """Return what follows the header."""
    if len(data) > MAX_BYTES:
        raise Malformed(f"{len(data)} bytes", f"at most {MAX_BYTES}")
    if len(data) < len(_HEADER) or data[: len(_MAGIC)] != _MAGIC:
        raise Malformed("no header", f"{_MAGIC!r}, a version and a message")
    if data[len(_MAGIC)] != VERSION:
        raise OtherVersion(data[len(_MAGIC)])
    return memoryview(data)[len(_HEADER) :]


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as the number it is."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a message")


def _reader(kinds: list[type[Any]]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(Union[tuple(_TYPES[kind].struct for kind in kinds)])  # noqa: UP007


class _Kind(msgspec.Struct):
    """Any message: of its fields only its name."""

    type: str


_KIND = msgspec.msgpack.Decoder(_Kind)
_GOING_UP, _GOING_DOWN = list(get_args(Upward)), list(get_args(Downward))
_TYPES: dict[type[Any], PacketType[Any]] = {
    kind: PacketType(kind, kind.name) for kind in _GOING_UP + _GOING_DOWN
}
_OF = {packet_type.struct: packet_type for packet_type in _TYPES.values()}
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_UP, _DOWN = _reader(_GOING_UP), _reader(_GOING_DOWN)
_EITHER = _reader(_GOING_UP + _GOING_DOWN)
