"""Threads around kernels: everything is done once, in whatever number of threads."""

from __future__ import annotations

import itertools
import threading

import pytest

from fedglb.kernels import threads


@pytest.mark.parametrize("count", ["1", "2", "3", "50"])
def test_each_item_is_done_once(monkeypatch, count):
    monkeypatch.setenv("NUMBA_NUM_THREADS", count)
    done = []
    threads.each(done.append, range(20))
    assert sorted(done) == [*range(20)]
    threads.each(done.append, [])
    assert len(done) == 20


def test_two_items_run_at_the_same_time(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    both = threading.Barrier(2, timeout=300.0)
    threads.each(lambda _: both.wait() and None, range(2))  # would break if one had to end first


@pytest.mark.parametrize("count", ["1", "2"])
def test_an_error_is_raised(monkeypatch, count):
    monkeypatch.setenv("NUMBA_NUM_THREADS", count)

    def fail(item):
        if item == 2:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 2"):
        threads.each(fail, range(4))


def test_clients_are_divided_without_gap_or_overlap_and_little_work_is_not(monkeypatch):
    monkeypatch.setattr(threads, "_LEAST_NUMBERS", 1)
    for clients, count in itertools.product([1, 2, 7, 30], [1, 2, 3, 8]):
        monkeypatch.setenv("NUMBA_NUM_THREADS", str(count))
        ranges = []
        threads.in_ranges(lambda begin, end, to=ranges: to.append((begin, end)), clients, 10**6)
        assert len(ranges) == min(count, clients)
        assert sorted(i for begin, end in ranges for i in range(begin, end)) == [*range(clients)]
    monkeypatch.undo()
    little = []
    threads.in_ranges(lambda begin, end: little.append((begin, end)), 7, 1000)
    assert little == [(0, 7)]


def test_what_is_told_is_taken_and_nonsense_is_not(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert threads.threads() == 3
    for told in ("0", "", "many"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", told)
        assert threads.threads() >= 1
