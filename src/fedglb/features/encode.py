"""From records to arms. docs/records.md specifies every number, for programs in other languages.

scikit-learn's encoders do not fit: `FeatureHasher` has no bound on an arm's norm, no knots and no
place for a missing value, and its collisions are not known in advance; `DictVectorizer` drops
levels that it did not see when it was fitted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedglb.errors import InvalidInput, Place
from fedglb.features.fields import Category, Field, Number, Tags
from fedglb.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from fedglb.features.schema import Cross, Features

Record: TypeAlias = Mapping[str, Any]
_KEPT = 65_536  # texts of a field whose place is remembered
_ROWS = 1024  # encoded at once: a cross has many numbers per row
_SIGN = 1 << 63
#: Writes the places of a field's values into rows of zeros; the place of row r in errors.
_Encode: TypeAlias = Callable[[Sequence[Any], FloatArray, Callable[[int], Place]], None]


@lru_cache(_KEPT)
def stable_hash(text: str) -> int:
    """Return the first 8 bytes of the SHA-256 of a text's UTF-8 bytes, little-endian.

    Examples
    --------
    >>> stable_hash("context.country=DE") % 16
    8
    """
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "little")


class Encoder:
    """Encodes records under one schema; counts fields that the schema does not have.

    Parameters
    ----------
    features
        The schema.
    strict
        Whether a record with other fields is refused.
    """

    def __init__(self, features: Features, strict: bool = False) -> None:
        self.features, self.strict = features, strict
        self.ignored = 0  # fields of records that the schema does not have
        self._context = [_Column(f"context.{k}", k, f) for k, f in features.context.items()]
        self._arm = [_Column(f"arm.{k}", k, f) for k, f in features.arm.items()]
        self._crosses = [_CrossColumn(cross) for cross in features.cross_blocks]
        weights = [1.0, *(f.weight for f in features.arm.values()), *(1.0 for _ in self._crosses)]
        shares = [w / max(weights) for w in weights]  # squares of weights could overflow
        norm = math.sqrt(math.fsum(w * w for w in shares))
        #: What each place of an arm is multiplied by, shape (d,).
        self.scale = np.repeat([w / norm for w in shares], features.blocks)

    def encode(self, arms: Sequence[Record], context: Record | None = None) -> FloatArray:
        """Return the arms of one decision; `Features.encode` documents it."""
        records = _records("arms", arms)
        contexts = [{} if context is None else _record(("context",), context)]
        return self._encode(records, contexts, partial(_place, "arms", 0), lambda _: ("context",))

    def encode_rows(self, arms: Sequence[Record], contexts: Sequence[Record | None]) -> FloatArray:
        """Return the arms of many decisions; `Features.encode_rows` documents it."""
        records = _records("arms", arms)
        given = _records("contexts", [{} if each is None else each for each in contexts])
        if len(given) != len(records):
            raise InvalidInput("len(contexts)", len(given), f"{len(records)}, one per arm")
        out = np.empty((len(records), self.features.dim))
        for first in range(0, len(records), _ROWS):
            part = slice(first, first + _ROWS)
            at = partial(_place, "arms", first), partial(_place, "contexts", first)
            out[part] = self._encode(records[part], given[part], *at)
        return out

    def _encode(
        self,
        arms: Sequence[Record],
        contexts: Sequence[Record],
        arm_place: Callable[[int], Place],
        context_place: Callable[[int], Place],
    ) -> FloatArray:
        X, first = np.zeros((len(arms), self.features.dim)), 1
        X[:, 0] = 1.0
        blocks: dict[str, FloatArray] = {}
        for column in self._context:
            blocks[column.name] = np.zeros((len(contexts), column.size))
            column.encode(contexts, blocks[column.name], context_place)
        for column in self._arm:
            blocks[column.name] = X[:, first : first + column.size]
            column.encode(arms, blocks[column.name], arm_place)
            first += column.size
        for cross in self._crosses:
            cross.encode(blocks, X[:, first : first + cross.size])
            first += cross.size
        ignored = self._unknown(arms, self.features.arm, arm_place)
        self.ignored += ignored + self._unknown(contexts, self.features.context, context_place)
        X *= self.scale
        return X

    def _unknown(
        self, records: Sequence[Record], known: Mapping[str, Field], place: Callable[[int], Place]
    ) -> int:
        """Return the number of fields that the schema does not have; raise if it is strict."""
        count = 0
        for r, record in enumerate(records):
            # without fields that are missing, the lengths are equal
            if len(record) != len(known) or record.keys() != known.keys():
                other = record.keys() - known.keys()
                if other and self.strict:
                    name = min(map(str, other))
                    allowed = f"a field of the schema: {', '.join(known) or 'none'}"
                    raise InvalidInput((*place(r), name), record[name], allowed)
                count += len(other)
        return count


class _Column:
    """A field of a record: finds its values, and writes their block."""

    def __init__(self, name: str, key: str, field: Field) -> None:
        self.name, self._key, self.size = name, key, len(field.places)
        self._write: _Encode
        if isinstance(field, Number):
            self._write = _NumberBlock(field).write
        else:
            texts = _TextBlock(name, field)
            self._write = texts.write_sets if isinstance(field, Tags) else texts.write

    def encode(
        self, records: Sequence[Record], out: FloatArray, place: Callable[[int], Place]
    ) -> None:
        key = self._key
        self._write([r.get(key) for r in records], out, lambda r: (*place(r), key))


class _TextBlock:
    def __init__(self, name: str, field: Category) -> None:
        self._name, self._missing = name, len(field.places) - 1
        self._levels = None if field.levels is None else {x: k for k, x in enumerate(field.levels)}
        self._kept: dict[str | None, int] = {}

    def write(self, values: Sequence[Any], out: FloatArray, place: Callable[[int], Place]) -> None:
        get = self._kept.get
        try:
            found = [get(value, -1) for value in values]
        except TypeError:  # a value that cannot be a key
            found = [-1] * len(values)
        for r, code in enumerate(found):
            if code < 0:
                value = values[r]
                if isinstance(value, bool | np.bool_):  # not kept: as a key, True is 1
                    found[r] = self._keep("true" if value else "false")
                elif value is None or isinstance(value, str):
                    found[r] = self._keep(value)
                else:
                    raise InvalidInput(place(r), value, _allowed(value, "a text, true or false"))
        out[np.arange(len(values)), found] = 1.0

    def write_sets(
        self, values: Sequence[Any], out: FloatArray, place: Callable[[int], Place]
    ) -> None:
        flat, get, size = [], self._kept.get, self._missing + 1
        for r, value in enumerate(values):
            if value is None:
                flat.append(r * size + self._missing)
                continue
            try:
                texts = set(value) if isinstance(value, list | tuple) else {None}
            except TypeError:  # a value in it that cannot be a key
                texts = {None}
            for text in texts:
                code = get(text)  # only texts are kept here
                if code is None:
                    if not isinstance(text, str):
                        raise InvalidInput(place(r), value, "a list of texts, or null")
                    code = self._keep(text)
                flat.append(r * size + code)
        counts = np.bincount(np.array(flat, dtype=np.intp), minlength=len(values) * size)
        counts = counts.reshape(len(values), size).astype(float)
        norms = np.sqrt(np.einsum("ij,ij->i", counts, counts))
        np.divide(counts, norms[:, None], out=out, where=norms[:, None] > 0.0)

    def _keep(self, text: str | None) -> int:
        code = self._kept.get(text)
        if code is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            code = self._kept[text] = self._missing if text is None else self._place(text)
        return code

    def _place(self, text: str) -> int:
        if self._levels is None:
            return stable_hash(f"{self._name}={text}") % self._missing
        return self._levels.get(text, self._missing - 1)


class _NumberBlock:
    def __init__(self, field: Number) -> None:
        self._knots = np.array(field.knots)
        self._gaps = np.diff(self._knots)

    def write(self, values: Sequence[Any], out: FloatArray, place: Callable[[int], Place]) -> None:
        knots, rows = self._knots, np.arange(len(values))
        missing = None in values
        if not set(map(type, values)) <= {float, int, type(None)}:
            values = [self._plain(value, place, r) for r, value in enumerate(values)]
        try:
            x = np.array(values, dtype=float)  # None becomes NaN
        except OverflowError:  # whole numbers beyond floats
            limits = float(knots[0]), float(knots[-1])
            x = np.array([v if v is None else min(max(v, limits[0]), limits[1]) for v in values])
            x = x.astype(float)
        finite = np.isfinite(x)
        if not finite.all():
            for r in np.flatnonzero(~finite).tolist():
                if values[r] is not None:
                    raise InvalidInput(place(r), values[r], "a finite number, or null")
            x = np.where(finite, x, knots[0])
        x = np.minimum(np.maximum(x, knots[0]), knots[-1])
        k = np.minimum(knots.searchsorted(x, side="right"), len(knots) - 1) - 1
        share = (x - knots[k]) / self._gaps[k]
        out[rows, k] = 1.0 - share
        out[rows, k + 1] = share
        if missing:
            out[~finite] = 0.0
            out[~finite, -1] = 1.0

    @staticmethod
    def _plain(value: Any, place: Callable[[int], Place], r: int) -> Any:
        if isinstance(value, np.integer | np.floating):
            value = value.item()
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise InvalidInput(place(r), value, _allowed(value, "a number"))


class _CrossColumn:
    """The products of two fields' places, hashed with signs where they are too many."""

    def __init__(self, cross: Cross) -> None:
        self._first, self._second, self.size = cross.first, cross.second, cross.size
        self._places: IntArray | None = None
        if cross.hashed:
            a, b = cross.shape
            g = [
                stable_hash(f"{cross.first}[{i}]*{cross.second}[{j}]")
                for i in range(a)
                for j in range(b)
            ]
            self._places = np.array([each % cross.size for each in g]).reshape(a, b)
            self._signs = np.where([each >= _SIGN for each in g], -1.0, 1.0).reshape(a, b)

    def encode(self, blocks: Mapping[str, FloatArray], out: FloatArray) -> None:
        products = blocks[self._first][:, :, None] * blocks[self._second][:, None, :]
        if self._places is None:
            out[:] = products.reshape(len(products), self.size)
            return
        row, i, j = np.nonzero(products)
        flat = row * self.size + self._places[i, j]
        values = products[row, i, j] * self._signs[i, j]
        sums = np.bincount(flat, values, minlength=len(products) * self.size)
        out[:] = sums.reshape(len(products), self.size)
        norms = np.sqrt(np.einsum("ij,ij->i", out, out))
        out /= np.maximum(norms, 1.0)[:, None]


def _place(argument: str, first: int, r: int) -> Place:
    return argument, first + r


def _records(argument: str, given: Any) -> list[Record]:
    if isinstance(given, Mapping | str) or not isinstance(given, Sequence):
        raise InvalidInput(argument, given, "a list of records (JSON objects)")
    for k, each in enumerate(given):
        if type(each) is not dict:
            _record((argument, k), each)
    return list(given)


def _record(place: Place, given: Any) -> Record:
    if not isinstance(given, Mapping):
        raise InvalidInput(place, given, "a record (a JSON object): fields by name")
    return given


def _allowed(value: Any, kind: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'{kind}, or null: write a number as text, or declare kind = "number"'
    return f"{kind}, or null"
