"""A schema proposed from records: levels where they are few, hashing where they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.features.fields import Category, Field, Number, Tags

_LEVELS = 20  # more texts than this are hashed
_BUCKETS = 32
_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_DIGITS = 3  # of a knot


def inferred(records: Any) -> dict[str, dict[str, Field]]:
    """Return the fields of context and arm for these records."""
    values: dict[str, dict[str, list[Any]]] = {"context": {}, "arm": {}}
    for side, name, value in _pairs(records):
        values[side].setdefault(name, []).append(value)
    if not values["arm"]:
        allowed = 'records with fields of an arm: {"context": {…}, "arm": {…}}'
        raise InvalidInput("records", "none" if not values["context"] else "no arm", allowed)
    out: dict[str, dict[str, Field]] = {"context": {}, "arm": {}}
    for side, fields in values.items():
        for name, given in fields.items():
            found = _field(f"{side}.{name}", [v for v in given if v is not None])
            if found is not None:
                out[side][name] = found
    return out


def _pairs(records: Any) -> Iterable[tuple[str, str, Any]]:
    if hasattr(records, "columns") and hasattr(records, "to_dict"):  # a frame
        for column in records.columns:
            side, _, name = str(column).partition(".")
            if side not in ("context", "arm") or not name:
                side, name = "arm", str(column)
            for value in list(records[column]):
                yield side, name, _missing_as_none(value)
        return
    if isinstance(records, Mapping | str) or not isinstance(records, Iterable):
        raise InvalidInput("records", records, 'a list of {"context": {…}, "arm": {…}}')
    for k, record in enumerate(records):
        if not isinstance(record, Mapping) or not ("arm" in record) ^ ("arms" in record):
            raise InvalidInput(("records", k), record, 'a record with "arm" or "arms"')
        arms = [record["arm"]] if "arm" in record else record["arms"]
        for side, each in [("context", record.get("context") or {}), *(("arm", a) for a in arms)]:
            if not isinstance(each, Mapping):
                raise InvalidInput(("records", k, side), each, "a record: fields by name")
            yield from ((side, name, value) for name, value in each.items())


def _missing_as_none(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def _field(name: str, values: list[Any]) -> Field | None:
    """Return a field for these values; None: they are all equal numbers, or all missing."""
    kinds = {_kind(name, value) for value in values}
    if len(kinds) > 1:
        examples = [next(v for v in values if _kind(name, v) == kind) for kind in sorted(kinds)]
        raise InvalidInput(name, examples, "values of one kind: text, numbers, or lists of text")
    if kinds == {"number"}:
        knots = np.quantile(np.array(values, dtype=float), _QUANTILES, method="nearest")
        rounded = sorted({float(f"{k:.{_DIGITS}g}") + 0.0 for k in knots.tolist()})
        return Number(rounded) if len(rounded) > 1 else None
    if not kinds:
        return None
    single = kinds == {"text"}
    texts = Counter(t for v in values for t in ([v] if single else v))
    few = len(texts) <= _LEVELS
    levels = sorted(_text(each) for each in texts) if few and texts else None
    kind = Category if single else Tags
    return kind(levels) if levels else kind(buckets=_BUCKETS)


def _kind(name: str, value: Any) -> str:
    if isinstance(value, bool | str):
        return "text"
    if isinstance(value, int | float | np.number):
        return "number"
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return "list"
    raise InvalidInput(name, value, "text, numbers or lists of text: flatten it, or leave it out")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
