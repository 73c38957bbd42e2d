"""HTML pages from templates. Pages load nothing from other hosts and cannot be framed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def clock(at: float | None) -> str:
    """Return a time in this machine's time zone, without the date if it is today's."""
    if at is None:
        return ""
    moment = time.localtime(at)
    today = moment[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", moment)


def day(at: float | None) -> str:
    """Return a date."""
    return "" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def size(value: float) -> str:
    """Return a number of bytes.

    >>> size(999), size(58_512)
    ('999 B', '58.5 kB')
    """
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} GB"


def duration(seconds: float) -> str:
    """Return a short duration.

    >>> duration(0.0123), duration(5.25)
    ('12 ms', '5.2 s')
    """
    return f"{1e3 * seconds:.0f} ms" if seconds < 1.0 else f"{seconds:,.1f} s"


def commas(value: int | None) -> str:
    """Return a number.

    >>> commas(58_512), commas(None)
    ('58,512', 'unknown')
    """
    return "unknown" if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """Return a share; nothing, if it is unknown."""
    return "" if value is None else f"{value:.1%}"


def field(value: object) -> str:
    """Return a field of a status."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):  # the privacy
        return ", ".join(f"{name} {field(part)}" for name, part in value.items())
    return "none" if value is None else str(value)


TEMPLATES = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.filters |= {
    "clock": clock, "day": day, "size": size, "duration": duration, "field": field,
    "pretty": partial(json.dumps, indent=1, ensure_ascii=False), "commas": commas,
    "percent": percent, "short": "{:.3g}".format,
}  # fmt: skip


async def static_file(request: Request) -> Response:
    """Answer `GET /page.css` and the other static files."""
    name = request.url.path.removeprefix("/")
    return Response(_content(name), media_type=_KINDS[Path(name).suffix])


@cache
def _content(name: str) -> bytes:
    return (_FOLDER / "static" / name).read_bytes()


def security_headers(sources: str) -> dict[str, str]:
    """Return the headers of a page that may load only from these sources."""
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'; "
    return {
        "Content-Security-Policy": policy + "frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
