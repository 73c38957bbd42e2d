"""Records of an application as arms: the schema, its encoding, and a proposal from data."""

from fedglb.features.encode import Encoder
from fedglb.features.fields import Category, Number, Tags
from fedglb.features.schema import Features

__all__ = ["Category", "Encoder", "Features", "Number", "Tags"]
