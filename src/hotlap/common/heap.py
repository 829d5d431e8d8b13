"""How much freed memory malloc keeps in the process instead of giving it back to the kernel."""

import ctypes
from collections.abc import Callable
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
THRESHOLD, MMAP_MAX = 128 * 1024, 65536  # what glibc begins with
MOST = 2**31 - 1
_kept = 0


def available() -> bool:
    """Whether this C library has thresholds to set."""
    return _mallopt() is not None


def keep_heap(size: int) -> bool:
    """Have malloc keep freed memory, up to `size` bytes at the heap's end, and map no block apart.

    glibc takes large blocks from the kernel one by one and gives them back when they are freed;
    the kernel clears each page anew when it is touched. A loop that allocates the same buffers in
    each step pays for that with page faults. Kept memory is this process's until it ends, and that
    of processes forked from it. What is freed below a block still in use is
    kept, however much it is. It does what `MALLOC_MMAP_MAX_=0` and `MALLOC_TRIM_THRESHOLD_`
    do before Python starts (mallopt(3)).

    Args:
        size: bytes, at most 2**31 - 1; 0 puts back the thresholds that glibc begins with, without
            their adapting.

    Returns:
        Whether malloc takes it: glibc's does, others have nothing to set.

    Raises:
        ValueError: `size` is negative or too large.
    """
    global _kept  # noqa: PLW0603 - malloc has no getter
    if not 0 <= size <= MOST:
        raise ValueError(f"size is {size}: give bytes from 0 to {MOST}")
    mallopt = _mallopt()
    if mallopt is None:
        return False
    _kept = size
    if not size:
        mallopt(M_MMAP_THRESHOLD, THRESHOLD)
    taken = mallopt(M_MMAP_MAX, 0 if size else MMAP_MAX)
    return bool(taken and mallopt(M_TRIM_THRESHOLD, size or THRESHOLD))


def heap_kept() -> int:
    """Bytes that `keep_heap` was last given in this process; 0 where it was not called."""
    return _kept


@cache
def _mallopt() -> Callable[[int, int], int] | None:
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return None
