"""The encoding of records against an independent second program, and against hand-made examples."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.io.toml import to_toml
from tests import plain_features as plain

Schema = dict[str, Any]


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def from_objects(schema: Schema) -> Any:
    def made(field: Schema) -> Any:
        options = dict(field)
        kind = {"category": fg.Category, "number": fg.Number, "set": fg.Tags}[options.pop("kind")]
        return kind(*([options.pop("knots")] if "knots" in options else []), **options)

    sides = {
        side: {key: made(field) for key, field in schema.get(side, {}).items()}
        for side in ("context", "arm")
    }
    crosses = dict(schema.get("crosses", {}))
    pairs = [tuple(pair) for pair in crosses.pop("pairs", [])]
    return fg.Features(**sides, crosses=pairs, **crosses)


def from_toml(schema: Schema) -> Any:
    return fg.Features.from_toml(to_toml(schema))


# Examples computed by hand: both programs must agree with them.

PROGRAMS: dict[str, Callable[..., Any]] = {
    "plain": plain.encode,
    "package": lambda schema, arms, context: from_toml(schema).encode(arms, context),
}
SHOP: Schema = {
    "version": 1,
    "context": {"country": {"kind": "category", "levels": ["AT", "CH", "FR", "DE"]}},
    "arm": {"category": {"kind": "category", "levels": ["shoes", "books"]}},
}
CROSS = {"pairs": [["context.country", "arm.category"]]}


def both(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.parametrize("program", PROGRAMS)(test)


def close(given: Any, expected: Any) -> None:
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-15)


@both
def test_fields_of_the_arm(program):
    schema = {
        "version": 1,
        "arm": {
            "category": {"kind": "category", "levels": ["shoes", "true"]},
            "price": {"kind": "number", "knots": [0, 10, 30]},
        },
    }
    arms: list[Schema] = [
        {"category": "shoes", "price": 2.5},
        {"category": True, "price": 15},
        {"category": False, "price": -(10**400)},
        {"category": None, "price": 30.0},
        {"category": ""},
    ]
    expected = np.array([
        # constant; shoes, true, (other), (missing); 0, 10, 30, (missing)
        [1, 1, 0, 0, 0, 0.75, 0.25, 0, 0],
        [1, 0, 1, 0, 0, 0, 0.75, 0.25, 0],
        [1, 0, 0, 1, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 0, 0, 1, 0],
        [1, 0, 0, 1, 0, 0, 0, 0, 1],
    ])  # fmt: skip
    close(PROGRAMS[program](schema, arms, None), expected / math.sqrt(3))


@both
def test_set_with_a_weight(program):
    tags = {"kind": "set", "levels": ["a", "b"], "weight": 2.0}
    schema = {"version": 1, "arm": {"tags": tags}}
    arms: list[Schema] = [{"tags": ["a", "z", "b", "a", "y"]}, {"tags": []}, {}]
    counts = np.array([[1, 1, 2, 0], [0, 0, 0, 0], [0, 0, 0, 1]])  # a, b, (other), (missing)
    blocks = counts / np.sqrt([[6], [1], [1]])
    close(PROGRAMS[program](schema, arms, None), np.hstack([np.ones((3, 1)), 2 * blocks]) / 5**0.5)


@both
def test_direct_cross(program):
    schema = SHOP | {"crosses": CROSS | {"budget": 24}}
    x = np.zeros(1 + 4 + 6 * 4)
    x[[0, 1 + 1, 1 + 4 + 3 * 4 + 1]] = 1  # constant, books, DE * books
    close(PROGRAMS[program](schema, [{"category": "books"}], {"country": "DE"}), [x / 3**0.5])


@both
def test_hashed_cross(program):
    """The hash below begins with the byte 6d, so 13 modulo 16, and ends with c7, so it is ≥ 2⁶³."""
    schema = SHOP | {"crosses": CROSS | {"budget": 16}}
    x = np.zeros(1 + 4 + 16)
    x[[0, 1, 1 + 4 + 13]] = 1, 1, -1
    close(PROGRAMS[program](schema, [{"category": "shoes"}], {"country": "DE"}), [x / 3**0.5])


@pytest.mark.parametrize("names", [plain.names, lambda schema: list(from_toml(schema).names)])
def test_names(names):
    arm = {
        "tags": {"kind": "set", "buckets": 2},
        "price": {"kind": "number", "knots": [20, 20.5]},
        "new": {"kind": "category", "levels": ["yes"]},
    }
    pairs = [["arm.new", "context.country"], ["arm.tags", "arm.price"]]
    country = {"kind": "category", "buckets": 2}
    schema = {"version": 1, "context": {"country": country}, "arm": arm}
    schema["crosses"] = {"pairs": pairs, "budget": 8}
    assert names(schema | {"crosses": {"pairs": pairs[1:], "budget": 8}}) == [
        "constant", "arm.tags#0", "arm.tags#1", "arm.tags=(missing)",
        "arm.price@20", "arm.price@20.5", "arm.price=(missing)",
        "arm.new=yes", "arm.new=(other)", "arm.new=(missing)",
        *(f"arm.tags*arm.price#{place}" for place in range(8)),
    ]  # fmt: skip
    schema["crosses"]["budget"] = 9
    assert names(schema)[-18:-12] == [
        "arm.new=yes * context.country#0", "arm.new=yes * context.country#1",
        "arm.new=yes * context.country=(missing)", "arm.new=(other) * context.country#0",
        "arm.new=(other) * context.country#1", "arm.new=(other) * context.country=(missing)",
    ]  # fmt: skip


# The hash: the first 16 digits of `printf TEXT | sha256sum` in a terminal with UTF-8. The bytes are
# the number's from the lowest on.

VECTORS = {
    "context.country=DE": "c8dd86c5c454d43c",  # printf 'context.country=DE' | sha256sum
    "arm.city=Zürich": "df6a9f2ffb9f9149",  # printf 'arm.city=Zürich' | sha256sum
    "arm.city=\ud800": "adbbea05b858859d",  # printf 'arm.city=\xed\xa0\x80' | sha256sum
    "context.country[3]*arm.category[0]": "6d68251bce1efec7",
    # printf 'context.country[3]*arm.category[0]' | sha256sum
}


def vector(text: str) -> int:
    return sum(int(VECTORS[text][2 * i : 2 * i + 2], 16) << 8 * i for i in range(8))


@pytest.mark.parametrize("text", VECTORS)
def test_hash_of_the_plain_program(text):
    assert plain.h(text) == vector(text)


@pytest.mark.parametrize("buckets", [2, 3, 1000, 65536])
def test_hash_of_a_field_of_the_arm(buckets):
    schema = {"version": 1, "arm": {"city": {"kind": "category", "buckets": buckets}}}
    X = from_toml(schema).encode([{"city": "Zürich"}, {"city": "\ud800"}], None)
    expected = [vector("arm.city=Zürich"), vector("arm.city=\ud800")]
    assert [int(np.flatnonzero(x)[1]) - 1 for x in X] == [g % buckets for g in expected]


@pytest.mark.parametrize("buckets", [2, 3, 1000])
def test_hash_of_a_field_of_the_context(buckets):
    country = {"kind": "category", "buckets": buckets}
    schema = SHOP | {"context": {"country": country}, "crosses": CROSS | {"budget": 10000}}
    (x,) = from_toml(schema).encode([{"category": "shoes"}], {"country": "DE"})
    assert np.flatnonzero(x)[2] == 1 + 4 + 4 * (vector("context.country=DE") % buckets)


@pytest.mark.parametrize("budget", [1, 2, 7, 23])
def test_hash_of_a_cross(budget):
    schema = SHOP | {"crosses": CROSS | {"budget": budget}}
    (x,) = from_toml(schema).encode([{"category": "shoes"}], {"country": "DE"})
    g = vector("context.country[3]*arm.category[0]")
    assert np.flatnonzero(x)[2] == 1 + 4 + g % budget
    assert x[1 + 4 + g % budget] == -x[0]


# Random schemas and records.

LONG = "x" * 10**5
DEEP = nested(10**5)
LEVELS = [
    "", "\0", "a\0b", "😀", "é", "e\u0301", "=", "#", "#3", "true", "false", "null", " ", "\n",
    "\r\n", "DE", "shoes", "\x7f", "\u2028", '"', "\\", "(others)",
]  # fmt: skip
TEXTS = [*LEVELS, "\ud800", "x\udfffy", "\udc00\ud800", "(other)", "(missing)", "DE\0", "de"]
KEYS = ["a", "b", "größe", "x y", "price.eur", "kind", "weight"]
KNOTS = [-1e300, -100000, -3, -0.5, 0, 1e-300, 0.001, 0.5, 1, 2.25, 18, 25, 65, 1000, 1e300]
NUMBERS = [
    0, -0.0, 5e-324, -5e-324, 1e-308, 1e308, -1e308, 10**400, -(10**400), 2**53 + 1, -(2**64), 1,
]  # fmt: skip
UNKNOWN = [None, DEEP, LONG, {"a": {"b": [1, {}]}}, math.nan, 10**5000, True, object()]


def random_field(rng: random.Random, weighted: bool) -> Schema:
    field: Schema = {"kind": rng.choice(["category", "number", "set"])}
    if field["kind"] == "number":
        field["knots"] = sorted(rng.sample(KNOTS, rng.randint(2, 6)))
    elif rng.random() < 0.5:
        field["levels"] = rng.sample(LEVELS, rng.randint(1, 6))
    elif rng.random() < 0.8:
        field["buckets"] = rng.choice([1, 2, 3, 5, 16, 40])
    if weighted and rng.random() < 0.5:
        field["weight"] = rng.choice([1e-9, 0.1, 1.0, 2.0, 3.7, 1e9])
    return field


def random_schema(rng: random.Random) -> Schema:
    schema: Schema = {"version": 1}
    for side, least in (("context", 0), ("arm", 1)):
        keys = rng.sample(KEYS, rng.randint(least, 4))
        schema[side] = {key: random_field(rng, side == "arm") for key in keys}
    names = list(plain.fields(schema))
    pairs = [
        rng.sample(pair, 2)
        for pair in combinations(names, 2)
        if any(name.startswith("arm.") for name in pair)
    ]
    if pairs and rng.random() < 0.8:
        pairs = rng.sample(pairs, rng.randint(1, min(3, len(pairs))))
        schema["crosses"] = {"pairs": pairs}
        if rng.random() < 0.8:
            schema["crosses"]["budget"] = rng.choice([1, 2, 3, 5, 8, 20, 64, 300])
    return schema


def random_text(rng: random.Random, field: Schema) -> str:
    if "levels" in field and rng.random() < 0.5:
        return rng.choice(field["levels"])
    if rng.random() < 0.3:
        return str(rng.randrange(100))
    return LONG if rng.random() < 0.01 else rng.choice(TEXTS)


def random_value(rng: random.Random, field: Schema) -> Any:
    if rng.random() < 0.1:
        return None
    if field["kind"] == "number":
        j = rng.randrange(len(field["knots"]) - 1)
        low, high = field["knots"][j : j + 2]
        inside = [low, high, math.nextafter(low, high), math.nextafter(high, low)]
        inside += [low + rng.random() * (high - low) for _ in range(4)]
        spread = rng.gauss(0, 1) * 10.0 ** rng.randint(-300, 300)
        return rng.choice([*inside, rng.choice(NUMBERS), rng.randint(-10, 100), spread])
    if field["kind"] == "category":
        return rng.choice([True, False]) if rng.random() < 0.1 else random_text(rng, field)
    texts = [random_text(rng, field) for _ in range(rng.choice([0, 1, 2, 3, 10]))]
    texts += rng.choices(texts, k=rng.randrange(3)) if texts else []  # repeats
    return tuple(texts) if rng.random() < 0.2 else texts


def random_record(rng: random.Random, fields: dict[str, Schema]) -> Any:
    record = {key: random_value(rng, field) for key, field in fields.items() if rng.random() < 0.9}
    if rng.random() < 0.3:
        record[rng.choice(["unknown", "", "a.b", "\ud800"])] = rng.choice(UNKNOWN)
    return MappingProxyType(record) if rng.random() < 0.1 else record


def norm_bound(dim: int) -> float:
    """What rounding allows, with u = 2⁻⁵³.

    The sum of squares of at most `dim` weights under the root is too small by a factor 1 − dim·u
    at most, and so is a cross's own sum of squares; roots take half of each. Products, quotients,
    roots, and the norm taken here, add fewer than 16 u.
    """
    return 1 + (dim + 16) * 2.0**-53


def compare(seed: int, decisions: int, arms: int) -> int:
    """Compare both programs on one random schema; return the number of records of arms."""
    rng = random.Random(seed)
    schema = random_schema(rng)
    features = (from_toml if seed % 2 else from_objects)(schema)
    names = plain.names(schema)
    dim = len(names)
    assert len(set(names)) == dim, "the schema of this test names two places alike"
    assert list(features.names) == names
    assert features.dim == dim
    assert list(features.blocks) == [len(block) for block in plain.names_of_blocks(schema)]
    rows, contexts, found = [], [], []
    for _ in range(decisions):
        context = random_record(rng, schema["context"]) if rng.random() < 0.95 else None
        offered = [random_record(rng, schema["arm"]) for _ in range(arms)]
        X = features.encode(offered, context)
        assert X.shape == (arms, dim)
        assert X.dtype == np.float64
        assert np.isfinite(X).all()
        expected = np.array(plain.encode(schema, offered, context))
        wrong = np.argwhere(np.abs(X - expected) > 1e-12)
        assert not len(wrong), f"arm {wrong[0][0]}: {names[wrong[0][1]]!r}, {schema}"
        assert max(math.hypot(*x) for x in X) <= norm_bound(dim)
        rows += offered
        contexts += [{} if context is None else context] * arms
        found.append(X)
    assert_array_equal(features.encode_rows(rows, contexts), np.vstack(found))
    return len(rows)


@pytest.mark.parametrize(
    "seeds",
    [range(60), pytest.param(range(1000, 3000), marks=pytest.mark.slow)],
    ids=["3000 records", "100 000 records"],
)
def test_both_programs_agree(seeds):
    assert sum(compare(seed, decisions=5, arms=10) for seed in seeds) == 50 * len(seeds)


# What the tables allow, at its ends.


def test_names_of_close_knots_differ():
    knots = [1.0, math.nextafter(1.0, 2.0), 1.0000001]
    names = from_toml({"version": 1, "arm": {"a": {"kind": "number", "knots": knots}}}).names
    assert len(set(names)) == 5


def levels(*texts: str) -> Schema:
    return {"kind": "category", "levels": list(texts)}


#: Names put together as they are would be those of two places.
ALIKE: dict[str, Schema] = {
    "other": {"arm": {"a": levels("(other)")}},
    "missing": {"arm": {"a": levels("(missing)")}},
    "field with =": {"arm": {"a": levels("b=c"), "a=b": levels("c")}},
    "field with = and #": {"arm": {"a": levels("b#0"), "a=b": {"kind": "category"}}},
    "field like a cross": {
        "arm": {"a": levels("x"), "b": levels("x"), "a*arm.b": {"kind": "set"}},
        "crosses": {"pairs": [["arm.a", "arm.b"]], "budget": 4},
    },
    "level like a cross": {
        "arm": {"a": levels("x", "x * arm.b=y"), "b": levels("y")},
        "crosses": {"pairs": [["arm.a", "arm.b"]]},
    },
    "levels in a cross": {
        "arm": {"a": levels("x", "x * arm.b=y"), "b": levels("z", "y * arm.b=z")},
        "crosses": {"pairs": [["arm.a", "arm.b"]]},
    },
}


@pytest.mark.parametrize("case", ALIKE)
def test_no_two_places_have_one_name(case):
    """Such a schema is refused, or its names are written in another way."""
    schema = {"version": 1} | ALIKE[case]
    assert len(set(plain.names(schema))) < len(plain.names(schema))
    try:
        names = from_toml(schema).names
    except fg.InvalidInput:
        return
    assert len(set(names)) == len(names)


def test_knots_whose_distance_overflows():
    schema = {"version": 1, "arm": {"a": {"kind": "number", "knots": [-1.5e308, 1.5e308]}}}
    with pytest.raises(fg.InvalidInput, match=r"arm\.a\.knots"):
        from_toml(schema)


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e200, 1.7e308])
def test_weights_whose_squares_leave_the_range(weight):
    fields = {
        "a": {"kind": "category", "weight": weight},
        "b": {"kind": "category", "weight": weight},
    }
    schema = {"version": 1, "arm": fields}
    X = from_toml(schema).encode([{"a": "x", "b": "y"}, {}], None)
    expected = plain.encode(schema, [{"a": "x", "b": "y"}, {}], None)
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-12)


# Wrong types.

WRONG: dict[str, list[Any]] = {
    "category": [5, 0, 1.5, math.nan, [], ["a"], (), {}, {"a": 1}, b"a", object],
    "number": ["5", "", "nan", True, False, math.nan, math.inf, -math.inf, [], [1], {}, b"1", 1j],
    "set": ["a", "", True, 5, 1.5, {}, {"a": 1}, {"a"}, b"a", object],
    "text of a set": [None, True, 5, math.nan, ["a"], {}, b"a"],
}
FIELDS: Schema = {
    "category": {"kind": "category"},
    "known": {"kind": "category", "levels": ["a"]},
    "number": {"kind": "number", "knots": [0, 1]},
    "set": {"kind": "set"},
    "known set": {"kind": "set", "levels": ["a"]},
}
RIGHT = {"category": "a", "known": "b", "number": 0.5, "set": ["a", "b"], "known set": ["a", "b"]}
WRONG_VALUES = [
    *((key, value) for key in ("category", "known") for value in WRONG["category"]),
    *(("number", value) for value in WRONG["number"]),
    *((key, value) for key in ("set", "known set") for value in WRONG["set"]),
    *((key, ["a", v]) for key in ("set", "known set") for v in WRONG["text of a set"]),
]


def features_of_all_kinds(crossed: bool = True) -> Any:
    pairs = [[f"context.{key}", "arm.number"] for key in FIELDS]
    schema = {"version": 1, "context": FIELDS, "arm": FIELDS}
    return from_toml(schema | ({"crosses": {"pairs": pairs}} if crossed else {}))


def refused(call: Callable[[], Any], place: str, value: Any) -> None:
    """Assert that the field is named, or in a list the text at fault."""
    with pytest.raises(fg.InvalidInput) as caught:
        call()
    inside = f"{place}[1]" if isinstance(value, list) else place
    assert caught.value.argument in (place, inside)
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize(("key", "value"), WRONG_VALUES, ids=repr)
def test_wrong_types_are_refused_by_place(key, value):
    features, wrong = features_of_all_kinds(), RIGHT | {key: value}
    arms = [RIGHT, RIGHT, {}, wrong]
    refused(lambda: features.encode(arms, RIGHT), f"arms[3].{key}", value)
    refused(lambda: features.encode([RIGHT, {}], wrong), f"context.{key}", value)
    refused(lambda: features.encode_rows(arms, [RIGHT] * 4), f"arms[3].{key}", value)
    refused(lambda: features.encode_rows([{}] * 4, arms), f"contexts[3].{key}", value)
    alone = features_of_all_kinds(crossed=False)  # the context has no effect, and is still wrong
    refused(lambda: alone.encode([RIGHT], wrong), f"context.{key}", value)


@pytest.mark.parametrize("record", [5, "a", [], [("category", "a")], True], ids=repr)
def test_what_is_no_record_is_refused_by_place(record):
    features = features_of_all_kinds()
    refused(lambda: features.encode([{}, record], {}), "arms[1]", None)
    refused(lambda: features.encode([{}], record), "context", None)


@pytest.mark.parametrize("value", [DEEP, {"a": DEEP}, 10**5000], ids=["list", "table", "digits"])
def test_a_wrong_value_that_has_no_text_is_refused_by_place(value):
    """Python refuses to write a deep list or a number of many digits."""
    features = features_of_all_kinds()
    refused(lambda: features.encode([{"category": value}], {}), "arms[0].category", None)
    refused(lambda: features.encode([{}], {"known": value}), "context.known", None)


# One schema, however it is written.


@pytest.mark.parametrize("seed", range(40))
def test_round_trip(seed):
    rng = random.Random(seed)
    schema = random_schema(rng)
    features = from_objects(schema)
    arms = [random_record(rng, schema["arm"]) for _ in range(10)]
    context = random_record(rng, schema["context"])
    for again in (fg.Features.from_toml(features.to_toml()), from_toml(schema)):
        assert again == features
        assert again.digest == features.digest
        assert again.to_toml() == features.to_toml()
        assert_array_equal(again.encode(arms, context), features.encode(arms, context))


def test_schemas_that_encode_differently_have_different_digests():
    one, two = {"kind": "category"}, {"kind": "number", "knots": [0, 1]}
    fields = [
        {"a": one, "b": two}, {"b": two, "a": one}, {"a": one}, {"c": one, "b": two},
        {"a": one | {"weight": 2.0}, "b": two}, {"a": one, "b": two | {"weight": 2.0}},
        {"a": one | {"buckets": 15}, "b": two}, {"a": one, "b": two | {"knots": [0, 2]}},
        {"a": one | {"kind": "set"}, "b": two}, {"a": levels("x", "y"), "b": two},
        {"a": levels("y", "x"), "b": two},
    ]  # fmt: skip
    cross, other = ["context.c", "arm.a"], ["arm.a", "arm.b"]
    crosses: list[Schema] = [
        {"pairs": [cross]}, {"pairs": [cross[::-1]]}, {"pairs": [cross, other]},
        {"pairs": [other, cross]}, {"pairs": [cross], "budget": 20},
    ]  # fmt: skip
    schemas = [{"version": 1, "context": {"c": one}, "arm": arm} for arm in fields]
    schemas += [schemas[0] | {"crosses": each} for each in crosses]
    schemas += [schemas[-1] | {"context": {"c": levels("x", "y")}}]
    made = [from_toml(schema) for schema in schemas]
    assert len({features.digest for features in made}) == len(schemas)
    for a, b in combinations(made, 2):
        assert a != b
