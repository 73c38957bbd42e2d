"""A schema proposed from records: levels where they are few, hashing where they are many."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedglb.errors import InvalidInput, under
from fedglb.features.fields import Category, Field, Number, Tags, may_be_level
from fedglb.features.schema import Features
from fedglb.typing import FloatArray

_PLACES = 64  # of texts: levels, or buckets if there are more: texts that share a bucket cost most
_SAFE = 32  # so few texts are levels, however rare each of them is
_MOST = 0.9  # share of values: if the most frequent levels have it, all others are one
_SEEN, _FEW = 3, 0.1  # texts seen so often have a smaller share of values: hashing is noise
_KNOTS = 8  # numbers with no more values have a knot at each
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # flat outside: no knot is far out in a long tail
_ROUNDING = 0.05  # of the distance to the next knot
_LARGEST = sys.float_info.max / 4.0
_RECORDS = 'a list of {"context": {…}, "arm": {…}}, a frame, or columns by name'

#: The values of each field that are not missing, by its name.
_Values: TypeAlias = Mapping[str, list[Any]]


@dataclass(frozen=True)
class Proposal:
    """Fields for records, with what was seen.

    Attributes
    ----------
    fields
        By side ("context", "arm") and name.
    notes
        What the values of a field are like, by its full name: ``"arm.price"``.
    left_out
        Why a field is not used, by its full name.
    """

    fields: dict[str, dict[str, Field]]
    notes: dict[str, str]
    left_out: dict[str, str]

    def features(self, crosses: Sequence[tuple[str, str]] = ()) -> Features:
        """Return the schema with these crosses."""
        if not self.fields["arm"]:
            reasons = [f"{name}: {why}" for name, why in self.left_out.items()]
            allowed = 'records with fields of an arm: {"context": {…}, "arm": {…}}'
            raise InvalidInput("records", "; ".join(reasons) or "no field of an arm", allowed)
        try:
            return Features(crosses=crosses, **self.fields)  # type: ignore[arg-type]
        except InvalidInput as error:
            why = self.left_out.get(str(error.value))
            if why is None:
                raise
            allowed = f"a field of use; it is left out: {why}"
            raise InvalidInput(error.path, error.value, allowed) from None


def propose(records: Any) -> Proposal:
    """Return fields for records, a frame, or columns by name."""
    columns = _columns(records)
    if columns is not None and _nested(columns):
        rows = zip(*columns.values(), strict=True)
        records, columns = [dict(zip(columns, row, strict=True)) for row in rows], None
    seen = _of_records(records) if columns is None else _of_columns(columns)
    made = Proposal({"context": {}, "arm": {}}, {}, {})
    for side, (total, values) in seen.items():
        for key, given in values.items():
            name = f"{side}.{key}"
            field, note = _field(name, given, total - len(given))
            if field is None:
                made.left_out[name] = note
                continue
            made.fields[side][key] = field
            missing = f"; missing in {total - len(given):,} of {total:,}"
            made.notes[name] = note + missing * (len(given) < total)
    return made


# -- where values come from ------------------------------------------------------------------------


def _of_records(records: Any) -> dict[str, tuple[int, _Values]]:
    """Return the number of records and the values of their fields, for context and arm."""
    if isinstance(records, Mapping | str) or not isinstance(records, Iterable):
        raise InvalidInput("records", records, _RECORDS)
    context: defaultdict[str, list[Any]] = defaultdict(list)
    arm: defaultdict[str, list[Any]] = defaultdict(list)
    contexts = arms = 0
    for k, record in enumerate(records):
        if not isinstance(record, Mapping) or not ("arm" in record or "arms" in record):
            raise InvalidInput(("records", k), record, 'a record with "arm" or "arms"')
        several = record["arms"] if "arms" in record else [record["arm"]]
        if not isinstance(several, list | tuple):
            raise InvalidInput(("records", k, "arms"), several, "a list of records")
        given = record.get("context")
        _add(context, {} if given is None else given, ("records", k, "context"))
        for each in several:
            _add(arm, each, ("records", k, "arm"))
        contexts, arms = contexts + 1, arms + len(several)
    return {"context": (contexts, context), "arm": (arms, arm)}


def _add(values: defaultdict[str, list[Any]], record: Any, place: tuple[str | int, ...]) -> None:
    if not isinstance(record, Mapping):
        raise InvalidInput(place, record, "a record: fields by name")
    for name, value in record.items():
        column = values[name]
        if value is not None:
            column.append(value)


def _of_columns(columns: Mapping[str, list[Any]]) -> dict[str, tuple[int, _Values]]:
    """Return the same of columns. Where some are named `arm.NAME`, others are of no arm."""
    context: dict[str, list[Any]] = {}
    named: dict[str, list[Any]] = {}
    others: dict[str, list[Any]] = {}
    rows = 0
    for column, values in columns.items():
        side, _, name = column.partition(".")
        kept = context if side == "context" and name else named if side == "arm" else others
        kept[column if kept is others else name] = [v for v in values if v is not None]
        rows = len(values)
    return {"context": (rows, context), "arm": (rows, named or others)}


def _columns(given: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a frame, or columns by name, with None for missing values."""
    pd, pl = sys.modules.get("pandas"), sys.modules.get("polars")
    if pl is not None and isinstance(given, pl.LazyFrame):
        raise InvalidInput("records", "a LazyFrame", "a frame with its values: frame.collect()")
    framed = any(isinstance(given, each.DataFrame) for each in (pd, pl) if each is not None)
    if not framed and not isinstance(given, Mapping):
        return None
    names = given.columns if framed else given
    if len(set(names)) < len(names):
        raise InvalidInput("names of columns", list(names), "each name once")
    found = {str(name): _listed(given[name]) for name in names}
    if not found or any(values is None for values in found.values()):
        return None
    columns = {name: values or [] for name, values in found.items()}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = {name: len(values) for name, values in columns.items()}
        raise InvalidInput("lengths of columns", lengths, "one length")
    return columns


def _listed(column: Any) -> list[Any] | None:
    """Return the values of one column, without the types of NumPy, pandas and polars."""
    pd, pl = sys.modules.get("pandas"), sys.modules.get("polars")
    if pd is not None and isinstance(column, pd.Series):
        text = isinstance(column.dtype, pd.CategoricalDtype)  # also of numbers
        pairs = zip(column.array, column.isna(), strict=True)
        values = [None if lacks else str(v) if text else v for v, lacks in pairs]
    elif pl is not None and isinstance(column, pl.Series):
        values = (column.cast(pl.Float64) if column.dtype.is_decimal() else column).to_list()
    elif isinstance(column, list | tuple | np.ndarray):
        values = list(column)
    else:
        return None
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


def _nested(columns: Mapping[str, list[Any]]) -> bool:
    """Return whether columns hold records, not fields."""
    for values in (columns.get("arms"), columns.get("arm")):
        first = next((v for v in values or [] if v is not None), None)
        if isinstance(first, Mapping) or (
            isinstance(first, list) and any(isinstance(each, Mapping) for each in first)
        ):
            return True
    return False


# -- what becomes of a field -----------------------------------------------------------------------


def _field(name: str, values: list[Any], missing: int) -> tuple[Field | None, str]:
    """Return a field for these values, and a note; or None, and why."""
    found = {kind: _kind(name, kind, values) for kind in set(map(type, values))}
    kinds = set(found.values())
    if len(kinds) > 1:
        firsts = {found[type(value)]: value for value in reversed(values)}
        examples = [firsts[kind] for kind in sorted(kinds)]
        raise InvalidInput(name, examples, "values of one kind: text, numbers, or lists of text")
    if not kinds:
        return None, "it has no value"
    with under(name):
        if kinds == {"number"}:
            return _number(_floats(values), missing)
        return _texts(values, kinds == {"list"}, missing)


def _kind(name: str, kind: Any, values: list[Any]) -> str:
    """Return what the values of this type are."""
    if issubclass(kind, bool | np.bool_ | str):
        return "text"
    if issubclass(kind, int | float | np.integer | np.floating):
        return "number"
    listed = issubclass(kind, list | tuple)
    for value in values:
        if type(value) is kind and not (listed and all(isinstance(each, str) for each in value)):
            allowed = "text, numbers or lists of text: flatten it, or leave it out"
            raise InvalidInput(name, value, allowed)
    return "list"


def _floats(values: list[Any]) -> FloatArray:
    try:
        x = np.array(values, dtype=float)
    except OverflowError:  # whole numbers beyond floats
        x = np.array([float(min(max(v, -_LARGEST), _LARGEST)) for v in values])
    if not np.isfinite(x).all():
        value = float(x[np.argmin(np.isfinite(x))])
        raise InvalidInput((), value, "finite numbers, or null")
    return x


def _number(x: FloatArray, missing: int) -> tuple[Field | None, str]:
    distinct = np.unique(x)
    if len(distinct) == 1:
        value = float(distinct[0])
        if not missing:
            return None, f"it is always {value:g}"
        return Number(sorted({0.0, value or 1.0})), f"always {value:g} where it is not missing"
    if len(distinct) <= _KNOTS:
        return Number(distinct.tolist()), f"{len(distinct)} values, each a knot"
    knots = np.unique(np.quantile(x, _QUANTILES, method="inverted_cdf"))
    if len(knots) < 3:  # nearly all values are equal: look at the others, too
        rest = np.quantile(x[~np.isin(x, knots)], _QUANTILES, method="inverted_cdf")
        knots = np.unique([*knots, *rest])
    note = f"{len(distinct):,} values from {distinct[0]:g} to {distinct[-1]:g}"
    if (distinct == np.floor(distinct)).all():
        note += "; whole numbers: if they are codes, write them as text"
    return Number(_rounded(knots)), note


def _rounded(knots: FloatArray) -> list[float]:
    """Return the knots with as few digits as their distances allow."""
    gaps = np.diff(knots)
    room = _ROUNDING * np.minimum([gaps[0], *gaps], [*gaps, gaps[-1]])
    out = []
    for knot, most in zip(knots.tolist(), room.tolist(), strict=True):
        short = (float(f"{knot:.{digits}g}") for digits in range(1, 17))
        out.append(next((each for each in short if abs(each - knot) <= most), knot))
    return out


def _texts(values: list[Any], listed: bool, missing: int) -> tuple[Field | None, str]:
    kind = Tags if listed else Category
    counts: Counter[str] = Counter()
    seen: Counter[Any] = Counter(t for v in values for t in set(v)) if listed else Counter(values)
    for value, count in seen.items():  # True and "true" are the same text
        counts[_text(value)] += count
    total = sum(counts.values())
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_PLACES]
    if not counts:
        return None, "its lists are empty"
    if len(counts) == 1 and total == len(values) and not missing:
        return None, f"it is always {_quoted(ranked[0][0])}"
    note = f"{len(counts):,} text{'s' * (len(counts) > 1)}: "
    note += ", ".join(f"{_quoted(text)} {count:,}" for text, count in ranked[:5])
    note += ", …" * (len(counts) > 5)
    levels = sorted(text for text, _ in ranked if may_be_level(text))
    most = sum(count for _, count in ranked)
    often = sum(count for _, count in ranked if count >= _SEEN)
    if (len(counts) > _SAFE or not levels) and often < _FEW * total:
        return None, f"{len(counts):,} different texts in {total:,}, none of them frequent"
    if levels and (len(counts) <= _PLACES or most >= _MOST * total):
        return kind(levels), note
    return kind(buckets=_PLACES), note


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else str(bool(value)).lower()


def _quoted(text: str) -> str:
    """Return a text for a comment: one line, not too long."""
    return json.dumps(text if len(text) <= 24 else f"{text[:24]}…")
