"""A model spread over ranks, in the one order that works."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hotlap.parallel import splitting
from hotlap.parallel.mesh import Mesh, build
from hotlap.parallel.norms import clip_grad_norm_, global_norm
from hotlap.parallel.parallelism import Parallelism
from hotlap.parallel.pipeline import Loss, Pipeline
from hotlap.parallel.pipeline_schedules import own_stages
from hotlap.parallel.tensor import PlanLike
from hotlap.parallel.tying import tie, tied


@dataclass(frozen=True)
class Parallelized:
    """What this rank trains.

    Attributes:
        parts: the model, or this rank's stages of it: wrapped by DDP or sharded by FSDP2, as they
            are called. Optimizers take `parameters()`.
        mesh: where this rank is; `mesh.data_rank` of `mesh.data_ranks` says which data are its own.
        pipeline: makes the steps where there is a pipeline; None elsewhere.
    """

    parts: tuple[nn.Module, ...]
    mesh: Mesh
    pipeline: Pipeline | None

    @property
    def parallelism(self) -> Parallelism:
        """The degrees, with that of the shards filled in."""
        return self.mesh.parallelism

    @property
    def model(self) -> nn.Module:
        """The one part; of a pipeline with several stages on a rank, a list of them."""
        return self.parts[0] if len(self.parts) == 1 else nn.ModuleList(self.parts)

    def parameters(self) -> list[nn.Parameter]:
        """Those of all parts; DTensors where they are sharded."""
        return [parameter for part in self.parts for parameter in part.parameters()]

    def norm(self) -> Tensor:
        """The norm of all gradients over all ranks; every rank must ask."""
        return global_norm(self.parameters(), self.mesh["pipeline"])

    def clip(self, max_norm: float) -> Tensor:
        """Scale all gradients to a norm of at most `max_norm` over all ranks; return it before."""
        return clip_grad_norm_(self.parameters(), max_norm, self.mesh["pipeline"])

    def loss_context(self) -> AbstractContextManager[None]:
        """What the loss and its backward run in; it matters under loss_parallel."""
        if not self.parallelism.loss_parallel:
            return nullcontext()
        from torch.distributed.tensor.parallel import loss_parallel

        context: AbstractContextManager[None] = loss_parallel()
        return context


@dataclass(frozen=True)
class Preparation:
    """What is done to blocks between splitting and sharding.

    Args:
        recompute: names of blocks to recompute in backward, with `*` for one part of a name.
        compile: mode of torch.compile for each block by itself; empty: not compiled.
        blocks: names of what FSDP shards and torch.compile compiles one by one; empty: the layers
            that repeat side by side.
        init: gives parameters their values where the model was built on the meta device.
    """

    recompute: Sequence[str] = ()
    compile: str = ""
    blocks: Sequence[str] = ()
    init: Callable[[nn.Module], object] | None = None


def parallelize(
    model: nn.Module,
    parallelism: Parallelism,
    *,
    tp_plan: PlanLike | None = None,
    stages: Sequence[Sequence[str]] | None = None,
    loss: Loss | None = None,
    preparation: Preparation | None = None,
    device: torch.device | str = "",
) -> Parallelized:
    """Spread a model over the ranks of the process group; each rank calls it with the same model.

    The order is: stages, tensor parallelism, recomputation, compilation, FSDP or DDP. Build the
    optimizer afterwards. The first rank's parameters are every rank's.

    Args:
        model: the whole model, on the CPU, a device or the meta device. It is used up.
        parallelism: how.
        tp_plan: for tensor parallelism: `gpt`, `llama`, `gpt2`, `vit`, or names and styles.
        stages: for a pipeline: the names of each stage's layers, in order; None: the layers that
            repeat are shared out evenly.
        loss: for a pipeline: from output and target of a micro-batch to its mean loss.
        preparation: recomputation, compilation, and which blocks to shard one by one.
        device: empty: this rank's CUDA device under NCCL, the CPU otherwise.

    Raises:
        ValueError: the degrees do not fit the world, the plan or the stages not the model.
        RuntimeError: torch.distributed is not initialised.
    """
    mesh = build(parallelism, device)
    prepared = preparation or Preparation()
    made = _Making(model, mesh, prepared)
    parts = made.parts(stages)
    if parallelism.tensor_parallel_degree > 1:
        made.tensor(parts, tp_plan)
    parts = [made.finished(part) for part in parts]
    pipeline = Pipeline(parts, mesh, loss) if mesh["pipeline"] is not None else None
    return Parallelized(tuple(parts), mesh, pipeline)


class _Making:
    """The steps of `parallelize`, each on one part."""

    def __init__(self, model: nn.Module, mesh: Mesh, preparation: Preparation) -> None:
        from hotlap.common.recomputing import named, repeated

        self.model, self.mesh, self.preparation = model, mesh, preparation
        blocks = named(model, preparation.blocks) if preparation.blocks else repeated(model)
        recompute = named(model, preparation.recompute) if preparation.recompute else []
        self.blocks, self.recompute = set(blocks), set(recompute)

    def parts(self, stages: Sequence[Sequence[str]] | None) -> list[nn.Module]:
        """Find the stages of this rank, on its device; one part without a pipeline."""
        parts = self._split(stages) if self.mesh["pipeline"] is not None else [self.model]
        for part in parts:
            if not _on_meta(part):
                part.to(self.mesh.device)
                self._same(part)
        return parts

    def _split(self, stages: Sequence[Sequence[str]] | None) -> list[nn.Module]:
        parallelism = self.mesh.parallelism
        number = parallelism.stages
        names = stages or splitting.stage_names(self.model, number)
        if len(names) != number:
            raise ValueError(
                f"stages= names {len(names)} stages, and {parallelism.pipeline_parallel_schedule} "
                f"over {parallelism.pipeline_parallel_degree} ranks has {number}"
            )
        splitting.check(self.model, names)
        everything = [name for stage in names for name in stage]
        own = own_stages(parallelism, self.mesh.rank("pipeline"))
        return [splitting.part(self.model, names[index], everything) for index in own]

    def _same(self, part: nn.Module) -> None:
        """Take over the parameters and buffers of the first of the ranks that have this part."""
        for name in ("tensor", "shard", "replicate"):
            along = self.mesh[name]
            if along is None:
                continue
            for tensor in (*part.parameters(), *part.buffers()):
                dist.broadcast(tensor.data, group=along.get_group(), group_src=0)

    def tensor(self, parts: Sequence[nn.Module], asked: PlanLike | None) -> None:
        """Tensor parallelism."""
        from hotlap.parallel import tensor

        plan = tensor.plan_of(asked, self.mesh.parallelism)
        tensor.check(self.model, plan)
        along = self.mesh["tensor"]
        assert along is not None
        for part in parts:
            tensor.shard(part, along, plan)

    def finished(self, part: nn.Module) -> nn.Module:
        """Recomputation, compilation, and FSDP or DDP."""
        from hotlap.common.recomputing import recompute

        modules = set(part.modules())
        recompute([block for block in self.recompute if block in modules])
        blocks = [module for module in part.modules() if module in self.blocks]
        if self.preparation.compile:
            self._compile(blocks)
        if self.mesh.parallelism.sync_batch_norm:
            from hotlap.parallel.replicas import synchronise_batch_norm

            part = synchronise_batch_norm(part, self.mesh)
        return self._initialised(self._data_parallel(part, blocks))

    def _compile(self, blocks: Sequence[nn.Module]) -> None:
        if self.mesh.parallelism.tensor_parallel_degree > 1 and not self.recompute.isdisjoint(
            blocks
        ):
            raise ValueError(
                "torch.compile fails on blocks that are recomputed under tensor parallelism: leave "
                "compile or recompute off"
            )
        for block in blocks:
            _compilable(block)
            block.compile(mode=self.preparation.compile)

    def _data_parallel(self, part: nn.Module, blocks: Sequence[nn.Module]) -> nn.Module:
        if self.mesh.parallelism.ddp:
            from hotlap.parallel.replicas import replicate

            return replicate(part, self.mesh)
        if self.mesh.parallelism.fsdp:
            from hotlap.parallel.sharding import shard

            shard(part, blocks, self.mesh)
        return part

    def _initialised(self, part: nn.Module) -> nn.Module:
        if _on_meta(part):
            if self.preparation.init is None:
                raise ValueError(
                    "the model is on the meta device: give Preparation(init=...), which fills its "
                    "parameters"
                )
            together = tied(part)
            part.to_empty(device=self.mesh.device)  # which parts them
            tie(part, together)
            self.preparation.init(part)
        return part


def _on_meta(model: nn.Module) -> bool:
    """Whether it has parameters without memory."""
    return any(parameter.device.type == "meta" for parameter in model.parameters())


def _compilable(block: nn.Module) -> None:
    """Refuse what torch.compile reads wrongly: it takes parameters past a module's properties."""
    if any(hasattr(module, "_computing") for module in block.modules()):
        raise ValueError(
            f"{type(block).__name__} has layers that tensor parallelism replicates or that are "
            "fused, which torch.compile cannot trace: leave compile off, or use a plan with "
            "sequence_parallel, which spreads the norms as well"
        )
