"""A layout: how a model and its batch are split over the ranks."""

from dataclasses import dataclass

from hotlap.plan.cluster import Cluster
from hotlap.plan.flops import Recompute
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

    @property
    def world(self) -> int:
        """Ranks."""
        return self.replicate * self.shard * self.tensor * self.pipeline

    @property
    def data(self) -> int:
        """The data-parallel degree."""
        return self.replicate * self.shard

    def micro_batches(self, batch: int) -> int:
        """Micro-batches a rank computes in a step over `batch` sequences."""
        return batch // (self.data * self.micro_batch)

    def refusal(self, shape: Shape, cluster: Cluster, batch: int) -> str:
        """Why it cannot be built, whatever the memory; empty when it can."""
        micro = self.micro_batches(batch)
        heads = (shape.heads, shape.kv_heads)
        obstacles = (
            (
                self.world != cluster.gpus,
                f"its degrees make {self.world} ranks of {cluster.gpus} GPUs",
            ),
            (
                any(number % self.tensor for number in heads),
                f"tensor {self.tensor} does not divide the heads",
            ),
            (
                self.tensor > cluster.node,
                f"tensor {self.tensor} would leave the node of {cluster.node}",
            ),
            (
                shape.layers % self.pipeline,
                f"pipeline {self.pipeline} does not divide {shape.layers} layers",
            ),
            (
                batch % (self.data * self.micro_batch),
                f"{self.data} x {self.micro_batch} sequences do not divide the batch of {batch}",
            ),
            (micro < self.pipeline, f"{micro} micro-batches cannot fill {self.pipeline} stages"),
        )
        return next((reason for hit, reason in obstacles if hit), "")
