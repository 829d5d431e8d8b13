"""Boundaries around the DataLoader: its start, the waits for batches, tensors made of arrays."""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.seam.patch import replaced
from hotlap.seam.probe.phases import CHECKING, DATA, LOADER, OPEN
from hotlap.seam.probe.recorder import Recorder
from hotlap.seam.where import place

LOADER_OF = "_hotlap_loader"
LOOKS = 4096


@contextmanager
def feeding(rec: Recorder) -> Iterator[None]:
    """Mark the waits for data, and note where loaders and tensors are made."""
    with (
        replaced(DataLoader, "__init__", lambda f: _construction(rec, f)),
        replaced(DataLoader, "__iter__", lambda f: _start(rec, f)),
        replaced(_BaseDataLoaderIter, "__next__", lambda f: _wait(rec, f)),
        replaced(torch, "tensor", lambda f: _from_array(rec, f)),
    ):
        yield


def _construction(rec: Recorder, original: Any) -> Any:
    def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        rec.loaders[loader] = place()
        original(loader, *args, **kwargs)

    return __init__


def _start(rec: Recorder, original: Any) -> Any:
    line, codes, mark = rec.timeline, rec.timeline.codes, rec.timeline.mark

    def __iter__(loader: Any) -> Any:  # noqa: N807
        rec.session.roots.look()
        if not OPEN[codes[-1]] or get_ident() != rec.thread:
            return original(loader)
        line.evaluations.asked(LOADER)
        mark(LOADER)
        try:
            iterator = original(loader)
            setattr(iterator, LOADER_OF, weakref.ref(loader))
            return iterator
        finally:
            mark(CHECKING if line.evaluations.going_on else line.base)

    return __iter__


def _wait(rec: Recorder, original: Any) -> Any:
    line, codes, mark = rec.timeline, rec.timeline.codes, rec.timeline.mark

    def __next__(iterator: Any) -> Any:  # noqa: N807
        if not OPEN[codes[-1]] or get_ident() != rec.thread:
            return original(iterator)
        line.evaluations.asked(DATA)
        mark(DATA)
        rec.feeding = getattr(iterator, LOADER_OF, None)
        try:
            return original(iterator)
        except StopIteration:
            line.evaluations.exhausted()
            raise
        finally:
            mark(CHECKING if line.evaluations.going_on else line.base)

    return __next__


def _from_array(rec: Recorder, original: Any) -> Any:
    """Look for `torch.tensor(array)`; once it has shown, or after many calls, step aside."""
    calls = [0]

    def tensor(data: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(data, *args, **kwargs)
        calls[0] += 1
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and isinstance(data, numpy.ndarray) and data.ndim:
            rec.facts.note("tensor_from_numpy")
            rec.facts.point("tensor")
            if result.dtype == torch.float64:
                rec.facts.note("float64_arrays")
                rec.facts.point("float64_array")
        elif calls[0] < LOOKS:
            return result
        if torch.tensor is tensor:
            torch.tensor = original
        return result

    return tensor
