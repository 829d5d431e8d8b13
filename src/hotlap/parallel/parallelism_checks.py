"""What cannot be in a Parallelism, whatever the world."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hotlap.parallel.names import DTYPES, HOOKS, RESHARD, SCHEDULES

if TYPE_CHECKING:
    from hotlap.parallel.parallelism import Parallelism

_CHOICES = {
    "pipeline_parallel_schedule": tuple(SCHEDULES),
    "reshard_after_forward": RESHARD,
    "mixed_precision_param": DTYPES,
    "mixed_precision_reduce": DTYPES,
    "ddp_comm_hook": HOOKS,
}
_SWITCHES = (
    "sequence_parallel",
    "loss_parallel",
    "cpu_offload",
    "ddp_gradient_as_bucket_view",
    "sync_batch_norm",
)


def mistakes(c: "Parallelism") -> Iterator[str]:
    """Say what is wrong, each in one sentence; kinds of values first."""
    wrong = list(_kinds(c))
    yield from wrong or _combinations(c)


def _kinds(c: "Parallelism") -> Iterator[str]:
    yield from _numbers(c)
    for name, words in _CHOICES.items():
        if getattr(c, name) not in words:
            yield f"{name}={getattr(c, name)!r} is none of {', '.join(w for w in words if w)}"
    for name in _SWITCHES:
        if not isinstance(getattr(c, name), bool):
            yield f"{name}={getattr(c, name)!r}: true or false"


def _numbers(c: "Parallelism") -> Iterator[str]:
    for name, degree in c.degrees.items():
        left = degree == -1 and name == "data_parallel_shard_degree"
        if not _whole(degree) or not (degree >= 1 or left):
            yield f"{name}={degree!r}: at least 1" + ", or -1" * ("shard" in name)
    micro = c.pipeline_parallel_microbatches
    if not _whole(micro) or micro < 0:
        yield f"pipeline_parallel_microbatches={micro!r}: cannot be negative; 0: as many as stages"
    if not c.ddp_bucket_cap_mb > 0:
        yield f"ddp_bucket_cap_mb={c.ddp_bucket_cap_mb!r}: above 0"


def _combinations(c: "Parallelism") -> Iterator[str]:
    if c.tensor_parallel_degree == 1 and (c.sequence_parallel or c.loss_parallel):
        which = "sequence_parallel" if c.sequence_parallel else "loss_parallel"
        yield f"{which} shards over tensor_parallel_degree, which is 1"
    if c.pipeline_parallel_degree > 1:
        yield from _micro_batches(c)
    if c.ddp_comm_hook and not c.ddp:
        yield (
            f"ddp_comm_hook={c.ddp_comm_hook!r} is DDP's, which is used where only replicas (and "
            "a pipeline) are: for FSDP give mixed_precision_reduce"
        )


def _micro_batches(c: "Parallelism") -> Iterator[str]:
    kind = SCHEDULES[c.pipeline_parallel_schedule]
    number, ranks = c.microbatches, c.pipeline_parallel_degree
    stages = ranks * kind.stages
    if kind.full and number < stages:
        yield (
            f"pipeline_parallel_microbatches={number} cannot fill {stages} stages ({ranks} ranks "
            f"under {c.pipeline_parallel_schedule}): at least {stages}, or 0"
        )
    rounds = max(1, number // ranks)
    if kind.rounds and number % rounds:
        yield (
            f"pipeline_parallel_microbatches={number}: {c.pipeline_parallel_schedule} works in "
            f"{rounds} equal rounds here; give a multiple of {ranks}"
        )


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
