"""Errors of the data half; each message says what, where, and what to do."""

from hotlap.common.extras import MissingPackageError


class StoreError(RuntimeError):
    """A store is incomplete, truncated, altered, or of another version."""


class PackError(RuntimeError):
    """Packing cannot go on: bad settings, a full disk, a source that cannot be read."""


class SampleError(RuntimeError):
    """One sample cannot be read or decoded; the message names it and where it came from."""


class LoaderError(RuntimeError):
    """The loader itself failed: a process of it was killed, or it has no memory."""


__all__ = [
    "DATA_ERRORS",
    "LoaderError",
    "MissingPackageError",
    "PackError",
    "SampleError",
    "StoreError",
]

DATA_ERRORS = (StoreError, PackError, SampleError, LoaderError, MissingPackageError)
