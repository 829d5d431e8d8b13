"""A layout: how a model and its batch are split over the ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from hotlap.plan.cluster import Cluster
from hotlap.plan.flops import Recompute
from hotlap.plan.number_formats import Precision
from hotlap.plan.shape import Shape


@dataclass(frozen=True)
class Layout:
    """The degrees of each kind of parallelism; their product is the world size.

    `replicate` x `shard` is the data-parallel degree (FSDP over `shard`), `micro_batch` the
    sequences a rank computes at once. Sequence parallelism goes with `tensor` above 1.
    """

    replicate: int
    shard: int
    tensor: int
    pipeline: int
    micro_batch: int
    recompute: Recompute
    precision: Precision = Precision.MIXED

    @property
    def world(self) -> int:
        """Ranks."""
        return self.replicate * self.shard * self.tensor * self.pipeline

    @property
    def data(self) -> int:
        """The data-parallel degree."""
        return self.replicate * self.shard

    @property
    def ddp(self) -> bool:
        """Whether replicas are kept equal by DDP: as `hotlap.parallel` chooses."""
        return self.replicate > 1 and self.shard == 1 and self.tensor == 1

    @property
    def fsdp(self) -> bool:
        """Whether FSDP is used: for shards, or for replicas of what tensor ranks share."""
        return self.data > 1 and not self.ddp

    @property
    def autocast(self) -> bool:
        """Whether autocast is what narrows the passes: where FSDP does not."""
        return self.precision is Precision.MIXED and not self.fsdp

    def micro_batches(self, batch: int) -> int:
        """Micro-batches a rank computes in a step over `batch` sequences."""
        return batch // (self.data * self.micro_batch)

    def refusal(self, shape: Shape, cluster: Cluster, batch: int) -> str:
        """Why it cannot be built, whatever the memory; empty when it can."""
        reasons = chain(self._degrees(shape, cluster), self._batches(batch), self._numbers())
        return next(reasons, "")

    def _degrees(self, shape: Shape, cluster: Cluster) -> Iterator[str]:
        t = self.tensor
        if self.world != cluster.gpus:
            yield f"its degrees make {self.world} ranks of {cluster.gpus} GPUs"
        if shape.whole and (t > 1 or self.pipeline > 1 or self.recompute is not Recompute.NONE):
            yield shape.whole
        if t > cluster.node:
            yield f"tensor {t} would leave the node of {cluster.node}"
        for what, number in shape.split_by_tensor.items():
            if number % t:
                yield f"tensor {t} does not divide {what} ({number})"
        if shape.layers % self.pipeline:
            yield f"pipeline {self.pipeline} does not divide {shape.layers} layers"

    def _batches(self, batch: int) -> Iterator[str]:
        if batch % (self.data * self.micro_batch):
            yield f"{self.data} x {self.micro_batch} sequences do not divide the batch of {batch}"
        micro = self.micro_batches(batch)
        if micro < self.pipeline:
            yield f"{micro} micro-batches cannot fill {self.pipeline} stages"

    def _numbers(self) -> Iterator[str]:
        alone = self.tensor == self.pipeline == 1
        if self.precision is Precision.MIXED and not self.fsdp and not alone:
            yield (
                "mixed precision beside tensor or pipeline parallelism is FSDP's, which needs "
                "data-parallel ranks (or --precision bf16)"
            )
