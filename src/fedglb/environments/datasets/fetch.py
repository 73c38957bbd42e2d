"""Raw files of data sets, from the user's folder, the cache or the network; all are checked."""

from __future__ import annotations

import gzip
import lzma
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fedglb.environments.datasets.download import NoAnswer, download
from fedglb.environments.datasets.registry import DATASETS, Dataset
from fedglb.errors import one_of
from fedglb.io.atomic import atomic_write, checksum, remove_unfinished, user_cache

#: The environment variable that names the user's own folder of raw files.
FOLDER_VARIABLE = "FEDGLB_DATA"

Progress = Callable[[str], None]
_HOUR = 3600.0


class DataUnavailable(Exception):
    """A data set that was found nowhere; the message says what was tried and what to do.

    Examples
    --------
    >>> import fedglb as fg
    >>> try:  # doctest: +SKIP
    ...     table = fg.load_table("magic")
    ... except fg.DataUnavailable as error:
    ...     print(error)
    """


def fetch(name: str, progress: Progress | None = None, refresh: bool = False) -> Path:
    """Return the path of a data set's raw file; it is downloaded if it is not on this machine.

    The first place is the folder that the environment variable FEDGLB_DATA names (the file may
    be compressed there, .xz or .gz), the second is the package's cache folder; then the sources
    on the network are tried in turn. A file must have the right SHA-256: another is refused, and
    the next place is tried. Nothing is ever written to the user's folder.

    Parameters
    ----------
    name
        "covertype", "magic" or "mushroom".
    progress
        Called with a line of text before anything that takes long, and when a file is refused;
        None: a refused file gives a warning.
    refresh
        Download it even if it is on this machine.

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    InvalidInput
        Where the name is not known.
    DataUnavailable
        Where no place has the file.
    """
    return locate(name, progress, refresh)[0]


def find(name: str, progress: Progress | None = None) -> Path | None:
    """Return the path of a data set's raw file on this machine, or None; nothing is downloaded.

    Parameters
    ----------
    name
        "covertype", "magic" or "mushroom".
    progress
        Called with a line of text when a file is refused; None: it gives a warning.

    Returns
    -------
    Path or None
        Where the file is.
    """
    found = _here(DATASETS[one_of("name", name, DATASETS)], progress)
    return None if found is None else found[0]


def locate(
    name: str, progress: Progress | None = None, refresh: bool = False
) -> tuple[Path, bytes]:
    """Return the path of the file as `fetch` does, and its content, uncompressed and checked."""
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
            _refuse(f"{path} is refused, it cannot be read: {error}", progress)
            continue
        found = checksum(content)
        if found == dataset.sha256:
            return path, content
        _refuse(
            f"{path} is refused, it is truncated or altered: its SHA-256 is {found}, "
            f"that of {dataset.file} is {dataset.sha256}",
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
                f"{source.title}: {dataset.file} with the SHA-256 {found} in place of "
                f"{dataset.sha256}"
            )
        tell(f"no {dataset.file} from {failures[-1]}")
    raise DataUnavailable(
        f"{dataset.title} cannot be downloaded: tried "
        + "; ".join(failures)
        + f". Put {dataset.file} (or {dataset.file}.xz or .gz) in a folder and name that folder "
        f"in the environment variable {FOLDER_VARIABLE}"
    )


def _kept(path: Path, content: bytes) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path.parent, older_than=_HOUR)
        atomic_write(path, content)
    except OSError as error:
        raise DataUnavailable(
            f"{path} cannot be written: {error.strerror or error}. Name a folder that can in the "
            f"environment variable XDG_CACHE_HOME, or one that has {path.name} in "
            f"{FOLDER_VARIABLE}"
        ) from error
    return path
