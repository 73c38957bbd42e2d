"""Real data sets: download, tables, and the studies' conversion of tables to arms."""

from fedglb.environments.datasets.fetch import DataUnavailable, Progress, fetch, find
from fedglb.environments.datasets.registry import DATASETS, Dataset
from fedglb.environments.datasets.table import Table, load

__all__ = [
    "DATASETS",
    "DataUnavailable",
    "Dataset",
    "Progress",
    "Table",
    "fetch",
    "find",
    "load",
]
