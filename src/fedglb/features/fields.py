"""The kinds of fields: each becomes a block of places, of Euclidean norm at most 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

from fedglb.errors import InvalidInput, integer, number

BUCKETS = 16  # by default
OTHER, MISSING = "(other)", "(missing)"
_LARGEST = 2**20  # buckets: more do not fit into an arm anyway


@dataclass(frozen=True)
class Category:
    """One of several texts: one place per level, or hashed into buckets.

    Parameters
    ----------
    levels
        The texts that get a place of their own; others share one. None: texts are hashed, and
        new ones are no surprise.
    buckets
        The number of places for hashed texts, where there are no levels. None: 16.
    weight
        The block's weight.

    Raises
    ------
    InvalidInput
        If levels are not different texts, or are given together with buckets.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Category(levels=["mobile", "desktop"]).places
    ('=mobile', '=desktop', '=(other)', '=(missing)')
    """

    kind: ClassVar[str] = "category"

    levels: Sequence[str] | None = None
    buckets: int | None = None
    weight: float = 1.0
    places: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number("weight", self.weight, above=0.0)
        if self.levels is not None:
            if self.buckets is not None:
                raise InvalidInput("buckets", self.buckets, "None where there are levels")
            object.__setattr__(self, "levels", _levels(self.levels))
        else:
            buckets = BUCKETS if self.buckets is None else self.buckets
            object.__setattr__(self, "buckets", integer("buckets", buckets, at_most=_LARGEST))
        if self.levels is None:
            own = [f"#{k}" for k in range(self.buckets or 0)]
        else:
            own = [f"={level}" for level in (*self.levels, OTHER)]
        object.__setattr__(self, "places", (*own, f"={MISSING}"))


class Tags(Category):
    """A list of texts: those in it share a norm of 1.

    Parameters
    ----------
    levels, buckets, weight
        As for `Category`.

    Examples
    --------
    >>> import fedglb as fg
    >>> schema = fg.Features(arm={"tags": fg.Tags(levels=["new", "sale"])})
    >>> schema.encode([{"tags": ["sale", "new"]}]).round(2).tolist()
    [[0.71, 0.5, 0.5, 0.0, 0.0]]
    """

    kind: ClassVar[str] = "set"


@dataclass(frozen=True)
class Number:
    """A number: piecewise linear between knots, and constant outside them.

    Parameters
    ----------
    knots
        At least two numbers, increasing. Between two knots a number has a share in both.
    weight
        The block's weight.

    Raises
    ------
    InvalidInput
        If knots are not increasing finite numbers.

    Examples
    --------
    >>> import fedglb as fg
    >>> schema = fg.Features(arm={"price": fg.Number([0, 10])})
    >>> (schema.encode([{"price": 2}]) * 2**0.5).round(2).tolist()
    [[1.0, 0.8, 0.2, 0.0]]
    """

    kind: ClassVar[str] = "number"

    knots: Sequence[float]
    weight: float = 1.0
    places: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        number("weight", self.weight, above=0.0)
        given: Any = self.knots
        if not isinstance(given, list | tuple) or len(given) < 2:
            raise InvalidInput("knots", given, "a list of at least two increasing numbers")
        knots = tuple(number(f"knots[{k}]", each) + 0.0 for k, each in enumerate(given))
        rising = all(a < b for a, b in pairwise(knots))
        if not rising or not math.isfinite(knots[-1] - knots[0]):
            raise InvalidInput("knots", given, "increasing numbers with a finite range")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "places", (*(f"@{_text(k)}" for k in knots), f"={MISSING}"))


#: A field of any kind.
Field: TypeAlias = Category | Number
KINDS: dict[str, type[Field]] = {each.kind: each for each in (Category, Number, Tags)}


def _levels(given: Any) -> tuple[str, ...]:
    texts = isinstance(given, list | tuple) and all(isinstance(each, str) for each in given)
    same = not texts or not given or len(set(given)) < len(given)
    if same or not all(may_be_level(each) for each in given):
        allowed = f"a list of different texts, without {OTHER!r}, {MISSING!r} and ' * '"
        raise InvalidInput("levels", given, allowed)
    return tuple(given)


def may_be_level(text: str) -> bool:
    """Return whether a text may be a level: features' names have other uses for some."""
    return text not in (OTHER, MISSING) and " * " not in text


def _text(knot: float) -> str:
    return str(int(knot)) if knot.is_integer() and abs(knot) < 1e15 else repr(knot)
