"""The formats that are compared, in the order they are shown where they take the same time."""

from hotlap.data.formats.arrays import NPY, PTH
from hotlap.data.formats.databases import HDF5, LMDB, TFRECORD
from hotlap.data.formats.files import FILES, TAR, WEBDATASET
from hotlap.data.formats.tables import ARROW, PARQUET

FORMATS = (FILES, TAR, WEBDATASET, LMDB, HDF5, TFRECORD, ARROW, PARQUET, NPY, PTH)
