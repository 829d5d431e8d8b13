"""Amounts in words: times, memory, numbers of things."""

MEMORY_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def duration(seconds: float) -> str:
    """A time span for reading: `420 us`, `14.2 ms`, `3.1 s`, `2 min 5 s`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def several(number: int, noun: str) -> str:
    """A number of things, `1 pair` or `3 pairs`."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


def size(found: int) -> str:
    """An amount of memory (bytes), `1.4 MiB`."""
    return next(
        (f"{found / unit:.1f} {name}" for unit, name in MEMORY_UNITS if found >= unit), f"{found} B"
    )
