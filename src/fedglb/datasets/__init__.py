"""Real data: where it comes from, how it is read, and the way from its columns to arms."""

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
