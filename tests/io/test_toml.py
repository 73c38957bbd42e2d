"""Tables that are no such struct: the key at fault, and what is allowed there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedglb.errors import InvalidInput
from fedglb.io.toml import convert


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    word: str
    share: float | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    seeds: int | list[int]
    inner: Inner
    many: list[Inner] = []
    free: list[dict[str, Any]] = []
    mixed: list[float | str] = []
    yes: bool = True


GOOD = {"seeds": 3, "inner": {"word": "a"}}


@pytest.mark.parametrize(
    "more",
    [
        {}, {"seeds": [1, 2]}, {"inner": {"word": "a", "share": 1}}, {"yes": False},
        {"many": [{"word": "b", "share": 0.5}]}, {"free": [{"any": [{}]}]},
        {"mixed": [1, 0.5, "x"]},
    ],
)  # fmt: skip
def test_what_msgspec_takes_is_taken_as_it_takes_it(more):
    assert convert({**GOOD, **more}, Outer, "x.toml") == msgspec.convert({**GOOD, **more}, Outer)


@pytest.mark.parametrize(
    ("more", "argument", "allowed"),
    [
        ({"seeds": "3"}, "seeds", "a whole number or a list"),
        ({"seeds": [1, "2"]}, "seeds[1]", "a whole number"),
        ({"seeds": 0.5}, "seeds", "a whole number or a list"),
        ({"inner": 1}, "inner", "a table"),
        ({"inner": {}}, "inner.word", "a value: the key is missing from x.toml"),
        ({"inner": {"word": "a", "share": "b"}}, "inner.share", "a number"),
        ({"inner": {"wrod": "a"}}, "inner.wrod", "one of word, share; did you mean word?"),
        ({"many": [{"word": "b"}, {"word": 1}]}, "many[1].word", "text in quotes"),
        ({"free": [{}, 1]}, "free[1]", "a table"),
        ({"free": {}}, "free", "a list"),
        ({"mixed": [1, [2]]}, "mixed[1]", "a number or text in quotes"),
        ({"yes": 1}, "yes", "true or false"),
        ({"mny": 3}, "mny", "one of seeds, inner, many, free, mixed, yes; did you mean many?"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(more, argument, allowed):
    raw = {**GOOD, **more}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(raw, Outer)
    with pytest.raises(InvalidInput) as caught:
        convert(raw, Outer, "x.toml")
    assert caught.value.argument == f"x.toml: {argument}"
    assert caught.value.allowed == allowed
