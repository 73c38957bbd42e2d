"""Records in an agent: what a decision keeps of them, and their arms under the present schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from fedglb.errors import InvalidInput
from fedglb.features import Encoder
from fedglb.features.encode import Record
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Offer:
    """The records of a decision, and the arms that they became."""

    arms: Sequence[Record]
    context: Record | None
    table: FloatArray

    @classmethod
    def of(cls, arms: Sequence[Record], context: Record | None, encoder: Encoder | None) -> Offer:
        """Encode records; raise `InvalidInput` if they are invalid, or there is no schema."""
        if encoder is None:
            raise InvalidInput("arms", "records", "vectors: the agent was opened without features")
        return cls(arms, context, encoder.encode(arms, context))

    def kept(self, arm: int, runner_up: int | None, ids: Sequence[str | int] | None) -> bytes:
        """Return what a decision keeps: the context, the arm played, and the next best one."""
        found: dict[str, Any] = {"context": self.context or {}, "arm": self.arms[arm]}
        if runner_up is not None:
            found["runner_up"] = self.arms[runner_up]
            if ids is not None:
                found["runner_up_id"] = ids[runner_up]
        return as_json(found)

    def marks(self) -> FloatArray:
        """Return numbers by which arms without ids recur: equal for equal records; shape (2, K)."""
        return marks_of(self.arms)


def is_records(arms: object, context: object = None) -> bool:
    """Return whether arms are records: they have a context, or the first is an object."""
    if context is not None:
        return True
    return isinstance(arms, list | tuple) and bool(arms) and isinstance(arms[0], Mapping)


def marks_of(records: Sequence[Record]) -> FloatArray:
    """Return two numbers for each record, equal for equal records; shape (2, n)."""
    digests = b"".join(blake2b(as_json(record), digest_size=8).digest() for record in records)
    return np.frombuffer(digests, "<u4").reshape(-1, 2).T.astype(float, order="C")


def encoded_rows(
    arms: Sequence[Record], contexts: Sequence[Record | None] | None, encoder: Encoder | None
) -> tuple[FloatArray, list[bytes]]:
    """Return the arms of past decisions, and what each of them keeps."""
    if encoder is None:
        raise InvalidInput("X", "records", "vectors: the agent was opened without features")
    given = [None] * len(arms) if contexts is None else contexts
    X = encoder.encode_rows(arms, given)
    return X, [as_json({"context": c or {}, "arm": a}) for a, c in zip(arms, given, strict=True)]


def as_json(record: Mapping[str, Any] | Sequence[Record]) -> bytes:
    """Return records as JSON, with fields in order of their names."""
    try:
        return msgspec.json.encode(record, enc_hook=_plain, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass  # half a surrogate pair, a whole number of more than 64 bits
    try:
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("record", type(record).__name__, f"JSON ({error})") from None
    return text.encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else str(value)


def reencoded(encoder: Encoder, kept: Sequence[bytes]) -> FloatArray:
    """Return the arms of what decisions kept, shape (n, d)."""
    found = [json.loads(each) for each in kept]
    return encoded_again(encoder, [f["arm"] for f in found], [f["context"] for f in found])


def encoded_again(
    encoder: Encoder, arms: Sequence[Record], contexts: Sequence[Record]
) -> FloatArray:
    """Return the arms of records that were taken under another schema, shape (n, d).

    A value that this schema refuses counts as missing: the other one may not have had its field,
    and then did not check it.
    """
    try:
        return encoder.encode_rows(arms, contexts)
    except InvalidInput:
        rows = [_readable(encoder, *pair) for pair in zip(arms, contexts, strict=True)]
        return np.concatenate(rows)


def _readable(encoder: Encoder, arm: Record, context: Record) -> FloatArray:
    """Return one arm, without the values that the schema refuses; shape (1, d)."""
    given = {"arms": dict(arm), "contexts": dict(context)}
    while True:
        try:
            return encoder.encode_rows([given["arms"]], [given["contexts"]])
        except InvalidInput as error:
            side, _, name = error.path
            given[str(side)][str(name)] = None
