"""Boundaries around the DataLoader: its start, and the waits for its batches."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from threading import get_ident
from types import FrameType

import torch
from torch.utils._device import _device_constructors
from torch.utils.data import DataLoader
from torch.utils.data._utils.fetch import _BaseDatasetFetcher, _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.seam.drawn import counting_indices, samples_drawn
from hotlap.seam.liveness import owners
from hotlap.seam.patch import replaced
from hotlap.seam.probe.compiling import untraced
from hotlap.seam.probe.loaders import Known
from hotlap.seam.probe.phases import CHECKING, DATA, LOADER, OPEN, RESTING
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.tensor import sharable, stackable
from hotlap.seam.where import place

LOADER_OF = "_hotlap_loader"


@contextmanager
def feeding(rec: Recorder) -> Iterator[None]:
    """Mark the waits for data, note where loaders and tensors are made, follow what is read."""
    rec.at_first_step.append(rec.resources.watching)
    with (
        replaced(DataLoader, "__init__", lambda f: _construction(rec, f)),
        replaced(DataLoader, "__iter__", lambda f: _start(rec, f)),
        replaced(_BaseDataLoaderIter, "__next__", lambda f: _wait(rec, f)),
        replaced(_MapDatasetFetcher, "fetch", lambda f: _read(rec, f)),
        counting_indices(),
        arrays(rec),
    ):
        yield


def _construction(rec: Recorder, original: Callable[..., object]) -> object:
    def __init__(  # noqa: N807
        loader: torch.utils.data.DataLoader[object], *args: object, **kwargs: object
    ) -> None:
        original(loader, *args, **kwargs)
        with suppress(Exception):  # whatever is odd about it, the program goes on
            rec.loaders.note(loader, place())

    return __init__


def _start(rec: Recorder, original: Callable[..., object]) -> object:
    line, codes, mark = rec.timeline, rec.timeline.codes, rec.timeline.mark

    def __iter__(loader: DataLoader[object]) -> object:  # noqa: N807
        rec.session.roots.look()
        if codes[-1] == RESTING:
            rec.wake()
        if not OPEN[codes[-1]] or get_ident() != rec.thread:
            return original(loader)
        line.evaluations.asked(LOADER)
        mark(LOADER)
        try:
            iterator = original(loader)
            with suppress(Exception):
                setattr(iterator, LOADER_OF, _feeds(rec, loader))
            return iterator
        finally:
            mark(CHECKING if line.evaluations.going_on else line.base)

    return __iter__


def _feeds(rec: Recorder, loader: DataLoader[object]) -> Known:
    known = rec.loaders.known(loader)
    if rec.begun:  # before, it may be for means and deviations
        rec.loaders.begin(known)
    return known


def _wait(rec: Recorder, original: Callable[..., object]) -> object:
    line, codes, mark = rec.timeline, rec.timeline.codes, rec.timeline.mark

    def __next__(iterator: object) -> object:  # noqa: N807
        if not OPEN[codes[-1]] or get_ident() != rec.thread:
            return original(iterator)
        line.evaluations.asked(DATA)
        mark(DATA)
        rec.feeding = getattr(iterator, LOADER_OF, None)
        try:
            batch = original(iterator)
        except StopIteration:
            line.evaluations.exhausted()
            raise
        else:
            rec.drawn += samples_drawn(iterator)
            if rec.feeding is not None:
                rec.loaders.read(rec.feeding)
            return batch
        finally:
            mark(CHECKING if line.evaluations.going_on else line.base)

    return __next__


def _read(rec: Recorder, original: Callable[..., object]) -> object:
    def fetch(fetcher: _BaseDatasetFetcher, indices: object) -> object:
        return rec.loaders.fetched(fetcher.dataset, lambda: original(fetcher, indices))

    return fetch


LOOKS = 4096


@contextmanager
def arrays(rec: Recorder) -> Iterator[None]:
    """Note the first tensor of an array or a list that `no_copy_from_numpy` changes, and where."""
    _device_constructors()  # cached: torch.device() contexts must know the original by name
    with untraced(torch, "tensor", partial(_looking, rec), comes_back=False):
        yield


def _looking(rec: Recorder, original: Callable[..., torch.Tensor]) -> object:
    calls = [0]

    def step_aside() -> None:
        if torch.tensor is tensor:
            torch.tensor = original

    @wraps(original)
    def tensor(data: object, *args: object, **kwargs: object) -> torch.Tensor:
        count = owners(data)  # first of all: every use below would add to it
        calls[0] += 1
        caller = sys._getframe(1)
        if isinstance(data, torch.Tensor):
            step_aside()
            return _warned_as(caller, original, data, *args, **kwargs)
        if not _has_array(data):
            made = original(data, *args, **kwargs)
        else:
            changeable = sharable(data, count, caller) or stackable(data)
            made = _warned_as(caller, original, data, *args, **kwargs)
            if _noted(rec, data, made, changeable=changeable):
                step_aside()
        if calls[0] >= LOOKS:
            step_aside()
        return made

    return tensor


def _noted(rec: Recorder, data: object, made: torch.Tensor, *, changeable: bool) -> bool:
    """Note what was made of an array; whether its copy could have been left out."""
    if made.dtype == torch.float64:
        rec.facts.made_double("float64_array")
    if not changeable or _converted(data, made):
        return False
    rec.facts.note("tensor_from_numpy")
    rec.facts.point("tensor")
    return True


def _converted(data: object, made: torch.Tensor) -> bool:
    """Whether a tensor of an array has another dtype, so that a copy is needed in any case."""
    dtype = getattr(data, "dtype", None)
    return dtype is not None and str(made.dtype).removeprefix("torch.") != str(dtype)


def _has_array(data: object) -> bool:
    """Whether it is an array with dimensions, or a list of such."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    first = data[0] if isinstance(data, (list, tuple)) and data else data
    return isinstance(first, numpy.ndarray) and bool(first.ndim)


def _warned_as(
    frame: FrameType, call: Callable[..., torch.Tensor], *args: object, **kwargs: object
) -> torch.Tensor:
    """Call; its warnings (for a tensor, or a list of arrays) name the caller's line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call(*args, **kwargs)
    names = frame.f_globals
    for one in caught:
        warnings.warn_explicit(
            one.message,
            one.category,
            frame.f_code.co_filename,
            frame.f_lineno,
            names.get("__name__"),
            names.setdefault("__warningregistry__", {}),
        )
    return result
