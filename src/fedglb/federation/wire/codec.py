"""The wire format: a message as bytes and back. docs/reference.md specifies it."""

from __future__ import annotations

from typing import Any, Union, get_args

import msgspec
import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.wire.arrays import Sizes
from fedglb.federation.wire.messages import Downward, Upward
from fedglb.federation.wire.packets import PacketType

VERSION = 5
MAX_BYTES = 8 * 1024 * 1024  # the server's max_payload
_MAGIC = b"fgb"
_HEADER = _MAGIC + bytes([VERSION])
_SHORT = 120  # characters of a reason, which may quote the payload


class Malformed(InvalidInput):
    """Bytes that are not a message of this version; `value` is a short reason."""

    def __init__(self, why: str, allowed: str = f"a message of wire format {VERSION}") -> None:
        super().__init__("message", why, allowed)


class OtherVersion(Malformed):
    """A message of another version of the wire format."""

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"wire format {version}")


def encode(message: Upward | Downward, session: str) -> bytes:
    """Return the bytes of a message; raise `InvalidInput` if the receiver would refuse it.

    So an error shows up here, and not as a message without an answer.
    """
    kind = _TYPES.get(type(message))
    if kind is None:
        raise InvalidInput("message", type(message).__name__, "a message of a federation")
    packet = kind.pack(message, session)
    try:
        body = _ENCODER.encode(packet)
        _EITHER.decode(body)  # structs check their bounds when decoded, not when created
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(message.name, _short(error), "what the wire format allows") from None
    data = _HEADER + body
    if len(data) > MAX_BYTES:
        raise InvalidInput("message", f"{len(data)} bytes", f"at most {MAX_BYTES}: a smaller dim")
    return data


def decode_up(data: bytes, client: str, dim: int, effects: int = 0) -> tuple[str, Upward]:
    """Return the session and the message that `client` sent, or raise `Malformed`.

    `dim` and `effects`, the largest number of arms with an effect, bound its arrays.
    """
    return _decode(_UP, data, client, Sizes(dim, effects))


def decode_down(data: bytes, client: str, dim: int, effects: int = 0) -> tuple[str, Downward]:
    """Return the session and the message sent to `client`, or raise `Malformed`."""
    return _decode(_DOWN, data, client, Sizes(dim, effects))


def _decode(
    decoder: msgspec.msgpack.Decoder[Any], data: bytes, client: str, sizes: Sizes
) -> tuple[str, Any]:
    body = _body(data)
    try:
        packet = decoder.decode(body)
        return packet.session, _OF[type(packet)].unpack(packet, sizes, client)
    except Exception as error:  # also recursion, memory, bad UTF-8: no payload may end the process
        raise Malformed(_short(error)) from None


def kind_of(data: bytes) -> str | None:
    """Return a message's name without checking anything else, in a microsecond; None: no name."""
    if not data.startswith(_HEADER):
        return None
    try:
        return _KIND.decode(memoryview(data)[len(_HEADER) :]).type
    except Exception:  # as above
        return None


# Infinity and NaN pass, because a loss may be infinite. Client and coordinator refuse others by the
# field's name (protocol/checks.py).


def _body(data: bytes) -> memoryview:
    """Return the bytes after the header."""
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
    """Return a NumPy scalar as a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be sent in a message")


def _reader(kinds: list[type[Any]]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(Union[tuple(_TYPES[kind].struct for kind in kinds)])  # noqa: UP007


class _Kind(msgspec.Struct):
    """A message's name only."""

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
