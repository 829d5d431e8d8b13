"""Checkpoints of a training over several ranks: each writes its shard, any layout reads them."""

import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import async_save
from torch.optim import Optimizer

from hotlap.common.background import Background
from hotlap.common.disk import sync_folder
from hotlap.parallel import shard_reading as reading
from hotlap.parallel.control_group import Meeting
from hotlap.parallel.state import collect, packed, put_back, template

_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Loaded:
    """What was read beside model and optimizer; `own` is None if the world had another size."""

    step: int
    shared: Any
    own: Any


class ShardedCheckpointer:
    """Writes directories `step-<n>` into a folder that all ranks see, and keeps the last `keep`.

    torch.distributed.checkpoint writes them, in the background, from a copy on the host. A step is
    written as `step-<n>.partial` and renamed once every rank's shard and the metadata are on the
    disk, so that a directory with its name is whole, whenever whichever process is killed. What was
    saved by any number of ranks in any layout is loaded into any other.

    Every rank makes one, and calls `save` and `load` alike. Without torch.distributed it works in
    one process. Like any checkpoint of torch.distributed.checkpoint, one is to be read only if you
    trust who wrote it: its metadata is a pickle.

    Args:
        folder: made if it is not there.
        keep: how many steps to keep.
    """

    def __init__(self, folder: str | Path, *, keep: int = 3) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        self.folder = Path(folder)
        self.keep = keep
        self._ranks = Meeting()
        if self._ranks.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            _clear(self.folder)
        self._finisher = Background("checkpoint")

    def save(
        self,
        step: int,
        models: Sequence[nn.Module],
        optimizer: Optimizer | None = None,
        *,
        shared: object = None,
        own: object = None,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Copy everything now and write it in the background; every rank must call.

        A save that comes while the last one is still being written waits for it first.

        Args:
            step: names the checkpoint.
            models: the model, or the pipeline stages of this rank.
            optimizer: over the parameters of all of them.
            shared: what is the same on all ranks: numbers, strings, tensors and containers.
            own: what is this rank's alone, such as its random numbers.
            tensors: more tensors by name, which may be sharded.

        Raises:
            RuntimeError: the last save failed on some rank, for want of space, for example.
        """
        self.wait()
        flat = collect(models, optimizer) | {f"more.{k}": v for k, v in (tensors or {}).items()}
        flat["shared"] = packed({"world": self._ranks.world, "value": shared})
        flat[f"own.{self._ranks.rank}"] = packed(own)
        partial = self.folder / f"step-{step:09d}.partial"
        if self._ranks.first:
            shutil.rmtree(partial, ignore_errors=True)
        written = async_save(
            flat,
            storage_writer=FileSystemWriter(partial),
            planner=DefaultSavePlanner(flatten_state_dict=False),
            process_group=self._ranks.group,
            no_dist=self._ranks.alone,
        )
        assert isinstance(written, Future)  # the default stager copies before it returns
        self._finisher.start(self._finish, written, partial)

    def wait(self) -> None:
        """Wait until what was saved is on the disk; raise what went wrong with it."""
        self._finisher.wait()

    def close(self) -> None:
        """Wait, and end the thread."""
        self._finisher.close()

    def steps(self) -> list[int]:
        """Steps of which there is a whole checkpoint, in order."""
        found = [(path, _NAME.fullmatch(path.name)) for path in self.folder.glob("step-*")]
        return sorted(int(m[1]) for path, m in found if m and (path / ".metadata").exists())

    def last(self) -> int | None:
        """The last undamaged step, as the first rank sees it; every rank must call.

        A directory that lacks a part of a shard is named in a warning, and passed over.
        """
        self.wait()
        return self._ranks.told(self._newest() if self._ranks.first else None)

    def _newest(self) -> int | None:
        known = self.steps()
        for step in reversed(known):
            damaged = reading.cut_short(self.folder / f"step-{step:09d}")
            if damaged is None:
                return step
            older = ": the one before it is taken" if step > known[0] else ""
            warnings.warn(f"{damaged} is cut short{older}", stacklevel=3)
        return known[-1] if known else None  # reading it says what is wrong, on every rank

    def told(self, step: int | None) -> int | None:
        """What the first rank says, on every rank."""
        return self._ranks.told(step)

    def load(
        self,
        models: Sequence[nn.Module],
        optimizer: Optimizer | None = None,
        *,
        step: int | None = None,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> Loaded | None:
        """Load a step, by default the last, in place; None if there is none. Every rank must call.

        Parameters whose optimizer state was not saved, because they had none, begin with zeros.

        Raises:
            FileNotFoundError: there is no such step, or some ranks do not see it.
            ValueError: the checkpoint is of another model.
        """
        if step is None and (step := self.last()) is None:
            return None
        path = self.folder / f"step-{step:09d}"
        self._seen_by_all(path)
        flat = template(models, optimizer) | {f"more.{k}": v for k, v in (tensors or {}).items()}
        found = reading.read(path, flat, self._ranks)
        put_back(models, optimizer, found.flat)
        return Loaded(step, found.shared, found.own)

    def _seen_by_all(self, path: Path) -> None:
        blind = self._ranks.where((path / ".metadata").exists())
        if len(blind) == self._ranks.world:
            known = self.steps()
            raise FileNotFoundError(f"{self.folder} has no whole checkpoint {path.name}: {known}")
        if blind:
            raise FileNotFoundError(
                f"{path} is not there for ranks {blind}: checkpoints of several nodes need a "
                "folder that all of them share"
            )

    def _finish(self, written: "Future[object]", partial: Path) -> None:
        """Give the directory its name, once all ranks have written, and drop old ones."""
        try:
            written.result()
        except CheckpointException as error:  # which is no Exception
            raise RuntimeError(
                f"{partial} could not be written: {reading.failure(error)}"
            ) from error
        if self._ranks.first:
            final = partial.with_suffix("")
            old = _aside(final, ".replaced")
            partial.rename(final)
            sync_folder(self.folder)
            outdated = [self.folder / f"step-{n:09d}" for n in self.steps()[: -self.keep]]
            for path in (old, *(_aside(one, ".gone") for one in outdated)):
                shutil.rmtree(path, ignore_errors=True)


def _aside(path: Path, suffix: str) -> Path:
    """Rename a directory that is to be removed, so that none is there by half."""
    gone = path.with_suffix(suffix)
    if path.exists():
        shutil.rmtree(gone, ignore_errors=True)
        path.rename(gone)
    return gone


def _clear(folder: Path) -> None:
    """Remove what killed processes were writing or removing; take back what was to be replaced.

    That is still whole: its removal begins when the step that replaces it has its name.
    """
    for old in folder.glob("step-*.replaced"):
        if not old.with_suffix("").exists():
            old.rename(old.with_suffix(""))
    for suffix in ("partial", "replaced", "gone"):
        for left in folder.glob(f"step-*.{suffix}"):
            shutil.rmtree(left, ignore_errors=True)
