"""The former name of `Conversion`, as long as federations import it."""

from fedglb.environments.datasets.conversion import Conversion as FeatureMap

__all__ = ["FeatureMap"]
