"""Which engine reads: by what a first batch took."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from hotlap.data.loader.batch_layout import size_of
from hotlap.data.loader.forked import Forked
from hotlap.data.loader.local import Local
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched, Reader, Wish

SHORT = 0.003
ROOM = 1.25
PROCESSES = 16
_SMALL = 1 << 16

Engine = Local | Forked


def begun(
    reader: Reader, wish: Wish, steps: Iterator[Step]
) -> tuple[Engine, list[tuple[Step, Fetched]]]:
    """Read a first batch, choose by its time and size, and return it with the engine.

    A user's dataset is first read in a process of its own, never here, unless nothing is to be
    forked: handles that it opens on first use must not be shared by processes.
    """
    if wish.workers == 0 or (reader.light and wish.workers is None):
        return Local(reader, _threads_here(reader, wish), wish.pin), []
    trial: Engine = Local(reader, 0)
    if reader.changes:
        trial = Forked(reader, (1, 1), _SMALL, replace(wish, pin=False))
    start = time.perf_counter()
    first = list(trial.run(iter([step for step in [next(steps, None)] if step])))
    seconds = time.perf_counter() - start
    trial.close()
    size = max((size_of(fetched.value) for _, fetched in first), default=_SMALL)
    return _chosen(reader, wish, seconds, int(size * ROOM) + _SMALL), first


def _chosen(reader: Reader, wish: Wish, seconds: float, size: int) -> Engine:
    """A short batch is read here, a longer one in processes."""
    if wish.workers is None and wish.worker_init is None and seconds < SHORT:
        return Local(reader, _threads_here(reader, wish), wish.pin)
    return Forked(reader, shares(reader.threads, wish, cores()), size, wish)


def shares(threaded: bool, wish: Wish, cores: int) -> tuple[int, int]:
    """Return (processes, threads in each) for a number of cores.

    A process for each core; where there are many, those of a reader that can use threads have
    several. Decoding holds the interpreter's lock for a tenth of its time, so that the threads of
    one process could not feed on all cores.
    """
    if not threaded:
        return wish.workers or cores, 1
    workers = wish.workers or min(PROCESSES, -(-cores // (wish.threads or 1)))
    return workers, wish.threads or -(-cores // workers)


def _threads_here(reader: Reader, wish: Wish) -> int:
    """Return the threads that read beside the caller's.

    What is little more than a copy gets one only where a device computes meanwhile: beside a model
    on the same cores it would cost what passing batches between threads costs, and gain nothing.
    """
    if not reader.threads:
        return 0
    if wish.threads is not None:
        return wish.threads
    return int(torch.accelerator.is_available()) if reader.light else cores()


def cores() -> int:
    """Cores that this process may use, shared among the ranks of this machine."""
    return max(len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
