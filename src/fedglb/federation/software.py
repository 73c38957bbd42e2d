"""What agents say they are, for the coordinator's log."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    SOFTWARE = f"fedglb {version('fedglb')}"
except PackageNotFoundError:  # run from a checkout that is not installed
    SOFTWARE = "fedglb"
