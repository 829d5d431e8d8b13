"""Pack a source into a store: resumable, and whole or not there."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.order import permutation
from hotlap.data.pack import plan
from hotlap.data.pack.job import Job
from hotlap.data.pack.settings import Settings, renamed
from hotlap.data.pack.sources import MapDataset, Source, outside, source_of
from hotlap.data.pack.worker_pool import WorkerPool
from hotlap.data.store import Store, shard
from hotlap.data.store.files import room
from hotlap.data.store.publish import partial_of, publish


@dataclass(frozen=True)
class State:
    """How far a packing is: samples done (an earlier start's too), their bytes, bad ones."""

    total: int
    done: int = 0
    resumed: int = 0
    bytes: int = 0
    bad: int = 0


Progress = Callable[[State], None]


def pack(
    source: Any,
    target: str | Path,
    settings: Settings | None = None,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Store:
    """Pack samples into a store at `target`, and open it.

    After an interruption the same call goes on where it stopped: finished shards, in
    `target.partial`, are kept. Only a whole store ever appears under `target`.

    Args:
        source: a path (see `source_of`), a map-style dataset, or a `Source`, such as
            `Arrays({"x": x, "y": y})`.
        target: must not exist yet.
        settings: how samples are kept; or give its fields as `options`.
        workers: processes; by default one for each core.
        progress: called with the `State` at intervals.
        options: fields of `Settings`.

    Raises:
        PackError: bad settings, a bad sample, a full disk, a killed process.
    """
    target = Path(target)
    settings = settings or Settings(**renamed(options))
    if isinstance(source, str | Path):
        outside(Path(source), target)
        source = source_of(Path(source), settings.profile, how=settings)
    elif not hasattr(source, "identity"):
        source = MapDataset(source, settings)
    if settings.profile == "auto":
        settings = replace(settings, profile=source.profile)
    _check(source, target, settings)
    folder = partial_of(target)
    with room(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        shards = plan.shards_of(source, settings, folder)
        _pack(source, settings, folder, shards, workers or len(os.sched_getaffinity(0)), progress)
        plan.clear(folder)
        about = settings.document() | source.about() | {"source": source.kind, "shards": shards}
        if not settings.constant_label:
            _labels_differ(folder, shards)
        publish(
            target,
            shards,
            settings.profile,
            classes=source.classes,
            settings=about,
            extra=source.tables(),
            columns=source.columns,
        )
    return Store(target)


def _check(source: Source, target: Path, settings: Settings) -> None:
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise PackError(f"{target} exists: remove it, or choose another place")
    tokens = source.kind == "token stream"
    if tokens != (settings.profile == "tokens"):
        raise PackError(f"the source is a {source.kind}: profile {settings.profile} does not fit")
    if tokens and (settings.shuffle or settings.resize):
        raise PackError("a token stream is kept in order: no shuffle, no resize")


def _labels_differ(folder: Path, shards: int) -> None:
    """Ask where all samples have one label: it is rarely what was meant.

    Raises:
        PackError: they do; the shards stay, so that the same command with the answer ends at once.
    """
    numpy = need("numpy")
    parts = filter(None, (shard.load(folder, index) for index in range(shards)))
    held = [part.tables["field.label"] for part in parts if "field.label" in part.tables]
    labels = numpy.concatenate(held) if held else numpy.empty(0)
    if len(labels) > 1 and (labels == labels[0]).all():
        raise PackError(
            f"all {len(labels):,} samples have the label {labels[0]}. Where the labels lie in a "
            "file: --labels FILE; in another field: --label-column NAME; where this is right, give "
            "the same command with --constant-label: what is packed stays"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder, so that two packings do not write into one."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise PackError(f"another packing writes to {folder} already") from None
    finally:
        os.close(handle)


def _pack(
    source: Source,
    settings: Settings,
    folder: Path,
    shards: int,
    workers: int,
    progress: Progress | None,
) -> None:
    numpy = need("numpy")
    source.prepare(folder)
    count = len(source)
    order = permutation(count, settings.seed, 0) if settings.shuffle else numpy.arange(count)
    cuts = [count * index // shards for index in range(shards + 1)]
    finished = {index: shard.load(folder, index) for index in range(shards)}
    tally = _Tally(count, settings.max_error_rate, progress)
    for index, part in finished.items():
        if part is not None:
            tally.resume(cuts[index + 1] - cuts[index], part.bytes, len(part.skipped))
    open_ones = [index for index, part in finished.items() if part is None]
    job = Job(folder, source, settings, order, cuts)
    if workers == 1 or len(open_ones) <= 1:
        job.run(open_ones, tally.told)
    else:
        WorkerPool(job, open_ones, min(workers, len(open_ones))).run(tally.told)


class _Tally:
    """Adds progress up, and stops when too many samples are bad."""

    def __init__(self, total: int, limit: float, progress: Progress | None) -> None:
        self._state = State(total)
        self._limit = limit
        self._progress = progress

    def resume(self, samples: int, size: int, bad: int) -> None:
        was = self._state
        self._state = State(
            was.total, was.done + samples, was.resumed + samples, was.bytes + size, was.bad + bad
        )
        self._check()

    def told(self, samples: int, size: int, bad: int) -> None:
        was = self._state
        self._state = State(
            was.total, was.done + samples, was.resumed, was.bytes + size, was.bad + bad
        )
        self._check()

    def _check(self) -> None:
        bad, total = self._state.bad, self._state.total
        if bad > self._limit * total:
            raise PackError(
                f"{bad} of {total} samples are bad, more than a share of {self._limit:g}: look at "
                "the source, or raise --max-error-rate"
            )
        if self._progress:
            self._progress(self._state)
