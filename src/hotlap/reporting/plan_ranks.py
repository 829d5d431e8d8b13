"""How one layout's ranks look: memory by owner, FLOPs and traffic, by formula and by dry run."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from hotlap.plan.cluster import GIB, Cluster
from hotlap.plan.cost import Plan
from hotlap.plan.dryrun import Measured
from hotlap.plan.layout_search import usable
from hotlap.plan.traffic import Traffic
from hotlap.plan.verify import Verified
from hotlap.reporting.tables import Row, columns, table

OWNERS = ("parameters", "gathered", "gradients", "optimizer", "activations")
HEADS = ("weights", "gathered", "grads", "optim", "activ", "GiB")


def ranks(out: Console, verified: Verified, cluster: Cluster) -> None:
    """Memory by owner on each distinct rank; then what a rank sends in a step."""
    plan, runs = verified.plan, verified.ranks
    lay = plan.layout
    out.print(
        f"\ndp {lay.replicate}x{lay.shard}, tp {lay.tensor}, pp {lay.pipeline}, "
        f"mb {lay.micro_batch}, again {lay.recompute}: a rank's peak, GiB",
        style="bold",
    )
    out.print(_memory(plan, runs, out.width))
    if verified.problem:
        out.print(f"not verified: {verified.problem}", style="yellow")
    for each in runs:
        fits = "" if each.peak <= usable(cluster) else f": does not fit {usable(cluster) / GIB:.1f}"
        out.print(
            f"verified: stage {each.stage} {each.peak / GIB:.2f} GiB by dry run in "
            f"{each.seconds:.0f} s{fits}",
            style="green" if not fits else "red",
        )
    out.print(_sent(plan.traffic), style="dim")


def _memory(plan: Plan, runs: Sequence[Measured], width: int) -> Text:
    held = plan.memory
    formula = [getattr(held, owner) for owner in OWNERS]
    work = plan.flops
    rows = [Row((str(plan.stage), "formula", *_gib([*formula, held.total]), _tera(work)))]
    for each in runs:
        found = [each.owners.get(owner, 0.0) for owner in OWNERS]
        work = each.flops
        rows.append(Row((str(each.stage), "dry run", *_gib([*found, each.peak]), _tera(work))))
    return table(columns("stage", "by", *HEADS, "TFLOP", left=["by"]), rows, width)


def _gib(sizes: Sequence[float]) -> list[str]:
    return [f"{size / GIB:.2f}" for size in sizes]


def _tera(flops: float) -> str:
    tera = flops / 1e12
    return f"{tera:,.0f}" if tera >= 10 else f"{tera:.3g}"


def _sent(sent: Traffic) -> str:
    kinds = (
        ("tensor ranks' gathers and scatters", sent.tensor),
        ("all-gather of weights", sent.gather),
        ("reduce-scatter of gradients", sent.scatter),
        ("all-reduce of gradients", sent.reduce),
        ("pipeline sends", sent.send),
    )
    said = ", ".join(f"{name} {size / GIB:.3g} GiB" for name, size in kinds if size)
    return f"a rank sends in a step: {said or 'nothing'}"
