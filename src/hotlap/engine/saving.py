"""Where an engine's checkpoints go: a file of one process, or a directory of all ranks' shards."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from hotlap.common import ranks
from hotlap.engine.checkpointer import Checkpointer
from hotlap.engine.distribution import ModelDistribution, is_shard
from hotlap.engine.feed import elsewhere
from hotlap.engine.states import State, Stateful
from hotlap.engine.stepper import Stepper

if TYPE_CHECKING:
    from hotlap.parallel.sharded_checkpoint import ShardedCheckpointer


class Resumable(Protocol):
    """What of an engine is saved and restored."""

    global_step: int
    extra: dict[str, Stateful]
    distribution: ModelDistribution
    stepper: Stepper

    def state_dict(self) -> State:
        """Return all of it, for a file of one process."""

    def load_state_dict(self, state: State) -> None:
        """Take up what `state_dict` gave."""

    def shared_state(self) -> State:
        """Return what is the same on every rank."""

    def own_state(self) -> State:
        """Return what is this rank's own."""

    def load_rest(self, shared: State, own: State) -> None:
        """Take up both, the model's and the optimizer's state aside."""


def writer(folder: str, keep: int) -> "Checkpointer | ShardedCheckpointer":
    """What writes: directories of shards under torch.distributed, files without it."""
    return _sharded(folder, keep) if ranks.started() else Checkpointer(folder, keep=keep)


def _sharded(folder: str | Path, keep: int) -> "ShardedCheckpointer":
    from hotlap.parallel.sharded_checkpoint import ShardedCheckpointer

    return ShardedCheckpointer(folder, keep=keep)


def save(to: "Checkpointer | ShardedCheckpointer", engine: Resumable) -> None:
    """Write the engine's state in the background."""
    if isinstance(to, Checkpointer):
        to.save(engine.state_dict(), engine.global_step)
        return
    shared, own = engine.shared_state(), engine.own_state()
    shards = {name: state for name, state in shared["extra"].items() if _has_shards(state)}
    shared["extra"] = {k: v for k, v in shared["extra"].items() if k not in shards}
    shared["position"] = elsewhere(own["position"])
    to.save(
        engine.global_step,
        engine.distribution.parts,
        engine.stepper.optimizer,
        shared=shared,
        own=own,
        tensors=_flat(shards),
    )


def restore(source: "Checkpointer | ShardedCheckpointer", engine: Resumable) -> bool:
    """Take up the newest checkpoint of the folder, whichever way it was written.

    A training that began in one process goes on in several, and the other way round.
    """
    with ExitStack() as closing:
        if isinstance(source, Checkpointer):
            files, shards = source, _sharded(source.folder, source.keep)
            closing.callback(shards.close)
        else:
            shards, files = source, Checkpointer(source.folder, keep=source.keep, rank=0, world=1)
            closing.callback(files.close)
        file_step = shards.told(files.newest())
        shard_step = shards.last()
        if shard_step is not None and shard_step >= (file_step or 0):
            _restore_shards(shards, engine, shard_step)
        elif file_step is not None:
            _restore_file(files, engine, file_step)
        return file_step is not None or shard_step is not None


def _restore_file(files: Checkpointer, engine: Resumable, step: int) -> None:
    if engine.distribution.pipeline is not None:
        raise ValueError(
            f"{files.folder} has the checkpoint of one process, which stages cannot be taken from: "
            "start torchrun with one rank, resume, save, and go on from there"
        )
    state = files.load(step)
    if ranks.world_size() > 1:  # each rank reads the only one's
        state |= {"random": None, "position": elsewhere(state["position"])}
    engine.load_state_dict(state)


def _restore_shards(shards: "ShardedCheckpointer", engine: Resumable, step: int) -> None:
    states = {name: thing.state_dict() for name, thing in engine.extra.items()}
    spread = {name: state for name, state in states.items() if _has_shards(state)}
    found = shards.load(
        engine.distribution.parts, engine.stepper.optimizer, step=step, tensors=_flat(spread)
    )
    assert found is not None
    own = found.own or {"random": None, "position": found.shared["position"]}
    found.shared["extra"] |= spread  # whose tensors were loaded in place
    engine.load_rest(found.shared, own)


def _has_shards(state: State) -> bool:
    return any(map(is_shard, state.values()))


def _flat(states: dict[str, State]) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": value for name, state in states.items() for key, value in state.items()
    }
