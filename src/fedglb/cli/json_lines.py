"""Lines of JSON (NDJSON), read one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput
from fedglb.io.json_names import RepeatedName, check_names, count_names

_SHOWN = 60  # characters of a line


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the content of each line that is not blank; raise for one without JSON.

    A name that occurs twice in an object is refused, too. An error about line 4 names ``line 4``:
    the caller adds the file.
    """
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file:
        for k, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                found = decode(line)
                check_names(line, count_names(found))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RepeatedName) as error:
                text = line.decode(errors="replace").strip()
                given = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
                raise InvalidInput(f"line {k}", given, f"a JSON object ({error})") from None
            yield k, found
