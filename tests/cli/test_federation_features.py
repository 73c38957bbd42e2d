"""`fedglb federation features`: what it says, and what it refuses with one clear error."""

from __future__ import annotations

import json

import pytest

from fedglb.federation.bundle import Bundle
from tests.cli.in_process import federation
from tests.federation.helpers.shop import NEW, OLD
from tests.federation.operator.test_operator import files


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "new.toml"
    path.write_text(NEW.to_toml())
    return path


def made(tmp_path, *options):
    folder, path = tmp_path / "demo", tmp_path / "old.toml"
    path.write_text(OLD.to_toml())
    given = options or ("--features", path)
    clients = ["--clients", "shop-1,shop-2,shop-3"]
    out = federation("init", folder, "--name", "demo", *clients, *given)
    assert out.returncode == 0, out.stderr
    return folder


def test_it_says_what_has_changed(tmp_path, schema):
    folder = made(tmp_path)
    out = federation("features", folder, schema, "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout) == {"revision": 2, "changed": True, "dim": NEW.dim}
    assert Bundle.read(folder / "clients" / "shop-2").agreement.features == NEW
    assert Bundle.read(folder / "coordinator").agreement.revision == 2
    out = federation("features", folder, schema)
    assert out.stdout == "Schema 2 is this one already; the members' folders have it.\n"
    schema.write_text(OLD.to_toml())
    out = federation("features", folder, schema)
    assert f"Schema 3, {OLD.dim} features" in out.stdout
    assert out.stderr == ""


SCHEDULE = ["--updates", "5", "--first", "1h", "--growth", "1.3", "--algorithm", "fedglb-private"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dim", "3"], "this one was made with --dim"),
        (["--features", "OLD", *SCHEDULE], "each sample is sent once"),
        (
            ["--features", "OLD", *SCHEDULE, "--epsilon", "1", "--delta", "1e-6"],
            "each sample is sent once",
        ),
        (
            ["--features", "OLD", *SCHEDULE, "--secure-sums", "--minimum", "3"],
            "each sample is sent once",
        ),
    ],
    ids=["vectors", "one pass", "private", "secure sums"],
)
def test_what_cannot_change_is_one_clear_error(tmp_path, schema, options, said):
    old = tmp_path / "old.toml"
    old.write_text(OLD.to_toml())
    folder = made(tmp_path, *(old if word == "OLD" else word for word in options))
    before = files(folder)
    out = federation("features", folder, schema)
    assert out.returncode == 2
    assert said in out.stderr
    assert (len(out.stderr.splitlines()), out.stdout) == (1, "")
    assert files(folder) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 1\n[arm.price]\nkind = 'numbr'\n", "arm.price.kind = 'numbr'"),
        ("version = 1\n[arm.price\n", "new.toml"),
        ("", "new.toml"),
        ("version = 9\n[arm.a]\nkind = 'category'\n", "version"),
        ("version = 1\n[arm.a]\nkind = 'category'\nbuckets = 5000\n", "dim = 5002"),
        ("version = 1\n[arm.a]\nkind = 'category'\nbuckets = 900\n", "effects"),
        (None, "new.toml"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_clear_error(tmp_path, schema, text, said):
    folder = made(tmp_path)
    if text is None:
        schema.unlink()
    else:
        schema.write_text(text)
    before = files(folder)
    out = federation("features", folder, schema)
    assert out.returncode == 2, out.stdout
    assert said in out.stderr
    assert (len(out.stderr.splitlines()), out.stdout) == (1, "")
    assert files(folder) == before


def test_a_folder_that_holds_no_federation(tmp_path, schema):
    out = federation("features", tmp_path / "nowhere", schema)
    assert out.returncode == 2
    assert "FOLDER = " in out.stderr
    assert len(out.stderr.splitlines()) == 1
