"""Memory that batches are written into once, lent out without a copy, and used again.

The user's tensors lie in it. When the last of them is gone, its storage lets go of the array that
stands for the loan, and the memory is free again. No count is kept that could go wrong.
"""

import errno
import mmap
import os
import weakref
from collections import deque
from pathlib import Path

import torch

from hotlap.common.extras import Array, ByteArray, need
from hotlap.data.errors import LoaderError

ALIGNED = 64


class Space:
    """A buffer being filled with arrays one after the other; without one, each is fresh."""

    def __init__(self, memory: ByteArray | None = None, *, pinned: bool = False) -> None:
        self.memory: ByteArray = need("numpy").empty(0, "u1") if memory is None else memory
        self._pinned = pinned
        self._used = 0

    def take(self, shape: tuple[int, ...], dtype: object) -> Array:
        """Return an array of the buffer, or a fresh one when the buffer is full."""
        numpy = need("numpy")
        kind = numpy.dtype(dtype)
        size: int = kind.itemsize
        for side in shape:
            size *= side
        start = -(-self._used // ALIGNED) * ALIGNED
        if not size or start + size > len(self.memory):
            taken: Array = numpy.empty(shape, kind)
        else:
            self._used = start + size
            taken = self.memory[start : start + size].view(kind).reshape(shape)
        return taken

    def put(self, array: Array) -> torch.Tensor:
        """Copy a small array into a pinned buffer; elsewhere it shall not keep the buffer lent."""
        if not self._pinned:
            return torch.from_numpy(array)
        kept = self.take(array.shape, array.dtype)
        kept[...] = array
        return torch.from_numpy(kept)


class Pool:
    """Buffers of this process, made as they are needed and used again."""

    KEPT = 8

    def __init__(self, pin: bool = False) -> None:
        self._free: deque[ByteArray] = deque(maxlen=self.KEPT)
        self._pin = pin
        self.size = 0

    def lent(self) -> ByteArray:
        """Return `size` bytes or more, free again when the last view of this array is gone."""
        memory = self._taken()
        # what views of it hold on to
        view: ByteArray = need("numpy").frombuffer(memory.data, "u1")
        weakref.finalize(view, self._free.append, memory).atexit = False
        return view

    def _taken(self) -> ByteArray:
        while self._free:
            memory = self._free.pop()
            if len(memory) >= self.size:
                return memory
        fresh: ByteArray = torch.empty(self.size, dtype=torch.uint8, pin_memory=self._pin).numpy()
        return fresh


class Ring:
    """Slots in memory shared with forked processes, without a name: nothing can be left behind.

    It is not in /dev/shm, whose size limits DataLoader workers in containers. It is allocated at
    once, so that want of memory is an error here and not a bus error later.

    Raises:
        LoaderError: there is not enough memory.
    """

    def __init__(self, slots: int, size: int) -> None:
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.size = size
        shared = _shared(slots, size)
        self._all: ByteArray = need("numpy").frombuffer(shared, "u1")
        self._free = deque(range(slots))

    def free(self) -> int:
        """How many slots nobody uses."""
        return len(self._free)

    def take(self) -> int:
        """Take a free slot."""
        return self._free.popleft()

    def give_back(self, slot: int) -> None:
        """Free a slot."""
        self._free.append(slot)

    def memory(self, slot: int) -> ByteArray:
        """Return a slot's bytes."""
        return self._all[slot * self.size : (slot + 1) * self.size]

    def lent(self, slot: int) -> torch.Tensor:
        """Return a tensor over a slot, which is free again when the last view of it is gone."""
        view = self.memory(slot)
        weakref.finalize(view, self._free.append, slot).atexit = False
        return torch.from_numpy(view)

    def pin(self) -> None:
        """Register the memory with CUDA, so that copies from it run beside kernels."""
        whole = torch.from_numpy(self._all)
        cuda = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        done = cuda.cudaHostRegister(whole.data_ptr(), whole.numel(), 0)
        if int(done) != 0:
            raise LoaderError(f"CUDA cannot pin {whole.numel() >> 20} MiB of memory: {done}")
        weakref.finalize(self, _unpin, whole)


def _shared(slots: int, size: int) -> mmap.mmap:
    wanted = LoaderError(
        f"no memory for the loader's ring of {slots} batches of {size >> 20} MiB: use fewer "
        "workers or smaller batches"
    )
    if slots * size > available():  # asking the kernel for more would have it kill processes
        raise wanted
    handle = os.memfd_create("hotlap-loader")
    try:
        os.posix_fallocate(handle, 0, slots * size)
        return mmap.mmap(handle, slots * size)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.ENOMEM}:
            raise
        raise wanted from None
    finally:
        os.close(handle)


def available() -> int:
    """Bytes of memory that may be taken: the machine's, or what the control group leaves."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        most = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if most == "max" else min(free, int(most) - used)


def _unpin(whole: torch.Tensor) -> None:
    cuda = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    cuda.cudaHostUnregister(whole.data_ptr())
