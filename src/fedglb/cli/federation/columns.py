"""Rows of text in columns, never wrapped: a terminal may do that, a script need not undo it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    r"""Return a line for each row.

    Examples
    --------
    >>> print(*columns([("name", "since"), ("shop-1", "2026")]), sep="\n")
    name    since
    shop-1  2026
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
