"""Loader workers that outlive their loader, for the next loader of the same dataset.

An iterator of ours hands its workers back when it is exhausted or dropped; the next one for the
same dataset and arguments takes them over. Before it does, this process compares its dataset, its
collate function and its `worker_init_fn` with what they were when the workers began, and each
worker does so with its own copies. Then the workers are seeded as new ones would have been.
"""

import os
import random
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils.data import DataLoader, MapDataPipe, get_worker_info
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
)

from hotlap.seam.fingerprint import Table, UnreadableError, difference, fingerprint
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.process import at_exit

MOST_IDLE = 4
"""Sets of idle workers that are kept: those of a training and a few evaluation loaders."""
_signals: Any = torch.utils.data._utils.signal_handling
_worker: Any = torch.utils.data._utils.worker
Loader = DataLoader[object]
_HANDED_OVER = (
    "_workers", "_index_queues", "_worker_result_queue", "_workers_done_event", "_data_queue",
    "_pin_memory_thread", "_pin_memory_thread_done_event",
)  # fmt: skip


@contextmanager
def loader_reuse(context: Context) -> Iterator[None]:
    """Let each DataLoader with workers take over those of the last one that was equal."""
    idle = _IdleWorkers(context)

    def make(original: Callable[..., object]) -> object:
        def _get_iterator(loader: Loader) -> object:
            table = None
            with context.isolated():
                table = idle.table(loader)
            if table is None:
                return original(loader)
            loader.check_worker_number_rationality()
            return _Iterator(loader, idle, table)

        return _get_iterator

    forget = at_exit(idle.close)
    with replaced(DataLoader, "_get_iterator", make):
        try:
            yield
        finally:
            forget()
            idle.close()


class _IdleWorkers:
    """Workers between two epochs. Dropping a set ends its processes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._pid = os.getpid()
        self._sets: OrderedDict[tuple[object, ...], _MultiProcessingDataLoaderIter] = OrderedDict()
        self._datasets: dict[int, object] = {}
        self._refused: set[int] = set()
        self._closed = False
        self._began = False

    def begins(self) -> None:
        """A loader starts its workers; from the second time on there may be some to take over."""
        self.context.waits("" if self._began else "the run ended before a second epoch began")
        self._began = True

    def table(self, loader: Loader) -> Table | None:
        """What its workers will be made of; None where they are not for us."""
        dataset = loader.dataset
        if not loader.num_workers or loader._dataset_kind != _DatasetKind.Map or self._closed:
            return None
        if isinstance(dataset, MapDataPipe) or self._pid != os.getpid():
            return None
        self._remember(dataset)
        if id(dataset) in self._refused:
            return None
        try:
            return fingerprint((dataset, loader.collate_fn, loader.worker_init_fn))
        except UnreadableError as error:
            self._refuse(dataset, f"what the workers copy cannot be compared: {error}")
            return None

    def _remember(self, dataset: torch.utils.data.Dataset[object]) -> None:
        """Follow a dataset's life: another may later have its address."""
        if id(dataset) in self._datasets:
            return
        key = id(dataset)
        try:
            self._datasets[key] = weakref.ref(dataset, lambda _: self._gone(key))
        except TypeError:  # a list, for instance: held instead
            self._datasets[key] = dataset

    def _gone(self, dataset: int) -> None:
        self._datasets.pop(dataset, None)
        self._refused.discard(dataset)
        for key in [key for key in self._sets if key[0] == dataset]:
            self._sets.pop(key, None)

    def _refuse(self, dataset: torch.utils.data.Dataset[object], reason: str) -> None:
        self._refused.add(id(dataset))
        self.context.inert(reason)

    def take(self, loader: Loader, table: Table) -> _MultiProcessingDataLoaderIter | None:
        """Idle workers that are as new ones would be; None where there are none."""
        workers = self._sets.pop(key_of(loader), None)
        if workers is None or not all(worker.is_alive() for worker in workers._workers):
            return None
        if difference(workers.__dict__["_hotlap_table"], table):
            return None
        with suppress(RuntimeError):  # a worker died, or the loader's timeout passed
            changed = next(filter(None, _ask(workers, _Check())), "")
            if not changed:
                return workers
            reason = f"reading samples changes {changed} of the dataset in the workers"
            self._refuse(loader.dataset, reason)
        return None

    def put_back(self, iterator: "_Iterator", key: tuple[object, ...]) -> bool:
        """Keep an iterator's workers for the next one; whether they were kept."""
        if self._closed or key[0] in self._refused or key[0] not in self._datasets:
            return False
        if not all(worker.is_alive() for worker in iterator._workers):
            return False
        kept = object.__new__(_MultiProcessingDataLoaderIter)
        names = {*_HANDED_OVER, "_hotlap_table", "_num_workers", "_timeout", "_pin_memory"}
        kept.__dict__ = {n: v for n, v in vars(iterator).items() if n in names}
        kept.__dict__ |= {"_shutdown": False, "_worker_pids_set": False, "_dataset_kind": 0}
        kept.__dict__ |= {"_persistent_workers": True}
        kept.__dict__["_workers_status"] = [True] * len(iterator._workers)
        self._sets[key] = kept
        while len(self._sets) > MOST_IDLE:
            self._sets.popitem(last=False)
        return True

    def close(self) -> None:
        """End all idle workers; iterators that still run end theirs themselves."""
        self._closed = True
        if self._pid != os.getpid():
            for workers in self._sets.values():  # the parent's, which a fork has copied
                workers._shutdown = True
        self._sets.clear()
        self._datasets.clear()


def key_of(loader: Loader) -> tuple[object, ...]:
    """What must be equal for workers to be taken over, besides what they copy."""
    return (
        id(loader.dataset),
        loader.num_workers,
        loader._auto_collation,
        loader.drop_last,
        loader.pin_memory and torch.accelerator.is_available(),
        loader.timeout,
        id(loader.multiprocessing_context),
        torch.get_default_dtype(),
        os.getcwd(),
    )


class _Iterator(_MultiProcessingDataLoaderIter):
    """torch's iterator, which begins with idle workers and hands its own back."""

    def __init__(self, loader: Loader, idle: _IdleWorkers, table: Table) -> None:
        self._hotlap_began = False
        self._hotlap_owner = os.getpid()
        self._hotlap_idle, self._hotlap_key, self._hotlap_table = idle, key_of(loader), table
        workers = idle.take(loader, table)
        idle.begins()
        if workers is None:
            super().__init__(_WithInit(loader))
            self._worker_init_fn = loader.worker_init_fn
        else:
            self._take_over(loader, workers)
            idle.context.held(type(loader.dataset).__name__)
        self._hotlap_began = True

    def _take_over(self, loader: Loader, workers: _MultiProcessingDataLoaderIter) -> None:
        """The constructor of torch's iterator, without the start of processes."""
        _BaseDataLoaderIter.__init__(self, loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._worker_init_fn = loader.worker_init_fn
        self.__dict__ |= {n: vars(workers)[n] for n in _HANDED_OVER if n in vars(workers)}
        workers._shutdown = True
        self._shutdown = False
        self._workers_status = [True] * self._num_workers
        _signals._set_worker_pids(id(self), tuple(w.pid for w in self._workers))
        _signals._set_SIGCHLD_handler()
        self._worker_pids_set = True
        _ask(self, _Seed(int(self._base_seed)))
        self._reset(loader, first_iter=True)

    def _shutdown_workers(self) -> None:
        if not self.__dict__.get("_hotlap_began") or self._shutdown:
            super()._shutdown_workers()
        elif self._hotlap_owner != os.getpid():
            self._shutdown = True  # a fork has copied the iterator, not its workers
        elif self._hotlap_idle.put_back(self, self._hotlap_key):
            self._shutdown = True
            _signals._remove_worker_pids(id(self))
            self._worker_pids_set = False
        else:
            super()._shutdown_workers()


_Iterator.__name__ = _Iterator.__qualname__ = _MultiProcessingDataLoaderIter.__name__


class _WithInit:
    """A loader whose workers begin with a table of what they copied."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.worker_init_fn = _Begin(loader.worker_init_fn, loader.collate_fn)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


class _Begin:
    """Runs in a worker as its `worker_init_fn`."""

    def __init__(self, init: Callable[[int], object] | None, collate: object) -> None:
        self.init = init
        self.collate = collate

    def __call__(self, worker_id: int) -> None:
        """Note what the worker's copies hold, then do what the program wants done."""
        _begun.append((self, _of_copies(self)))
        if self.init is not None:
            self.init(worker_id)


_begun: list[tuple[_Begin, Table | None]] = []
"""In a worker: how it began."""


def _of_copies(begin: _Begin) -> Table | None:
    info = get_worker_info()
    with suppress(UnreadableError):
        return fingerprint((info.dataset if info else None, begin.collate, begin.init))
    return None


class _Check:
    """A question to a worker. As it is unpickled there, it becomes the answer."""

    def __reduce__(self) -> tuple[object, ...]:
        return _checked, ()


def _checked() -> str:
    """In a worker: what has changed since it began; empty if nothing has."""
    try:
        begin, before = _begun[-1]
        now = _of_copies(begin)
    except Exception as error:
        return f"something ({error!r})"
    return "something" if before is None or now is None else difference(before, now)


class _Seed:
    """An order to a worker: begin anew with this seed."""

    def __init__(self, base_seed: int) -> None:
        self.base_seed = base_seed

    def __reduce__(self) -> tuple[object, ...]:
        return _seeded, (self.base_seed,)


def _seeded(base_seed: int) -> str:
    """In a worker: seed all that torch seeds as a worker begins, and run `worker_init_fn`."""
    info = get_worker_info()
    assert info is not None
    seed = base_seed + info.id
    random.seed(seed)
    torch.manual_seed(seed)
    if _worker.HAS_NUMPY:
        import numpy as np

        np.random.seed(_worker._generate_state(base_seed, info.id))
    object.__setattr__(info, "seed", seed)  # torch lets no other code set it
    if _begun and _begun[-1][0].init is not None:
        _begun[-1][0].init(info.id)
    return ""


def _ask(iterator: _MultiProcessingDataLoaderIter, message: _Check | _Seed) -> list[str]:
    """Send a message to all workers, and return their answers.

    It travels in torch's own message for a new epoch, which workers send back as they get it.
    Batches of an epoch that was left early arrive before it, and are dropped.
    """
    for queue in iterator._index_queues:
        queue.put(_worker._ResumeIteration(message))
    answers: list[str] = []
    while len(answers) < len(iterator._workers):
        index, _ = iterator._get_data()  # type: ignore[no-untyped-call]
        if isinstance(index, _worker._ResumeIteration):
            answers.append(index.seed)
    return answers
