"""Reading a directory of shards into the layout that is here."""

import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict_loader import load

from hotlap.parallel.control_group import Meeting
from hotlap.parallel.state import MODEL, OPTIMIZER, STATE, Flat, unpacked


@dataclass(frozen=True)
class LoadedShards:
    """A checkpoint as read: names to values, what all ranks share, what was this rank's own."""

    flat: Flat
    shared: object
    own: object


class _Planner(DefaultLoadPlanner):
    """Takes names as they are, and reads plain values without running code of theirs."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put a plain value in its place."""
        self.state_dict[read_item.dest_index.fqn] = torch.load(value, weights_only=True)


def read(path: Path, flat: Flat, ranks: Meeting) -> LoadedShards:
    """Fill the tensors of `flat` in place; names of the optimizer that were not saved stay.

    Raises:
        ValueError: the model has names that were not saved, or lacks some that were, or has other
            shapes.
    """
    reader = FileSystemReader(path)
    saved = reader.read_metadata().state_dict_metadata
    _same_model(path, set(saved), set(flat), ranks)
    wanted = {name: value for name, value in flat.items() if name in saved}
    own = f"own.{ranks.rank}"
    for name in ("shared", own):
        if isinstance(entry := saved.get(name), TensorStorageMetadata):
            wanted[name] = torch.empty(entry.size, dtype=torch.uint8)
    try:
        _load(reader, wanted, ranks)
    except CheckpointException as error:
        raise ValueError(f"{path} cannot be read into this model: {failure(error)}") from error
    shared = unpacked(wanted.pop("shared"))
    mine = unpacked(wanted.pop(own)) if own in wanted else None
    same = shared["world"] == ranks.world
    return LoadedShards(_completed(flat, wanted), shared["value"], mine if same else None)


def cut_short(path: Path) -> Path | None:
    """The first file of a checkpoint that is missing or lacks its end; None: all are whole."""
    try:
        parts = FileSystemReader(path).read_metadata().storage_data.values()
    except Exception:  # a pickle that was cut off can fail in any way
        return path / ".metadata"
    ends: dict[str, int] = {}
    for part in parts:
        end = part.offset + part.length
        ends[part.relative_path] = max(end, ends.get(part.relative_path, 0))
    for name, end in sorted(ends.items()):
        file = path / name
        if not file.is_file() or file.stat().st_size < end:
            return file
    return None


def _load(reader: FileSystemReader, wanted: Flat, ranks: Meeting) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is", UserWarning)  # as is meant
        load(
            wanted,
            storage_reader=reader,
            planner=_Planner(),
            process_group=ranks.group,
            no_dist=ranks.alone,
        )


def failure(error: CheckpointException) -> str:
    """What went wrong on the first rank that failed; torch's error is no Exception."""
    rank, (cause, _) = next(iter(error.failures.items()))
    return f"rank {rank}: {cause}"


def _completed(flat: Flat, wanted: Flat) -> Flat:
    """Add what was not saved: zeros, where other parameters have state; else nothing."""
    missing = {name: value for name, value in flat.items() if name not in wanted}
    if not any(name.startswith(STATE) for name in wanted):
        missing = {k: v for k, v in missing.items() if not k.startswith(STATE)}
    return wanted | {k: _zero(v) if k.startswith(STATE) else v for k, v in missing.items()}


def _zero(value: object) -> object:
    """What an optimizer's first step finds: torch makes the state by a step, and counts it."""
    return value.zero_() if isinstance(value, Tensor) else type(value)()


def _same_model(path: Path, saved: set[str], here: set[str], ranks: Meeting) -> None:
    """Compare with what all ranks together have: a pipeline's rank has some layers only."""
    everywhere = ranks.union({name for name in here if not name.startswith(OPTIMIZER)})
    models = {name for name in saved if name.startswith(MODEL)}
    unsaved = sorted(everywhere - saved)
    unknown = sorted(models - everywhere)
    if unsaved or unknown:
        raise ValueError(
            f"{path} is of another model: it lacks {_some(unsaved)}, and this model lacks "
            f"{_some(unknown)}"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "nothing"
