"""Checkpoints: written beside the training, whole or not at all, the last few kept."""

import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from hotlap.common import ranks
from hotlap.common.background import Background
from hotlap.common.disk import sync_folder
from hotlap.engine.snapshot import Snapshot

_NAME = re.compile(r"step-(\d+)\.rank(\d+)of(\d+)\.pt")


class Checkpointer:
    """Writes `step-<n>.rank<r>of<w>.pt` into a folder and keeps those of the last `keep` steps.

    A file is written under another name, flushed to the disk and then renamed, so that a file with
    its name is always whole, whenever the process is killed. Each rank writes a file of its own; a
    step counts once all ranks' files are there. Files are read back with `weights_only=True`.

    Args:
        folder: made if it is not there.
        keep: how many steps to keep.
        rank, world: of this process; by default those of torch.distributed.
    """

    def __init__(
        self, folder: str | Path, *, keep: int = 3, rank: int | None = None, world: int = 0
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep={keep}: at least one checkpoint must be kept")
        self.folder = Path(folder)
        self.keep = keep
        self.rank = ranks.rank() if rank is None else rank
        self.world = world or ranks.world_size()
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"*.rank{self.rank}of*.partial"):
            left.unlink(missing_ok=True)  # of a process that was killed while it wrote
        self._writer = Background("checkpoint")

    def save(self, state: object, step: int) -> None:
        """Snapshot `state` now and write it in the background.

        A save that comes while the last one is still being written waits for it first.

        Raises:
            OSError: the last save failed, for want of space, for example.
        """
        self.wait()
        self._writer.start(self._write, Snapshot(state), step)

    def wait(self) -> None:
        """Wait until what was saved is on the disk; raise what went wrong with it."""
        self._writer.wait()

    def close(self) -> None:
        """Wait, and end the thread."""
        self._writer.close()

    def steps(self) -> list[int]:
        """Steps of which there is a whole checkpoint of all ranks, in order."""
        found: dict[int, set[int]] = {}
        for _, step, rank, world in self._files():
            if world == self.world:
                found.setdefault(step, set()).add(rank)
        return sorted(step for step, ranks in found.items() if len(ranks) == self.world)

    def load(self, step: int | None = None) -> Any:
        """Read this rank's state at a step, by default the newest; None if there is none.

        Tensors come back on the CPU.

        Raises:
            ValueError: there is no such step, or every checkpoint is damaged.
        """
        known = self.steps()
        if step is None:
            step = self.newest()
        if step is None:
            return None
        if step not in known:
            raise ValueError(f"{self.folder} has no whole checkpoint of step {step}: {known}")
        return torch.load(self._path(step, self.rank), map_location="cpu", weights_only=True)

    def newest(self) -> int | None:
        """The newest step whose files, those of all ranks, are undamaged; None without any.

        A file that was cut short (by a full disk, or by a copy that stopped) is named in a warning.

        Raises:
            ValueError: there are checkpoints, and all of them are damaged.
        """
        known = self.steps()
        for step in reversed(known):
            damaged = [p for r in range(self.world) if _cut(p := self._path(step, r))]
            if not damaged:
                return step
            warnings.warn(damage(damaged[0], step > known[0]), stacklevel=2)
        if known:
            raise ValueError(f"{self.folder} has damaged checkpoints only, of the steps {known}")
        return None

    def _path(self, step: int, rank: int) -> Path:
        return self.folder / f"step-{step:09d}.rank{rank}of{self.world}.pt"

    def _write(self, snapshot: Snapshot, step: int) -> None:
        path = self._path(step, self.rank)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            torch.save(snapshot.ready(), file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(self.folder)
        self._prune()

    def _prune(self) -> None:
        """Remove this rank's files from before the last `keep` whole steps."""
        kept = self.steps()[-self.keep :]
        for path, step, rank, _ in self._files():
            if rank == self.rank and len(kept) == self.keep and step < kept[0]:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[Path, int, int, int]]:
        for path in self.folder.iterdir():
            if match := _NAME.fullmatch(path.name):
                step, rank, world = map(int, match.groups())
                yield path, step, rank, world


def damage(path: Path, older: bool) -> str:
    """What is said of a checkpoint that is passed over."""
    return f"{path} is cut short" + (": the one before it is taken" if older else "")


def _cut(path: Path) -> bool:
    """Whether a file lacks its end, which holds the directory of what is in it."""
    try:
        with zipfile.ZipFile(path):
            return False
    except (OSError, zipfile.BadZipFile):
        return True
