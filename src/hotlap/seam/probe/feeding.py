"""Boundaries around the DataLoader: its start, and the waits for its batches."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from hotlap.seam.patch import replaced
from hotlap.seam.probe.arrays import arrays
from hotlap.seam.probe.loaders import Known
from hotlap.seam.probe.phases import CHECKING, DATA, LOADER, OPEN, RESTING
from hotlap.seam.probe.recorder import Recorder
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
        arrays(rec),
    ):
        yield


def _construction(rec: Recorder, original: Any) -> Any:
    def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(loader, *args, **kwargs)
        with suppress(Exception):  # whatever is odd about it, the program goes on
            rec.loaders.note(loader, place())

    return __init__


def _start(rec: Recorder, original: Any) -> Any:
    line, codes, mark = rec.timeline, rec.timeline.codes, rec.timeline.mark

    def __iter__(loader: Any) -> Any:  # noqa: N807
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


def _feeds(rec: Recorder, loader: Any) -> Known:
    known = rec.loaders.known(loader)
    if rec.begun:  # before, it may be for means and deviations
        rec.loaders.use(known)
    return known


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
