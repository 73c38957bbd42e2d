"""The schema of an application's records: which fields there are, and how they become arms."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedglb.errors import InvalidInput, Place, integer, one_of, relocated, under
from fedglb.features.encode import Encoder, Record
from fedglb.features.fields import KINDS, Category, Field, Number
from fedglb.io.toml import convert, read_file, to_toml
from fedglb.links import Link, Logistic
from fedglb.problem import Problem
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

BUDGET = 256
_VERSION = 1
_RESERVED = "=#@*[]"  # they separate the parts of features' names


class _FieldTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    kind: str
    levels: list[str] | None = None
    buckets: int | None = None
    knots: list[float] | None = None
    weight: float = 1.0

    def build(self) -> Field:
        kind = KINDS[one_of("kind", self.kind, KINDS)]
        if kind is Number:
            for name in ("levels", "buckets"):
                if getattr(self, name) is not None:
                    raise InvalidInput(name, getattr(self, name), 'none with kind = "number"')
            return Number(self.knots or (), self.weight)
        if self.knots is not None:
            raise InvalidInput("knots", self.knots, f'none with kind = "{self.kind}"')
        return kind(self.levels, self.buckets, self.weight)  # type: ignore[call-arg, arg-type]


class _CrossTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pairs: list[list[str]] = []
    budget: int = BUDGET


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    arm: dict[str, _FieldTable]
    context: dict[str, _FieldTable] = {}
    crosses: _CrossTable = _CrossTable()


@dataclass(frozen=True)
class Cross:
    """The block of a pair of fields."""

    first: str
    second: str
    shape: tuple[int, int]
    size: int

    @property
    def hashed(self) -> bool:
        """Whether its products share places."""
        return self.size < self.shape[0] * self.shape[1]


@dataclass(frozen=True, eq=False)
class Features:
    """How records become arms: fields of the context, fields of the arm, and crosses.

    Every field becomes a block of norm at most 1, and an arm is its blocks side by side, divided by
    the root of their number: its norm is at most 1, whatever comes. Fields of the context are the
    same for all arms of a decision, so they enter through crosses only.

    Parameters
    ----------
    arm
        The fields of an arm's record by name: `Category`, `Number`, `Tags`.
    context
        The fields of the context's record.
    crosses
        Pairs of fields, such as ``("context.country", "arm.category")``: what an arm is worth may
        then depend on both.
    budget
        The largest number of places of one cross; products of larger ones are hashed.

    Raises
    ------
    InvalidInput
        If a field is invalid, a cross names an unknown field or no field of the arm, or there is
        no field of the arm.

    Examples
    --------
    >>> import fedglb as fg
    >>> features = fg.Features(
    ...     context={"device": fg.Category(["mobile", "desktop"])},
    ...     arm={"price": fg.Number([5, 50])},
    ...     crosses=[("context.device", "arm.price")],
    ... )
    >>> features.dim, features.names[:4]
    (16, ('constant', 'arm.price@5', 'arm.price@50', 'arm.price=(missing)'))
    >>> X = features.encode([{"price": 5}, {"price": 14}], {"device": "mobile"})
    >>> X[:, [0, 1, 2, 4, 5]].round(2).tolist()
    [[0.58, 0.58, 0.0, 0.58, 0.0], [0.58, 0.46, 0.12, 0.46, 0.12]]
    >>> fg.Features.from_toml(features.to_toml()) == features
    True
    """

    arm: Mapping[str, Field]
    context: Mapping[str, Field] = field(default_factory=dict)
    crosses: Sequence[tuple[str, str]] = ()
    budget: int = BUDGET

    def __post_init__(self) -> None:
        for side in ("arm", "context"):
            given: Any = getattr(self, side)
            if not isinstance(given, Mapping) or (side == "arm" and not given):
                raise InvalidInput(
                    side, given, "fields by name, e.g. {'price': fg.Number([5, 50])}"
                )
            for name, each in given.items():
                if not isinstance(name, str) or not name or set(name) & set(_RESERVED):
                    allowed = f"a text without {' '.join(_RESERVED)}"
                    raise InvalidInput(f"name of a field in {side}", name, allowed)
                if not isinstance(each, Category | Number):
                    raise InvalidInput((side, name), each, "a field, e.g. fg.Category()")
                if side == "context" and each.weight != 1.0:
                    allowed = "1: a field of the context has no block of its own to weigh"
                    raise InvalidInput((side, name, "weight"), each.weight, allowed)
            object.__setattr__(self, side, dict(given))
        integer("budget", self.budget)
        object.__setattr__(self, "crosses", self._checked_crosses())

    def _checked_crosses(self) -> tuple[tuple[str, str], ...]:
        crosses: list[tuple[str, str]] = []
        given: Any = self.crosses
        if not isinstance(given, list | tuple):
            allowed = 'a list of pairs of fields, e.g. [("context.country", "arm.category")]'
            raise InvalidInput("crosses", given, allowed)
        for k, pair in enumerate(given):
            place = ("crosses", k)
            if not isinstance(pair, list | tuple) or len(pair) != 2 or pair[0] == pair[1]:
                raise InvalidInput(place, pair, "two different fields")
            for name in pair:
                one_of(place, name, self._fields)
            if not any(name.startswith("arm.") for name in pair):
                allowed = "at least one field of the arm: what only depends on the context is the "
                raise InvalidInput(place, pair, f"{allowed}same for all arms")
            if set(pair) in map(set, crosses):
                raise InvalidInput(place, pair, "each pair once")
            crosses.append((pair[0], pair[1]))
        return tuple(crosses)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Features) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def _fields(self) -> dict[str, Field]:
        sides = {"context": self.context, "arm": self.arm}
        return {f"{side}.{n}": f for side, fields in sides.items() for n, f in fields.items()}

    # -- what it makes ---------------------------------------------------------------------------

    @cached_property
    def cross_blocks(self) -> tuple[Cross, ...]:
        """The blocks of the crosses."""
        made = []
        for a, b in self.crosses:
            shape = len(self._fields[a].places), len(self._fields[b].places)
            made.append(Cross(a, b, shape, min(shape[0] * shape[1], self.budget)))
        return tuple(made)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The sizes of an arm's blocks: the constant, the arm's fields, the crosses."""
        fields = (len(field.places) for field in self.arm.values())
        return (1, *fields, *(cross.size for cross in self.cross_blocks))

    @property
    def dim(self) -> int:
        """Number d of an arm's features."""
        return sum(self.blocks)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of an arm's features, d of them."""
        names = ["constant"]
        names += [f"arm.{name}{place}" for name, f in self.arm.items() for place in f.places]
        for cross in self.cross_blocks:
            a, b = cross.first, cross.second
            if cross.hashed:
                names += [f"{a}*{b}#{k}" for k in range(cross.size)]
            else:
                first, second = self._fields[a].places, self._fields[b].places
                names += [f"{a}{p} * {b}{q}" for p in first for q in second]
        return tuple(names)

    def problem(
        self, link: Link | None = None, radius: float = 1.0, noise: float | None = None
    ) -> Problem:
        """Return the problem of arms under this schema; each block has its own ridge.

        Parameters
        ----------
        link, radius, noise
            As for `fg.Problem`.

        Returns
        -------
        Problem
            With the schema's `dim` and `blocks`.
        """
        link = Logistic() if link is None else link
        return Problem(self.dim, link, radius, noise, blocks=self.blocks)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self)

    def encode(self, arms: Sequence[Record], context: Record | None = None) -> FloatArray:
        """Return the arms of one decision.

        Parameters
        ----------
        arms
            The record of each arm. Absent fields and null are missing values; fields that the
            schema does not have are ignored.
        context
            The record of the context; None: all of its fields are missing.

        Returns
        -------
        array
            Shape (K, d), each row of norm at most 1.

        Raises
        ------
        InvalidInput
            If a value has the wrong type; it names the field.
        """
        return self._encoder.encode(arms, context)

    def encode_rows(self, arms: Sequence[Record], contexts: Sequence[Record | None]) -> FloatArray:
        """Return the arms that were played in many decisions.

        Parameters
        ----------
        arms
            The record of the arm played in each decision.
        contexts
            The record of each decision's context.

        Returns
        -------
        array
            Shape (n, d), each row of norm at most 1.

        Raises
        ------
        InvalidInput
            If a value has the wrong type; it names the field.
        """
        return self._encoder.encode_rows(arms, contexts)

    # -- as text ---------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return the schema as the tables of its file."""
        out: dict[str, Any] = {"version": _VERSION}
        for side in ("context", "arm"):
            out[side] = {name: _plain(field) for name, field in getattr(self, side).items()}
        pairs = [list(pair) for pair in self.crosses]
        return {**out, "crosses": {"pairs": pairs, "budget": self.budget}}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the schema: equal for schemas that encode alike and have the same names."""
        text = json.dumps(self.plain(), separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def to_toml(self) -> str:
        """Return the schema as the text of its file."""
        return to_toml({key: value for key, value in self.plain().items() if value})

    @classmethod
    def from_plain(cls, tables: Mapping[str, Any], source: str = "features") -> Features:
        """Return the schema with the tables of a file.

        Parameters
        ----------
        tables
            As `plain` returns them.
        source
            The name of the file in errors.

        Returns
        -------
        Features
            The schema.

        Raises
        ------
        InvalidInput
            If a key is unknown or missing, or a value is invalid.
        """
        found = convert(dict(tables), _File, source)
        with under(source=source):
            if found.version != _VERSION:
                raise InvalidInput("version", found.version, f"{_VERSION}")
            fields: dict[str, dict[str, Field]] = {"arm": {}, "context": {}}
            for side, built in fields.items():
                for name, table in getattr(found, side).items():
                    with under(side, name):
                        built[name] = table.build()
            pairs = [(*pair,) for pair in found.crosses.pairs]
            with relocated(_in_file):
                return cls(crosses=pairs, budget=found.crosses.budget, **fields)  # type: ignore[arg-type]

    @classmethod
    def from_toml(cls, text: str) -> Features:
        """Return the schema in the text of a file.

        Parameters
        ----------
        text
            TOML, as `to_toml` writes it.

        Returns
        -------
        Features
            The schema.

        Raises
        ------
        InvalidInput
            If the text is no TOML, or no schema.
        """
        try:
            return cls.from_plain(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            given = text if len(text) <= 80 else f"{text[:80]} …"
            raise InvalidInput("text", given, f"TOML without mistakes: {error}") from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Features:
        """Return the schema in a file.

        Parameters
        ----------
        path
            A TOML file.

        Returns
        -------
        Features
            The schema.

        Raises
        ------
        InvalidInput
            If the file cannot be read, or is no schema.
        """
        return cls.from_plain(read_file(Path(path), "features"), str(path))

    @classmethod
    def infer(
        cls,
        records: Iterable[Record] | pd.DataFrame | pl.DataFrame | Mapping[str, Any],
        crosses: Sequence[tuple[str, str]] = (),
    ) -> Features:
        """Propose a schema for records: read it, and edit it.

        Texts with few levels get a place per level, others are hashed; numbers get knots at their
        values or at quantiles; lists of texts become sets. Fields of no use are left out: those
        that are always equal, and texts of which none is frequent, such as ids.
        `fedglb features infer` says which.

        Parameters
        ----------
        records
            Past decisions, each with a ``"context"`` and an ``"arm"`` or several ``"arms"``. Or a
            frame, or columns by name such as those of an `fg.Table`: ``context.NAME`` are of the
            context, ``arm.NAME`` of the arm, or all others if no column is named so.
        crosses
            As for `Features`.

        Returns
        -------
        Features
            The proposal.

        Raises
        ------
        InvalidInput
            If a field has values of several kinds, or nested ones; if there are no records; or if
            a cross names a field that is left out.

        Examples
        --------
        >>> import fedglb as fg
        >>> log = [
        ...     {"context": {"age": 20 + k}, "arm": {"kind": "ab"[k % 2]}, "reward": 1}
        ...     for k in range(40)
        ... ]
        >>> features = fg.Features.infer(log, crosses=[("context.age", "arm.kind")])
        >>> features.context["age"]
        Number(knots=(21.0, 29.0, 39.0, 49.0, 57.0), weight=1.0)
        >>> features.arm["kind"]
        Category(levels=('a', 'b'), buckets=None, weight=1.0)
        """
        from fedglb.features.infer import propose

        return propose(records).features(crosses)


def _in_file(path: Place) -> Place:
    """Return the place in a file of an argument of `Features`."""
    places: dict[str | int, Place] = {
        "crosses": ("crosses", "pairs"), "budget": ("crosses", "budget"),
    }  # fmt: skip
    return *places.get(path[0], path[:1]), *path[1:]


def _plain(field: Field) -> dict[str, Any]:
    if isinstance(field, Number):
        own: dict[str, Any] = {"knots": list(field.knots)}
    elif field.levels is None:
        own = {"buckets": field.buckets}
    else:
        own = {"levels": list(field.levels)}
    weight = {} if field.weight == 1.0 else {"weight": float(field.weight)}
    return {"kind": field.kind, **own, **weight}
