"""Other formats, each through its own library: to compare them on a user's own samples."""

from hotlap.data.formats.base import Format as Format
from hotlap.data.formats.compare import FORMATS as FORMATS
