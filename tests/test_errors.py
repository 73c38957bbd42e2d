"""Errors know their place: file, keys, indices; those who know more extend it."""

from __future__ import annotations

import pickle

import pytest

import fedglb as fg
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput, instance, relocated, under
from fedglb.federation.wire.codec import Malformed, OtherVersion


def test_a_place_is_extended_from_the_inside_out():
    with (
        pytest.raises(InvalidInput) as caught,
        under("algorithm", 2, source="x.toml"),
        under("threshold", 0),
    ):
        raise InvalidInput("from", -1.0, "a number > 0")
    error = caught.value
    assert error.path == ("algorithm", 2, "threshold", 0, "from")
    assert error.source == "x.toml"
    assert error.argument == "x.toml: algorithm[2].threshold[0].from"
    assert str(error) == f"{error.argument} = -1.0: expected a number > 0"


def test_a_name_with_dots_and_brackets_in_it_is_one_key():
    with pytest.raises(InvalidInput) as caught, under("table"):
        raise InvalidInput("a.b[1]", 0, "nothing")
    assert caught.value.path == ("table", "a.b[1]")


def test_the_outermost_file_holds():
    with pytest.raises(InvalidInput) as caught, under(source="given.toml"), under(source="inner"):
        raise InvalidInput("x", 0, "nothing")
    assert caught.value.argument == "given.toml: x"


def test_what_is_under_a_place_stays_what_it_was():
    with pytest.raises(OtherVersion) as caught, under("inbox", 3):
        raise OtherVersion(9)
    assert caught.value.version == 9
    assert caught.value.argument == "inbox[3].message"


def test_a_place_can_be_elsewhere_further_out():
    with (
        pytest.raises(InvalidInput) as caught,
        relocated(lambda path: ("search", *path)),
        under(source="x.toml"),
    ):
        raise InvalidInput(("seeds", 1), 0, "nothing")
    assert caught.value.argument == "x.toml: search.seeds[1]"


@pytest.mark.parametrize("error", [InvalidInput("x", 1, "2"), Malformed("why"), OtherVersion(2)])
def test_errors_pass_between_processes(error):
    with pytest.raises(InvalidInput), under("table", 1, source="x.toml"):
        raise error
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert again.args == error.args


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        (("seeds", 1), None, "--seeds[1]"),
        (("solver", "tolerance"), None, "--tolerance"),
        (("solver",), None, "--solver"),
        (("--seeds",), None, "--seeds"),
        (("seeds", 1), "x.toml", "x.toml: seeds[1]"),
    ],
)
def test_an_argument_is_called_by_its_option_and_a_key_of_a_file_by_its_key(path, source, expected):
    names = {name: f"--{name}" for name in ("seeds", "solver", "tolerance")}
    with pytest.raises(InvalidInput) as caught, report_errors(**names), under(source=source):
        raise InvalidInput(path, 0, "nothing")
    assert caught.value.argument == expected


def test_a_kind_has_its_article():
    with pytest.raises(InvalidInput, match="expected an Algorithm, e"):
        instance("algorithm", 1, fg.Algorithm, "fg.n_ons_glm()")
    with pytest.raises(InvalidInput, match="expected a Problem, e"):
        instance("problem", 1, fg.Problem, "fg.Problem(dim=10)")
