"""How plans look in the terminal: what fits, where the best one's memory goes, what is left out."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from hotlap.plan.cluster import GIB, Cluster
from hotlap.plan.cost import Plan
from hotlap.plan.layout_search import RESERVE, Plans, usable
from hotlap.plan.memory_estimate import Memory
from hotlap.plan.shape import Shape
from hotlap.reporting.tables import Row, columns, table

SHOWN, CLOSEST = 10, 3
COLUMNS = ("dp", "tp", "pp", "mb", "again", "GiB", "state", "activ", "bubble", "step s")


def show(out: Console, plans: Plans, shape: Shape, cluster: Cluster, batch: int, *,
         brief: bool) -> None:  # fmt: skip
    """The table of what fits, or what comes closest; then why the others were left out.

    `brief`: the table alone.
    """
    out.print(
        f"{shape.parameters / 1e9:.3g} G parameters, {cluster.gpus} x {cluster.name}, "
        f"batch {batch}" + (" samples" if shape.whole else f" x {shape.sequence} tokens")
    )
    if plans.fitting:
        out.print(_table(plans.fitting[:SHOWN], shape.unit, out.width))
        more = len(plans.fitting) - SHOWN
        if more > 0:
            out.print(f"and {more} more that fit", style="dim")
    elif plans.closest:
        out.print("nothing fits; what comes closest:", style="bold")
        out.print(_table(plans.closest[:CLOSEST], shape.unit, out.width))
    else:
        out.print("no layout is possible", style="bold")
        _nearest(out, plans)
    if brief and plans.fitting:
        return
    _left_out(out, plans, cluster)
    if not (plans.fitting or plans.closest):
        return
    out.print(
        "dp: replicate x shard; mb: sequences computed at once; again: what backward computes "
        "again; state: weights, gradients, optimizer; MFU: model FLOP/s over the peak",
        style="dim",
    )
    out.print(
        f"times are by formula, at {cluster.achieved:.0%} of the peak (--achieved); "
        "only a run proves them",
        style="dim",
    )


def _nearest(out: Console, plans: Plans) -> None:
    """Which rule what was asked for breaks, and the nearest that works."""
    if plans.impossible:
        out.print(f"what was asked for breaks a rule: {plans.impossible}")
    if plans.nearest is not None:
        lay = plans.nearest.layout
        out.print(
            f"nearest that works: --tensor {lay.tensor} --pipeline {lay.pipeline} --shard "
            f"{lay.shard} --micro-batch {lay.micro_batch} --recompute {lay.recompute}"
        )


def _table(plans: Sequence[Plan], unit: str, width: int) -> Text:
    rows = [Row(plan_cells(plan)) for plan in plans]
    return table(columns(*plan_columns(unit), left=("again",)), rows, width)


def plan_columns(unit: str) -> tuple[str, ...]:
    """The titles of the columns of `plan_cells`."""
    return (*COLUMNS, f"{unit}/s", "MFU")


def plan_cells(plan: Plan) -> list[str]:
    """The row of a plan in a table of them."""
    lay, held = plan.layout, plan.memory
    return [
        f"{lay.replicate}x{lay.shard}",
        str(lay.tensor),
        str(lay.pipeline),
        str(lay.micro_batch),
        lay.recompute,
        *_gib(held.total, held.state, held.activations),
        f"{plan.bubble:.0%}",
        f"{plan.step:.3g}",
        f"{plan.tokens_per_second:,.0f}",
        f"{plan.utilisation:.0%}",
    ]


def _gib(*sizes: float) -> list[str]:
    return [f"{size / GIB:.{1 if size >= GIB else 2}f}" for size in sizes]


def _left_out(out: Console, plans: Plans, cluster: Cluster) -> None:
    limit = f"{usable(cluster) / GIB:.1f} GiB ({1 - RESERVE:.0%} of a GPU)"
    if plans.closest:
        owners = Counter(_too_large(plan.memory, cluster) for plan in plans.closest)
        for why, count in owners.most_common():
            out.print(f"{count} left out: {why} over {limit}", style="dim")
    shown = CLOSEST if plans.fitting or plans.closest else len(plans.refused)
    for reason, count in plans.refused[:shown]:
        out.print(f"{count} left out: {reason}", style="dim")
    others = sum(count for _, count in plans.refused[shown:])
    if others:
        out.print(f"{others} left out for other reasons (--json)", style="dim")


def _too_large(held: Memory, cluster: Cluster) -> str:
    if held.parameters + held.gradients + held.optimizer > usable(cluster):
        return "weights, gradients and optimizer state alone are"
    if held.state > usable(cluster):
        return "with gathered weights, the state is"
    return "with activations, memory is"
