"""Reports without figures, for tests of what they say."""

from __future__ import annotations

import pytest

from tests.studies.report.made_study import undrawn


@pytest.fixture
def no_figures(monkeypatch):
    """Figures take most of the time of a report."""
    monkeypatch.setattr("fedglb.studies.report.report.drawn", undrawn)
