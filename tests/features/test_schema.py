"""Schemas: what is refused and where, their file, their digest, their problem."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg

SCHEMA = fg.Features(
    context={
        "country": fg.Category(buckets=4),
        "age": fg.Number([18, 25.5, 65]),
        "time of day": fg.Category(["am", "pm"]),
    },
    arm={
        "kind": fg.Category(["shoes", "books"], weight=0.5),
        "price": fg.Number([-1e-9, 5, 1e300]),
        "tags": fg.Tags(buckets=3, weight=2.0),
        "labels": fg.Tags(['"', "é\n", ""]),
    },
    crosses=[
        ("context.country", "arm.kind"),
        ("arm.price", "context.age"),
        ("arm.tags", "arm.kind"),
    ],
    budget=16,
)

CATEGORY = 'version = 1\n[arm.a]\nkind = "category"\n'
NUMBER = 'version = 1\n[arm.a]\nkind = "number"\n'
CROSSES = """
version = 1
[arm.a]
kind = "category"
[arm.b]
kind = "category"
[context.u]
kind = "category"
[context.v]
kind = "category"
[crosses]
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = \n", "text = 'version = .n': expected TOML without mistakes: .*line 1"),
        ('[arm.a]\nkind = "set"\n', "version = None: expected a value: the key is missing"),
        (CATEGORY.replace("= 1", "= 2", 1), "version = 2: expected 1"),
        (CATEGORY.replace("= 1", '= "1"', 1), "version = '1': expected a whole number"),
        ("version = 1\n", "arm = None: expected a value: the key is missing"),
        ("version = 1\n[arm]\n", "arm = {}: expected fields by name"),
        ("version = 1\narm = 3\n", "arm = 3: expected a table"),
        ("version = 1\n[arm]\na = 3\n", r"arm\.a = 3: expected a table"),
        (CATEGORY + "[arms.b]\n", "arms = .*one of version, arm, .*did you mean arm"),
        (CATEGORY + "[contxt.b]\n", "contxt = .*did you mean context"),
        ('version = 1\n[arm."a=b"]\nkind = "set"\n', "name of a field in arm = 'a=b': "),
        ('version = 1\n[arm.""]\nkind = "set"\n', "name of a field in arm = ''"),
        (CATEGORY + '[context."a#"]\nkind = "set"\n', "name of a field in context = 'a#'"),
        # fields
        ("version = 1\n[arm.a]\nlevels = []\n", r"arm\.a\.kind = None: expected a value"),
        (CATEGORY.replace("cat", "kat"), r"arm\.a\.kind = 'kategory': .*did you mean category"),
        (CATEGORY + '[context.c]\nkind = "x"\n', r"context\.c\.kind = 'x': expected one of"),
        (CATEGORY + 'level = ["a"]\n', r"arm\.a\.level = \['a'\]: .*did you mean levels"),
        (CATEGORY + "levels = []\n", r"arm\.a\.levels = \[\]: expected a list of different texts"),
        (CATEGORY + 'levels = ["x", "x"]\n', r"arm\.a\.levels = \['x', 'x'\]: .*different texts"),
        (CATEGORY + 'levels = ["x", 1]\n', r"arm\.a\.levels\[1\] = 1: expected text in quotes"),
        (CATEGORY + 'levels = "x"\n', r"arm\.a\.levels = 'x': expected a list"),
        (CATEGORY + 'levels = ["(other)"]\n', r"arm\.a\.levels = .*without '\(other\)'"),
        (CATEGORY + 'levels = ["(missing)"]\n', r"arm\.a\.levels = .*without .*'\(missing\)'"),
        (CATEGORY + 'levels = ["x"]\nbuckets = 3\n', r"arm\.a\.buckets = 3: expected None where"),
        (CATEGORY + "buckets = 0\n", r"arm\.a\.buckets = 0: expected a whole number >= 1"),
        (CATEGORY + "buckets = 1048577\n", r"arm\.a\.buckets = 1048577: .*<= 1048576"),
        (CATEGORY + "buckets = 2.5\n", r"arm\.a\.buckets = 2.5: expected a whole number"),
        (CATEGORY + "knots = [1, 2]\n", r"arm\.a\.knots = .*none with kind = \"category\""),
        (CATEGORY + "weight = 0\n", r"arm\.a\.weight = 0.0: expected a finite number > 0"),
        (CATEGORY + "weight = -1.5\n", r"arm\.a\.weight = -1.5: expected a finite number > 0"),
        (CATEGORY + "weight = inf\n", r"arm\.a\.weight = inf: expected a finite number > 0"),
        (CATEGORY + 'weight = "2"\n', r"arm\.a\.weight = '2': expected a number"),
        (NUMBER, r"arm\.a\.knots = \(\): expected a list of at least two"),
        (NUMBER + "knots = [1]\n", r"arm\.a\.knots = \[1.0\]: expected a list of at least two"),
        (NUMBER + 'knots = [1, "2"]\n', r"arm\.a\.knots\[1\] = '2': expected a number"),
        (NUMBER + "knots = [1, true]\n", r"arm\.a\.knots\[1\] = True: expected a number"),
        (NUMBER + "knots = [nan, 1]\n", r"arm\.a\.knots\[0\] = nan: expected a finite number"),
        (NUMBER + "knots = [1, inf]\n", r"arm\.a\.knots\[1\] = inf: expected a finite number"),
        (NUMBER + "knots = [2, 1]\n", r"arm\.a\.knots = .*expected increasing numbers"),
        (NUMBER + "knots = [1, 1.0]\n", r"arm\.a\.knots = .*expected increasing numbers"),
        (NUMBER + "knots = [-1.7e308, 1.7e308]\n", r"arm\.a\.knots = .*with a finite range"),
        (NUMBER + 'knots = [1, 2]\nlevels = ["x"]\n', r"arm\.a\.levels = .*none with kind = "),
        (NUMBER + "knots = [1, 2]\nbuckets = 3\n", r"arm\.a\.buckets = 3: .*none with kind"),
        # crosses
        (CROSSES + "pair = []\n", r"crosses\.pair = \[\]: .*did you mean pairs"),
        (CROSSES + "budget = 0\n", r"crosses\.budget = 0: expected a whole number >= 1"),
        (CROSSES + 'budget = "a"\n', r"crosses\.budget = 'a': expected a whole number"),
        (CROSSES + 'pairs = ["arm.a"]\n', r"crosses\.pairs\[0\] = 'arm.a': expected a list"),
        (CROSSES + 'pairs = [["arm.a"]]\n', r"crosses\.pairs\[0\] = \('arm.a',\): .*two different"),
        (CROSSES + 'pairs = [["arm.a", "arm.a"]]\n', r"crosses\.pairs\[0\] = .*two different"),
        (CROSSES + 'pairs = [["arm.a", 1]]\n', r"crosses\.pairs\[0\]\[1\] = 1: expected text"),
        (
            CROSSES + 'pairs = [["arm.a", "arm.b"], ["arm.a", "context.w"]]\n',
            r"crosses\.pairs\[1\] = 'context.w': expected one of context.u, context.v, arm.a, ",
        ),
        (
            CROSSES + 'pairs = [["context.u", "context.v"]]\n',
            r"crosses\.pairs\[0\] = .*expected at least one field of the arm",
        ),
        (
            CROSSES + 'pairs = [["arm.a", "context.u"], ["context.u", "arm.a"]]\n',
            r"crosses\.pairs\[1\] = .*expected each pair once",
        ),
    ],
    ids=range(53),
)  # fmt: skip
def test_a_file_that_is_no_schema(text, said, tmp_path):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.Features.from_toml(text)
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(fg.InvalidInput) as refused:
        fg.Features.read(path)
    assert str(path) in str(refused.value)


FIELDS = {"a": fg.Category(), "b": fg.Category()}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fg.Features({}), "arm = {}: expected fields by name"),
        (lambda: fg.Features([fg.Category()]), "arm = .*expected fields by name"),
        (lambda: fg.Features({"a": "category"}), r"arm\.a = 'category': expected a field"),
        (lambda: fg.Features({"a": fg.Category}), r"arm\.a = .*expected a field"),
        (lambda: fg.Features({1: fg.Category()}), "name of a field in arm = 1"),
        (lambda: fg.Features(FIELDS, {"c": 3}), r"context\.c = 3: expected a field"),
        (lambda: fg.Features(FIELDS, 3), "context = 3: expected fields by name"),
        (lambda: fg.Features(FIELDS, crosses=3), "crosses = 3: expected a list of pairs"),
        (lambda: fg.Features(FIELDS, crosses=None), "crosses = None: expected a list of pairs"),
        (lambda: fg.Features(FIELDS, crosses="ab"), "crosses = 'ab': expected a list of pairs"),
        (lambda: fg.Features(FIELDS, crosses=["ab"]), r"crosses\[0\] = 'ab': expected two "),
        (lambda: fg.Features(FIELDS, crosses=[("a", "b")]), r"crosses\[0\] = 'a': .*one of arm.a"),
        (lambda: fg.Features(FIELDS, budget=1.5), "budget = 1.5: expected a whole number"),
        (lambda: fg.Category("abc"), "levels = 'abc': expected a list"),
        (lambda: fg.Category(buckets=True), "buckets = True: expected a whole number"),
        (lambda: fg.Category(weight=math.nan), "weight = nan: expected a finite number > 0"),
        (lambda: fg.Number([10**400, 1]), r"knots\[0\] = .*expected a finite number"),
        (lambda: fg.Number(5), "knots = 5: expected a list of at least two"),
        (lambda: fg.Number([1, 2], weight=0), "weight = 0: expected a finite number > 0"),
        (lambda: SCHEMA.problem(radius=-1.0), "radius = -1.0"),
    ],
    ids=range(20),
)  # fmt: skip
def test_arguments_that_make_no_schema(make, said):
    with pytest.raises(fg.InvalidInput, match=said):
        make()


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(fg.InvalidInput, match=r"features = .*no such file"):
        fg.Features.read(tmp_path / "none.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff")
    with pytest.raises(fg.InvalidInput, match=r"features = .*UTF-8"):
        fg.Features.read(tmp_path / "x.toml")


# -- the file ------------------------------------------------------------------------------------


def test_toml_and_back_is_exact(tmp_path):
    path = tmp_path / "features.toml"
    path.write_text(SCHEMA.to_toml(), encoding="utf-8")
    plain = fg.Features.from_plain(SCHEMA.plain())
    for other in (fg.Features.from_toml(SCHEMA.to_toml()), fg.Features.read(path), plain):
        assert other == SCHEMA
        assert (other.digest, other.names, other.blocks) == (
            SCHEMA.digest, SCHEMA.names, SCHEMA.blocks,
        )  # fmt: skip
        assert list(other.arm) == list(SCHEMA.arm)  # their order is the arm's
        assert isinstance(other.arm["tags"], fg.Tags)
        arms = [{"kind": "books", "price": 3, "tags": ["x"], "labels": ["", "no"]}, {}]
        context = {"country": "de", "age": 30}
        np.testing.assert_array_equal(other.encode(arms, context), SCHEMA.encode(arms, context))


def test_the_shortest_file():
    features = fg.Features.from_toml(CATEGORY)
    assert features == fg.Features(arm={"a": fg.Category(buckets=16)})
    assert (features.dim, features.blocks, features.budget) == (18, (1, 17), 256)


def test_a_file_written_by_hand():
    features = fg.Features.from_toml(
        """
        version = 1
        [arm]
        price = {kind = "number", knots = [5, 50]}
        [arm.tags]
        kind = "set"
        levels = ["new"]
        weight = 2
        [crosses]
        pairs = [["arm.tags", "arm.price"]]
        """
    )
    expected = fg.Features(
        arm={"price": fg.Number([5.0, 50.0]), "tags": fg.Tags(("new",), weight=2.0)},
        crosses=[["arm.tags", "arm.price"]],
    )
    assert features == expected
    assert features.digest == expected.digest
    assert features.names[7:9] == (
        "arm.tags=new * arm.price@5", "arm.tags=new * arm.price@50",
    )  # fmt: skip


# -- the digest ----------------------------------------------------------------------------------


def arm(**changed):
    return {"arm": {**SCHEMA.arm, **changed}}


def context(**changed):
    return {"context": {**SCHEMA.context, **changed}}


CHANGES = [
    arm(kind=fg.Category(["shoes", "toys"], weight=0.5)),
    arm(kind=fg.Category(["books", "shoes"], weight=0.5)),
    arm(kind=fg.Category(["shoes", "books", "toys"], weight=0.5)),
    arm(kind=fg.Category(["shoes", "books"], weight=math.nextafter(0.5, 1.0))),
    arm(kind=fg.Category(weight=0.5)),
    arm(price=fg.Number([-1e-9, 5])),
    arm(price=fg.Number([-1e-9, math.nextafter(5.0, 6.0), 1e300])),
    arm(tags=fg.Tags(buckets=4, weight=2.0)),
    arm(more=fg.Number([0, 1])),
    {"arm": {("product" if k == "labels" else k): v for k, v in SCHEMA.arm.items()}},
    {"arm": dict(reversed(SCHEMA.arm.items()))},
    context(country=fg.Category(buckets=5)),
    context(age=fg.Number([18, 25.5, 66])),
    {"crosses": SCHEMA.crosses[:2]},
    {"crosses": [*SCHEMA.crosses, ("context.age", "arm.kind")]},
    {"crosses": SCHEMA.crosses[::-1]},
    {"crosses": [("arm.kind", "context.country"), *SCHEMA.crosses[1:]]},
    {"budget": 15},
    {"budget": 17},
]  # fmt: skip
ARMS = [
    {"kind": "shoes", "price": 2.5, "tags": ["new", "red"], "labels": ["é\n"], "more": 0.3},
    {"kind": "books", "price": 700, "tags": ["old"], "labels": ['"', "x"]},
    {"kind": "toys", "price": None},
    {},
]
CONTEXTS = [{"country": f"c{k}", "age": 18 + 7 * k, "time of day": "am"} for k in range(8)]


def arms_of(features):
    return np.vstack([features.encode(ARMS, each) for each in CONTEXTS])


@pytest.mark.parametrize("changed", CHANGES, ids=range(len(CHANGES)))
def test_a_change_of_the_encoding_or_of_names_changes_the_digest(changed):
    other = replace(SCHEMA, **changed)
    arms = arms_of(SCHEMA), arms_of(other)
    same = arms[0].shape == arms[1].shape and np.array_equal(*arms)
    assert not same or other.names != SCHEMA.names  # else the change is none
    assert other.digest != SCHEMA.digest


def test_all_changes_have_different_digests():
    digests = {replace(SCHEMA, **changed).digest for changed in CHANGES}
    assert len(digests) == len(CHANGES)


def test_a_set_is_no_category():
    for given in ({"levels": ["x"]}, {"buckets": 3}):
        one, other = (fg.Features({"a": kind(**given)}) for kind in (fg.Category, fg.Tags))
        assert one.digest != other.digest
        assert one != other


def test_spelling_changes_no_digest():
    same = [
        ({"a": fg.Category()}, {"a": fg.Category(buckets=16, weight=1)}),
        ({"a": fg.Category(["x"])}, {"a": fg.Category(("x",), None, 1.0)}),
        ({"a": fg.Number([0, 1])}, {"a": fg.Number((-0.0, 1.0))}),
        ({"a": fg.Number([0, 1], 2)}, {"a": fg.Number([0, np.float64(1)], 2.0)}),
    ]
    for one, other in same:
        assert fg.Features(one).digest == fg.Features(other).digest


def test_the_digest_is_the_same_everywhere():
    schema = fg.Features(
        context={"u": fg.Category()},
        arm={"p": fg.Number([0, 0.5]), "é": fg.Tags(["x"])},
        crosses=[("context.u", "arm.p")],
    )
    text = (
        '{"version":1,"context":{"u":{"kind":"category","buckets":16}},'
        '"arm":{"p":{"kind":"number","knots":[0.0,0.5]},'
        '"\\u00e9":{"kind":"set","levels":["x"]}},'
        '"crosses":{"pairs":[["context.u","arm.p"]],"budget":256}}'
    )
    assert schema.digest == hashlib.sha256(text.encode()).hexdigest()


# -- sizes and the problem -----------------------------------------------------------------------


def test_blocks_and_names():
    # kind 2 + 2, price 3 + 1, tags 3 + 1, labels 3 + 2; crosses 5 * 4 > 16, 4 * 4 = 16, 4 * 4
    assert SCHEMA.blocks == (1, 4, 4, 4, 5, 16, 16, 16)
    assert [cross.hashed for cross in SCHEMA.cross_blocks] == [True, False, False]
    assert SCHEMA.dim == len(SCHEMA.names) == len(set(SCHEMA.names)) == 66
    assert SCHEMA.names[:6] == (
        "constant", "arm.kind=shoes", "arm.kind=books", "arm.kind=(other)", "arm.kind=(missing)",
        "arm.price@-1e-09",
    )  # fmt: skip
    assert SCHEMA.names[18] == "context.country*arm.kind#0"
    assert SCHEMA.names[34] == "arm.price@-1e-09 * context.age@18"
    assert SCHEMA.names[-1] == "arm.tags=(missing) * arm.kind=(missing)"


def test_the_problem_has_the_blocks():
    problem = SCHEMA.problem()
    assert (problem.dim, problem.blocks) == (SCHEMA.dim, SCHEMA.blocks)
    assert (problem.link, problem.radius) == (fg.Logistic(), 1.0)
    given = SCHEMA.problem(fg.Identity(), radius=2.0, noise=0.5)
    expected = fg.Problem(SCHEMA.dim, fg.Identity(), 2.0, 0.5, blocks=SCHEMA.blocks)
    assert given == expected
