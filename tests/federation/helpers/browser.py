"""A real Chromium for tests: the system's own, or Playwright's, or the test is skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
MISSING = "no Chromium: `apt-get install chromium`, or name one in CHROMIUM"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; it needs no screen."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        own = started.chromium.executable_path
        found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), own)
        if not Path(found).exists():
            pytest.skip(MISSING)
        browser = started.chromium.launch(executable_path=found, args=list(_OPTIONS))
        try:
            yield browser
        finally:
            browser.close()
