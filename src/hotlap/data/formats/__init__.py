"""Other formats, each through its own library: to compare them on a user's own samples."""

from hotlap.data.formats.known import FORMATS as FORMATS
from hotlap.data.formats.known import Format as Format
