"""Real data: fetching it, reading it, and making arms of its columns."""

from fedglb.datasets.feature_map import FeatureMap
from fedglb.datasets.fetch import DataUnavailable, Progress, fetch, find
from fedglb.datasets.registry import DATASETS, Dataset
from fedglb.datasets.table import Table, load

__all__ = [
    "DATASETS",
    "DataUnavailable",
    "Dataset",
    "FeatureMap",
    "Progress",
    "Table",
    "fetch",
    "find",
    "load",
]
