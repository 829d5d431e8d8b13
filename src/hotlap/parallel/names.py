"""What the fields of a Parallelism are called elsewhere, and the words their values may be."""

from collections.abc import Mapping
from typing import Any, NamedTuple

DTYPES = ("", "float32", "bfloat16", "float16")
RESHARD = ("default", "always", "never")
HOOKS = ("", "bf16", "fp16", "powersgd")


class Kind(NamedTuple):
    """A schedule: the stages it puts on a rank, and what micro-batches it can work with.

    `folded`: the ranks take the second half of the stages in reverse, as in a V. `full`: at least
    as many micro-batches as stages. `rounds`: micro-batches come in rounds of about one a rank.
    """

    stages: int = 1
    folded: bool = False
    full: bool = False
    rounds: bool = False


# Schedules of torch.distributed.pipelining, by the names torch knows them by.
SCHEDULES = {
    "GPipe": Kind(),
    "1F1B": Kind(full=True),
    "Interleaved1F1B": Kind(2, rounds=True),
    "LoopedBFS": Kind(2),
    "InterleavedZeroBubble": Kind(2, rounds=True),
    "ZBVZeroBubble": Kind(2, folded=True),
    "DualPipeV": Kind(2, folded=True, full=True),
}

# The field, then what Accelerate, torchtitan, torch and people in a hurry call it.
ALIASES = {
    "data_parallel_replicate_degree": ("dp_replicate_size", "dp_replicate", "replicate", "ddp"),
    "data_parallel_shard_degree": ("dp_shard_size", "dp_shard", "shard", "fsdp"),
    "tensor_parallel_degree": ("tp_size", "tp", "tensor"),
    "sequence_parallel": ("sequence",),
    "loss_parallel": (),
    "pipeline_parallel_degree": ("pp_size", "pp", "pipeline"),
    "pipeline_parallel_schedule": ("schedule",),
    "pipeline_parallel_microbatches": ("microbatches", "n_microbatches", "chunks"),
    "reshard_after_forward": ("fsdp_reshard_after_forward", "reshard"),
    "cpu_offload": ("enable_cpu_offload",),
    "mixed_precision_param": ("param_dtype",),
    "mixed_precision_reduce": ("reduce_dtype",),
    "ddp_bucket_cap_mb": ("bucket_cap_mb",),
    "ddp_gradient_as_bucket_view": ("gradient_as_bucket_view",),
    "ddp_comm_hook": ("comm_hook",),
    "sync_batch_norm": (),
}
CANONICAL = {alias: field for field, names in ALIASES.items() for alias in (field, *names)}
_ONE = {"context_parallel_degree", "expert_parallel_degree", "cp_size", "sp_size", "cp"}


def canonical(names: Mapping[str, object]) -> dict[str, Any]:
    """The same values under the names of the fields.

    Raises:
        ValueError: a name that is none, or two names of one field.
    """
    found: dict[str, object] = {}
    said: dict[str, str] = {}
    for name, value in names.items():
        if name in _ONE and value == 1:
            continue
        field = CANONICAL.get(name)
        if field is None:
            raise ValueError(_unknown(name))
        if field in said:
            raise ValueError(f"Parallelism: {said[field]} and {name} are the same: give one")
        said[field], found[field] = name, value
    return found


def _unknown(name: str) -> str:
    if name in _ONE:
        return f"Parallelism: {name} above 1 is not supported: no context or expert parallelism"
    return f"Parallelism has no {name!r}; it has {', '.join(ALIASES)}"
