"""What starts a layout: the Parallelism that `hotlap.parallel` reads, and the torchrun line."""

from hotlap.parallel.parallelism import Parallelism
from hotlap.plan.cluster import Cluster
from hotlap.plan.flops import Recompute
from hotlap.plan.number_formats import Precision
from hotlap.plan.parallel_layout import Layout


def parallelism(layout: Layout, batch: int) -> Parallelism:
    """The layout as `hotlap.parallel.parallelize` takes it."""
    mixed = layout.precision is Precision.MIXED and layout.fsdp
    micro = layout.micro_batches(batch) if layout.pipeline > 1 else 0
    return Parallelism(
        data_parallel_replicate_degree=layout.replicate,
        data_parallel_shard_degree=layout.shard,
        tensor_parallel_degree=layout.tensor,
        sequence_parallel=layout.tensor > 1,
        loss_parallel=layout.tensor > 1,
        pipeline_parallel_degree=layout.pipeline,
        pipeline_parallel_microbatches=micro,
        mixed_precision_param="bfloat16" if mixed else "",
        mixed_precision_reduce="float32" if mixed else "",
    )


def toml(layout: Layout, batch: int) -> str:
    """A file that `Parallelism.from_toml` reads, with what the training loop is to do beside it."""
    micro = layout.micro_batches(batch)
    accumulate = 1 if layout.pipeline > 1 else micro
    return (
        f"{parallelism(layout, batch).to_toml()}\n"
        "[training]\n"
        f"global_batch_size = {batch}\n"
        f"local_batch_size = {batch // layout.data}  # sequences a data-parallel rank and step\n"
        f"micro_batch_size = {layout.micro_batch}\n"
        f"accumulate = {accumulate}\n"
        f'weights = "{layout.precision.dtype}"\n'
        f"autocast = {str(layout.autocast).lower()}\n"
        f"recompute_blocks = {str(layout.recompute is Recompute.FULL).lower()}\n"
    )


def torchrun(cluster: Cluster) -> str:
    """The line that starts it on every node."""
    node = min(cluster.node, cluster.gpus)
    nodes = -(-cluster.gpus // node)
    if nodes == 1:
        return f"torchrun --standalone --nproc-per-node {node} train.py"
    return (
        f"torchrun --nnodes {nodes} --nproc-per-node {node} --rdzv-backend c10d "
        "--rdzv-endpoint $HEAD_NODE:29500 train.py"
    )
