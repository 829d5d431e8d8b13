"""`torch.save` to a path, written by a thread while the program goes on.

The call pickles the object and copies its tensors; the thread writes the archive under a folder of
its own beside the target and renames it. So the file of that name is always a whole one, and it is
the new one before the program can look at it: before it opens, lists, renames or removes what leads
there, starts a program, or ends. What cannot be kept to that is saved as before.
"""

import os
import queue
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from multiprocessing import resource_tracker
from typing import Any

import torch
import torch.utils.data

from hotlap.common.processes import children
from hotlap.core.machine import available_memory
from hotlap.seam.checkpoint_copies import SAVES, Buffers, Record, Recorder
from hotlap.seam.file_barrier import Watched, watching
from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced
from hotlap.seam.process import at_exit, rank_and_world

MOST_WAITING = SAVES
MEMORY_SHARE = 0.25
"""Part of the memory that is available which the copies of all waiting saves may take."""
DISK_SHARE = 0.9
"""Part of the free disk that a new file may take, since the old one is there beside it."""
FORK_POLL_SECONDS = 0.01
_PREFIX = ".saving-"
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_serialization: Any = torch.serialization
_signals: object = torch.utils.data._utils.signal_handling


@contextmanager
def async_checkpoint(context: Context) -> Iterator[None]:
    """Write what `torch.save` saves to a path in the background."""
    writer = _Writer(context)

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def save(obj: object, f: object, *args: object, **kwargs: object) -> None:
            context.waits("")
            begun = False
            with context.isolated():
                begun = writer.begin(obj, f, args, kwargs)
            writer.raise_failure()
            if not begun:
                writer.wait()
                original(obj, f, *args, **kwargs)

        return save

    context.waits("the run ended before it saved a file")
    forget = at_exit(writer.finish)
    with ExitStack() as stack:
        stack.enter_context(watching(writer.watched))
        stack.enter_context(replaced(_signals, "_set_worker_pids", writer.noting_workers))
        stack.callback(forget)
        stack.callback(writer.finish)
        for owner in (torch, torch.serialization):
            stack.enter_context(replaced(owner, "save", make))
        yield


@dataclass(eq=False)
class _Save:
    """One file on its way: from a copy in memory to `path`, through `folder` beside it."""

    path: str
    folder: str
    records: list[Record]
    archive: Any
    size: int
    mode: int | None

    def write(self) -> None:
        """Write the archive and put it in the place of the file, or else write that in place."""
        try:
            partial = os.path.join(self.folder, os.path.basename(self.path))
            self._fill(self.archive)
            if self.mode is not None:
                os.chmod(partial, self.mode)
            os.replace(partial, self.path)
        except OSError:
            self._remove_folder()
            self._fill(_serialization._open_zipfile_writer(self.path))
        finally:
            self._remove_folder()
            self.archive = None

    def _fill(self, archive: Any) -> None:
        with archive as file:
            for name, data, size in self.records:
                file.write_record(name, data, size)

    def _remove_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class _Writer:
    """The thread that writes, and who must wait for it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.watched = Watched(lambda: [save.path for save in tuple(self._pending)], self.wait)
        self._pid = os.getpid()
        self._pending: list[_Save] = []
        self._orders: queue.Queue[_Save | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._buffers = Buffers()
        self._held_signals: list[signal.Signals] = []
        self._workers: set[int] = set()

    def noting_workers(self, original: Callable[..., object]) -> object:
        """Note the processes of loaders: they read samples, not checkpoints."""

        def set_worker_pids(key: int, pids: tuple[int, ...]) -> object:
            self._workers.update(pids)
            return original(key, pids)

        return set_worker_pids

    def begin(
        self, obj: object, f: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> bool:
        """Copy and hand over a save; False where it has to be saved as before."""
        given = _arguments(args, kwargs)
        if given is None or not isinstance(f, str | os.PathLike) or self._pid != os.getpid():
            return False
        main = threading.current_thread() is threading.main_thread()
        if not main or self._reader_elsewhere():
            return False
        if len(self._pending) >= MOST_WAITING:
            self._orders.join()
        with self.watched.unwatched():
            path = os.path.realpath(os.fspath(f))
            plain, mode = _plain_file(path)
            if not plain:
                return False
            recorder = Recorder(self._buffers)
            _serialization._save(obj, recorder, *given)
            if not self._fits(recorder.size, os.path.dirname(path)):
                return False
            folder = _new_folder(os.path.dirname(path))
            try:
                name = os.path.join(folder, os.path.basename(path))
                archive = _serialization._open_zipfile_writer(name)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        self._start(_Save(path, folder, recorder.records, archive, recorder.size, mode))
        self._context.held(os.path.basename(path))
        return True

    def _reader_elsewhere(self) -> bool:
        """Whether another process that exists already may read the file at any time."""
        if rank_and_world()[1] > 1:
            self._context.inert("other ranks may read the file")
            return True
        tracker: object = getattr(resource_tracker, "_resource_tracker", None)
        others = set(children(os.getpid())) - self._workers - {getattr(tracker, "_pid", None)}
        if others:
            self._context.inert("another process of the program may read the file")
        return bool(others)

    def _fits(self, size: int, folder: str) -> bool:
        """Whether memory and disk have room for this copy beside those that wait."""
        if size + self._waiting_bytes() > MEMORY_SHARE * available_memory():
            self._orders.join()
            self._buffers.clear()
        disk = os.statvfs(folder)
        free = DISK_SHARE * disk.f_bavail * disk.f_frsize
        return size <= MEMORY_SHARE * available_memory() and size + self._waiting_bytes() < free

    def _waiting_bytes(self) -> int:
        return sum(save.size for save in tuple(self._pending))

    def _start(self, save: _Save) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="checkpoint", daemon=True)
            self._thread.start()
        self._hold_signals()
        self._pending.append(save)
        self._orders.put(save)

    def _work(self) -> None:
        with self.watched.unwatched():
            while (save := self._orders.get()) is not None:
                try:
                    save.write()
                except Exception as error:
                    self._failure = self._failure or error
                finally:
                    self._buffers.give_back(save.records)
                    self._pending.remove(save)
                    self._orders.task_done()
            self._orders.task_done()

    def wait(self) -> None:
        """Wait until all files are whole; raise what went wrong with one of them."""
        if self._pid != os.getpid():
            self._wait_for_parent()
        elif threading.current_thread() is not self._thread:
            self._orders.join()
            self._release_signals()
            self.raise_failure()

    def _wait_for_parent(self) -> None:
        """In a fork: the parent writes, as long as it lives and the folders are there."""
        with self.watched.unwatched():
            for save in tuple(self._pending):
                while os.path.exists(save.folder) and os.getppid() == self._pid:
                    time.sleep(FORK_POLL_SECONDS)
        self._pending.clear()

    def raise_failure(self) -> None:
        """Raise what went wrong with a file that was to be written."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """The process ends, or the technique is taken out: write what waits, end the thread."""
        thread = self._thread
        if self._pid != os.getpid() or thread is None:
            return
        try:
            self.wait()
        finally:
            self._thread = None
            self._orders.put(None)
            thread.join()
            self._buffers.clear()

    def _hold_signals(self) -> None:
        """While a file is on its way, a signal that would end the process first waits for it."""
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_signal)
                self._held_signals.append(number)

    def _release_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        while self._held_signals:
            number = self._held_signals.pop()
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)

    def _on_signal(self, number: int, _: object) -> None:
        if self._pid == os.getpid():
            self._orders.join()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _arguments(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...] | None:
    """What `torch.serialization._save` needs besides; None where torch would write otherwise."""
    names = ("pickle_module", "pickle_protocol", "_use_new_zipfile_serialization",
             "_disable_byteorder_record")  # fmt: skip
    defaults = (_serialization.pickle, _serialization.DEFAULT_PROTOCOL, True, False)
    given = dict(zip(names, defaults, strict=True)) | dict(zip(names, args, strict=False)) | kwargs
    if len(args) > len(names) or set(given) != set(names):
        return None
    if not given["_use_new_zipfile_serialization"] or _serialization._serialization_tls.skip_data:
        return None
    return given["pickle_module"], given["pickle_protocol"], given["_disable_byteorder_record"]


def _new_folder(where: str) -> str:
    """Make a folder to write in, and remove those of processes that were killed."""
    for name in os.listdir(where):
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and not os.path.exists(f"/proc/{owner}"):
            shutil.rmtree(os.path.join(where, name), ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=where)


def _plain_file(path: str) -> tuple[bool, int | None]:
    """Whether the file, if there is one, can be replaced by another; and its permissions."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True, None
    own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
    plain = own and not os.listxattr(path) and os.access(path, os.W_OK)
    return plain, stat.S_IMODE(found.st_mode)
