"""Packing: any source of samples into one store."""

from hotlap.data.pack.run import pack as pack
from hotlap.data.pack.settings import Settings as Settings
