"""Federations on a simulated clock, closed at the end of a test."""

from __future__ import annotations

import pytest

from tests.federation.helpers.lossy_network import joined


@pytest.fixture
def join(tmp_path):
    """Return a function that makes federations whose agents have joined; see `joined`."""
    made = []

    def make(**more):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(joined(folder, **more))
        return made[-1]

    yield make
    for running in made:
        running.close()


@pytest.fixture
def running(join):
    return join()
