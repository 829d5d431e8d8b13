"""How plans look in the terminal, and what starts the chosen one."""

from rich.console import Console
from rich.table import Table

from hotlap.plan.cluster import GIB, Cluster
from hotlap.plan.cost import Plan
from hotlap.plan.layout import Layout
from hotlap.plan.search import RESERVE, Plans
from hotlap.plan.shape import Shape

SHOWN, CLOSEST = 10, 3
COLUMNS = ("dp", "tp", "pp", "mb", "recomp", "GiB", "state", "activ", "bubble", "step s",
           "tokens/s", "MFU")  # fmt: skip


def show(out: Console, plans: Plans, shape: Shape, cluster: Cluster, batch: int) -> None:
    """The table of what fits, or what comes closest; then why the others were left out."""
    out.print(
        f"{shape.parameters / 1e9:.3g} G parameters, {cluster.gpus} x {cluster.name}, "
        f"batch {batch} x {shape.sequence} tokens; {RESERVE:.0%} of memory kept free"
    )
    if plans.fitting:
        out.print(_table(plans.fitting[:SHOWN]))
        more = len(plans.fitting) - SHOWN
        if more > 0:
            out.print(f"and {more} more that fit", style="dim")
    else:
        out.print("nothing fits; what comes closest:", style="bold")
        out.print(_table(plans.closest[:CLOSEST]))
    if plans.closest and plans.fitting:
        out.print(f"{len(plans.closest)} layouts need more memory than there is", style="dim")
    for reason, count in plans.refused[:CLOSEST]:
        out.print(f"{count} left out: {reason}", style="dim")
    out.print(
        "dp: replicate x shard; mb: sequences computed at once; state: parameters, gradients "
        "and optimizer; MFU: model FLOP/s over the peak",
        style="dim",
    )
    out.print(
        f"times are by formula, with {cluster.achieved:.0%} of the peak reached (--achieved); "
        "only a run proves them",
        style="dim",
    )


def _table(plans: tuple[Plan, ...]) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for title in COLUMNS:
        drawn.add_column(title, justify="left" if title == "recomp" else "right", no_wrap=True)
    for plan in plans:
        lay, held = plan.layout, plan.memory
        drawn.add_row(
            f"{lay.replicate}x{lay.shard}",
            str(lay.tensor),
            str(lay.pipeline),
            str(lay.micro_batch),
            lay.recompute,
            f"{held.total / GIB:.1f}",
            f"{(held.total - held.activations) / GIB:.1f}",
            f"{held.activations / GIB:.1f}",
            f"{plan.bubble:.0%}",
            f"{plan.step:.3g}",
            f"{plan.tokens_per_second:,.0f}",
            f"{plan.utilisation:.0%}",
        )
    return drawn


def toml(layout: Layout, batch: int) -> str:
    """The layout under torchtitan's field names."""
    return (
        "[parallelism]\n"
        f"data_parallel_replicate_degree = {layout.replicate}\n"
        f"data_parallel_shard_degree = {layout.shard}\n"
        f"tensor_parallel_degree = {layout.tensor}\n"
        f"pipeline_parallel_degree = {layout.pipeline}\n"
        f"pipeline_parallel_microbatch_size = {layout.micro_batch}\n"
        "\n[training]\n"
        f"local_batch_size = {batch // layout.data}\n"
        f"global_batch_size = {batch}\n"
        "\n[activation_checkpoint]\n"
        f'mode = "{layout.recompute}"\n'
    )


def torchrun(cluster: Cluster) -> str:
    """The line that starts it on every node."""
    node = min(cluster.node, cluster.gpus)
    nodes = -(-cluster.gpus // node)
    return (
        f"torchrun --nnodes {nodes} --nproc-per-node {node} --rdzv-backend c10d "
        "--rdzv-endpoint $HEAD_NODE:29500 train.py"
    )
