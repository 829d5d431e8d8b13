"""The loader: batches in an order of its own, read ahead by threads or processes."""

from hotlap.data.loader.loader import Loader as Loader
