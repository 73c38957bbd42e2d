"""Whole files, also where two write one at a time."""

from __future__ import annotations

import os

from fedglb.io import atomic


def test_two_may_write_one_file_at_a_time(tmp_path, monkeypatch):
    path, fsync = tmp_path / "file", os.fsync

    def interrupted(handle):
        monkeypatch.setattr(os, "fsync", fsync)
        atomic.atomic_write(path, b"other")
        assert path.read_bytes() == b"other"
        fsync(handle)

    monkeypatch.setattr(os, "fsync", interrupted)
    atomic.atomic_write(path, b"one")
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["file"]


def test_only_old_rests_are_removed(tmp_path):
    old, new, file = (tmp_path / name for name in (".unfinished-a", ".unfinished-b", "file"))
    for path in (old, new, file):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    os.utime(file, (0, 0))
    atomic.remove_unfinished(tmp_path, older_than=60.0)
    assert sorted(tmp_path.iterdir()) == sorted([new, file])
    atomic.remove_unfinished(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert atomic.user_cache() == tmp_path / "fedglb"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert atomic.user_cache() == tmp_path / "home" / ".cache" / "fedglb"
