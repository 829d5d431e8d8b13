"""The loader's process."""

import gc
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from hotlap.common.heap import heap_kept, keep_heap
from hotlap.data.errors import DATA_ERRORS, LoaderError
from hotlap.data.loader.batch_layout import BatchLayout, packed
from hotlap.data.loader.memory import Ring, Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Reader

LOOK_EVERY = 0.5
KEPT_BYTES = 128 << 20
"""Freed memory that a process keeps: a decoded photo is otherwise mapped, cleared and given back
each time, 0.3 to 0.5 ms of 2.9 an image (`benchmarks.data.epochs`)."""


@dataclass(frozen=True)
class Answer:
    """What became of one step: where its batch lies, or why it could not be read."""

    number: int
    slot: int
    batch: BatchLayout | Exception
    replaced: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class About:
    """Of a process: its number, how many there are, threads, the parent, what to call first."""

    number: int
    count: int
    threads: int
    parent: int
    init: Callable[[int], object] | None


def work(
    reader: Reader, ring: Ring, pipe: Connection, others: Sequence[Connection], about: About
) -> None:
    """Read what the pipe asks for, until it closes."""
    _settle_in(others, about.parent)
    answer = _Answering(reader, ring, pipe, _introduced(reader, about))
    if about.threads == 1:  # in the main thread: in another one glibc gives memory back each time
        _serve(pipe, answer)
    with ThreadPoolExecutor(about.threads) as executor:
        _serve(pipe, lambda *message: executor.submit(answer, *message))


def _serve(pipe: Connection, handle: Callable[[int, int, Step], object]) -> NoReturn:
    while True:
        try:
            message = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        handle(*message)


def _settle_in(others: Sequence[Connection], parent: int) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not the handler that the script may have set
    for pipe in others:
        pipe.close()
    gc.freeze()  # a collection would write to every page that is shared with the parent
    torch.set_num_threads(1)
    if not heap_kept():
        keep_heap(KEPT_BYTES)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    """End when the parent is gone, also while a sample is being read."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)


def _introduced(reader: Reader, about: About) -> Exception | None:
    """Let `torch.utils.data.get_worker_info` answer, and call the user's `worker_init_fn`."""
    from torch.utils.data._utils import worker

    dataset: Any = getattr(reader, "dataset", None)
    worker._worker_info = worker.WorkerInfo(
        id=about.number, num_workers=about.count, seed=about.number, dataset=dataset
    )
    try:
        if about.init is not None:
            about.init(about.number)
    except Exception as error:
        return LoaderError(f"worker_init_fn({about.number}): {type(error).__name__}: {error}")
    return None


class _Answering:
    def __init__(
        self, reader: Reader, ring: Ring, pipe: Connection, error: Exception | None
    ) -> None:
        self._reader = reader
        self._ring = ring
        self._pipe = pipe
        self._error = error
        self._lock = threading.Lock()

    def __call__(self, number: int, slot: int, step: Step) -> None:
        """Read one step and send the answer."""
        data = self._pickled(number, slot, step)
        with self._lock:
            self._pipe.send_bytes(data)

    def _pickled(self, number: int, slot: int, step: Step) -> bytes:
        if self._error is not None:
            return pickle.dumps(Answer(number, slot, self._error))
        space = Space(self._ring.memory(slot))
        try:
            fetched = self._reader.fetch(step, space)
            layout = packed(fetched.value, space)
            return pickle.dumps(Answer(number, slot, layout, fetched.replaced))
        except DATA_ERRORS as error:
            return pickle.dumps(Answer(number, slot, error))
        except Exception as error:
            words = LoaderError(f"reading a batch failed: {type(error).__name__}: {error}")
            return pickle.dumps(Answer(number, slot, words))
