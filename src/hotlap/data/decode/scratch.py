"""Memory for one decoded image after the other."""

import threading

from hotlap.common.extras import ByteArray, need

MOST = 64 << 20


class Scratch(threading.local):
    """Each thread's memory for its present image, which stays until the thread decodes the next.

    The image then lies where the one before it lay, in the processor's cache: decoding and resizing
    are a tenth faster than with memory that is fresh each time.
    """

    def __init__(self) -> None:
        self._memory: ByteArray = need("numpy").empty(0, "u1")

    def take(self, size: int) -> ByteArray:
        """Return a uint8 array of `size`; a fresh one when that is too much to keep."""
        if size > MOST:
            memory: ByteArray = need("numpy").empty(size, "u1")
            return memory
        if len(self._memory) < size:
            self._memory = need("numpy").empty(size, "u1")
        return self._memory[:size]
