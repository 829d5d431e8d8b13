"""How a model is spread over ranks, as one frozen record."""

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from hotlap.parallel.names import DTYPES, HOOKS, RESHARD, SCHEDULES, canonical

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


@dataclass(frozen=True)
class Parallelism:
    """The degrees of each kind of parallelism and how each works; their product is the world size.

    Names are torchtitan's; `Parallelism.of` takes Accelerate's and shorter ones as well.

    Args:
        data_parallel_replicate_degree: copies of the model (DDP; HSDP together with shards).
        data_parallel_shard_degree: ranks that share parameters, gradients and optimizer state
            (FSDP2); -1: as many as are left of the world.
        tensor_parallel_degree: ranks that share each matrix.
        sequence_parallel: between the matrices, shard activations along the sequence (with tensor
            parallelism).
        loss_parallel: leave the logits sharded along the vocabulary, and compute the loss so.
        pipeline_parallel_degree: ranks that hold consecutive layers.
        pipeline_parallel_schedule: a schedule of torch.distributed.pipelining, by name.
        pipeline_parallel_microbatches: parts that a batch is cut into; 0: as many as stages.
        reshard_after_forward: `always`, `never`, or `default`: not under a pipeline, where each
            micro-batch would gather the parameters again.
        cpu_offload: keep shards and optimizer state in the host's memory.
        mixed_precision_param: dtype of parameters in forward and backward under FSDP; empty: as
            they are.
        mixed_precision_reduce: dtype in which gradients are reduced under FSDP; empty: as they are.
        ddp_bucket_cap_mb: MiB of gradients to one all-reduce.
        ddp_gradient_as_bucket_view: let gradients be views of the buckets: one copy less.
        ddp_comm_hook: `bf16`, `fp16` or `powersgd`: what gradients are compressed to on the way.
        sync_batch_norm: batch normalisation over all replicas (CUDA only).

    Raises:
        ValueError: a value that cannot be.
    """

    data_parallel_replicate_degree: int = 1
    data_parallel_shard_degree: int = 1
    tensor_parallel_degree: int = 1
    sequence_parallel: bool = False
    loss_parallel: bool = False
    pipeline_parallel_degree: int = 1
    pipeline_parallel_schedule: str = "1F1B"
    pipeline_parallel_microbatches: int = 0
    reshard_after_forward: str = "default"
    cpu_offload: bool = False
    mixed_precision_param: str = ""
    mixed_precision_reduce: str = ""
    ddp_bucket_cap_mb: float = 25.0
    ddp_gradient_as_bucket_view: bool = True
    ddp_comm_hook: str = ""
    sync_batch_norm: bool = False

    def __post_init__(self) -> None:
        for why in _mistakes(self):
            raise ValueError(f"Parallelism: {why}")

    @staticmethod
    def of(**names: object) -> "Parallelism":
        """Make one from field names, Accelerate's names (`dp_shard_size`) or short ones (`shard`).

        Raises:
            ValueError: a name that is none of them, or two names of one field.
        """
        return Parallelism(**canonical(names))

    @staticmethod
    def from_toml(path: str | Path, **changes: object) -> "Parallelism":
        """Read the `[parallelism]` table of a file; `changes` come last.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: not TOML, no such table, or a name or value that cannot be.
        """
        try:
            table = tomllib.loads(Path(path).read_text()).get("parallelism")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}") from None
        if not isinstance(table, dict):
            raise ValueError(f"{path} has no table [parallelism]")  # noqa: TRY004
        return Parallelism(**canonical(table) | canonical(changes))

    def to_toml(self) -> str:
        """The `[parallelism]` table: what is not as it is by default."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        changed = [n for n, f in zip(given, fields(self), strict=True) if given[n] != f.default]
        lines = [f"{name} = {_toml(given[name])}" for name in changed]
        return "\n".join(["[parallelism]", *lines, ""])

    @property
    def degrees(self) -> dict[str, int]:
        """The degree of each kind, by field name, outermost in the mesh first."""
        return {name: getattr(self, name) for name in DEGREES}

    @property
    def world(self) -> int:
        """Ranks it takes.

        Raises:
            ValueError: the shard degree is still -1: it is known with the world size only.
        """
        if self.data_parallel_shard_degree == -1:
            raise ValueError(
                "data_parallel_shard_degree=-1 is what a world leaves: resolved(world)"
            )
        return math.prod(self.degrees.values())

    @property
    def ddp(self) -> bool:
        """Whether replicas are kept equal by DDP: where nothing but a pipeline is beside them."""
        return self.data_parallel_replicate_degree > 1 and not self.fsdp

    @property
    def fsdp(self) -> bool:
        """Whether FSDP2 is used.

        For shards, for replicas of what tensor parallelism has sharded, and wherever one of its
        abilities is asked for, on a single rank too.
        """
        copies = self.data_parallel_replicate_degree > 1 and self.tensor_parallel_degree > 1
        return self.data_parallel_shard_degree != 1 or copies or self._asks_fsdp

    @property
    def _asks_fsdp(self) -> bool:
        precision = self.mixed_precision_param or self.mixed_precision_reduce
        return self.cpu_offload or bool(precision)

    @property
    def stages(self) -> int:
        """Stages of the whole pipeline."""
        per_rank = SCHEDULES[self.pipeline_parallel_schedule].stages
        return self.pipeline_parallel_degree * per_rank if self.pipeline_parallel_degree > 1 else 1

    @property
    def microbatches(self) -> int:
        """Parts that a pipeline cuts a batch into."""
        return self.pipeline_parallel_microbatches or self.stages

    def resolved(self, world: int) -> "Parallelism":
        """The same with the shard degree filled in, checked against the world size.

        Raises:
            ValueError: the degrees do not multiply to it; says which do not fit.
        """
        shard = self.data_parallel_shard_degree
        if shard == -1:
            shard = max(world // math.prod(abs(n) for n in self.degrees.values()), 1)
        full = replace(self, data_parallel_shard_degree=shard)
        if full.world != world:
            raise ValueError(_misfit(self.degrees, world))
        return full


DEGREES = (
    "pipeline_parallel_degree",
    "data_parallel_replicate_degree",
    "data_parallel_shard_degree",
    "tensor_parallel_degree",
)


def _misfit(degrees: Mapping[str, int], world: int) -> str:
    given = {name: degree for name, degree in degrees.items() if degree not in (1, -1)}
    product = " x ".join(f"{name}={degree}" for name, degree in given.items()) or "all degrees 1"
    total = math.prod(given.values())
    alone = [f"{name}={degree}" for name, degree in given.items() if world % degree]
    if alone:
        why = f"{' and '.join(alone)} does not divide {world}"
    elif total == 1:
        why = "say how to use the others; data_parallel_shard_degree=-1 takes all that are left"
    elif world % total:
        why = f"together they make {total}, which does not divide {world}"
    else:
        why = f"together they make {total}; data_parallel_shard_degree=-1 takes all that are left"
    return f"{product} does not fill a world of {world} ranks: {why}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _mistakes(c: Parallelism) -> Iterator[str]:
    """Say what is wrong, each in one sentence; kinds of values first."""
    wrong = list(_kinds(c))
    yield from wrong or _combinations(c)


def _kinds(c: Parallelism) -> Iterator[str]:
    yield from _numbers(c)
    for name, words in _CHOICES.items():
        if getattr(c, name) not in words:
            yield f"{name}={getattr(c, name)!r} is none of {', '.join(w for w in words if w)}"
    for name in _SWITCHES:
        if not isinstance(getattr(c, name), bool):
            yield f"{name}={getattr(c, name)!r}: true or false"


def _numbers(c: Parallelism) -> Iterator[str]:
    for name, degree in c.degrees.items():
        left = degree == -1 and name == "data_parallel_shard_degree"
        if not _whole(degree) or not (degree >= 1 or left):
            yield f"{name}={degree!r}: at least 1" + ", or -1" * ("shard" in name)
    micro = c.pipeline_parallel_microbatches
    if not _whole(micro) or micro < 0:
        yield f"pipeline_parallel_microbatches={micro!r}: cannot be negative; 0: as many as stages"
    if not c.ddp_bucket_cap_mb > 0:
        yield f"ddp_bucket_cap_mb={c.ddp_bucket_cap_mb!r}: above 0"


def _combinations(c: Parallelism) -> Iterator[str]:
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


def _micro_batches(c: Parallelism) -> Iterator[str]:
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


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
