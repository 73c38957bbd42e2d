"""Polars frames as pandas frames, where pandas is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

#: Columns in which a value can be missing: pandas has types for them, with `pd.NA`.
_NULLABLE = {"client": "Int64", "theta_star_inside": "boolean"}


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Return a frame as a pandas frame; `InvalidInput` where pandas is not installed.

    Polars' own `to_pandas` needs a third package, pyarrow.

    Examples
    --------
    >>> to_pandas(pl.DataFrame({"t": [1, 2], "regret": [0.5, 0.7]})).shape
    (2, 2)
    """
    try:
        import pandas as pd
    except ImportError:
        allowed = "this Python pandas (pip install pandas), or use the polars frames"
        raise InvalidInput("pandas", "not installed", allowed) from None
    made = {}
    for name in frame.columns:
        kind = _NULLABLE.get(name)
        column = frame[name]
        made[name] = column.to_numpy() if kind is None else pd.array(column.to_list(), dtype=kind)
    return pd.DataFrame(made)
