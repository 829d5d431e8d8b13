"""Errors of the data half; each message says what, where, and what to do."""


class StoreError(RuntimeError):
    """A store is incomplete, truncated, altered, or of another version."""


class PackError(RuntimeError):
    """Packing cannot go on: bad settings, a full disk, a source that cannot be read."""


class SampleError(RuntimeError):
    """One sample cannot be read or decoded; the message names it and where it came from."""


class LoaderError(RuntimeError):
    """The loader itself failed: a process of it was killed, or it has no memory."""


class MissingPackageError(ImportError):
    """A package that this part needs is not installed."""


DATA_ERRORS = (StoreError, PackError, SampleError, LoaderError, MissingPackageError)
