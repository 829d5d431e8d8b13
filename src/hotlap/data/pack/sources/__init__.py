"""Where samples come from: one file for each kind of source."""

from hotlap.data.pack.sources.arrays import Arrays as Arrays
from hotlap.data.pack.sources.base import Sample as Sample
from hotlap.data.pack.sources.base import Source as Source
from hotlap.data.pack.sources.dataset import MapDataset as MapDataset
from hotlap.data.pack.sources.detect import outside as outside
from hotlap.data.pack.sources.detect import source_of as source_of
from hotlap.data.pack.sources.folder import ImageFolder as ImageFolder
from hotlap.data.pack.sources.table import TableFiles as TableFiles
from hotlap.data.pack.sources.tar import TarShards as TarShards
from hotlap.data.pack.sources.tokens import TokenStream as TokenStream
