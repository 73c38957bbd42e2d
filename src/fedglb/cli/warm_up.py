"""`fedglb warm-up`: compile all kernels now, so that no later process has to."""

from __future__ import annotations

from pathlib import Path

from fedglb.cli.common import Json, console, print_json
from fedglb.cli.progress import progress
from fedglb.errors import InvalidInput
from fedglb.kernels.cache import cache, counts


def warm_up(as_json: Json = False) -> None:
    """Compile all kernels that are not compiled yet; print the cache folder.

    Run once per machine and user, or once in an image: then applications start without compiling.
    The cache folder is NUMBA_CACHE_DIR, or else a folder in the user's cache folder.

    Example: NUMBA_CACHE_DIR=/opt/kernels fedglb warm-up
    """
    place = cache()
    if place.obstacle is not None:
        allowed = "a folder that this user can write to"
        raise InvalidInput("NUMBA_CACHE_DIR", place.folder, allowed)
    from fedglb.warm_up import runs, warm_up

    with progress("compiling", len(runs()), "30 to 90 s") as tell:
        warm_up(tell)
    size = sum(path.stat().st_size for path in Path(place.folder).rglob("*") if path.is_file())
    new, known = counts.compiled, counts.loaded
    if as_json:
        print_json({"folder": place.folder, "compiled": new, "already": known, "bytes": size})
        return
    what = f"compiled {new} kernels, {known} exist already" if new else "all are there"
    console().print(f"{what} ({new + known} in all)")
    console().print(f"The kernels: {place.folder} ({size / 1e6:.1f} MB)")
