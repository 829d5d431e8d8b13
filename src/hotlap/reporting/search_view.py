"""The pages of `plan`, `batch` and `lr`: what was found, and everything that was tried."""

import math
from collections.abc import Mapping, Sequence

from hotlap.core.amounts import duration, size
from hotlap.core.protocol import Document, decode
from hotlap.plan.cost import Plan
from hotlap.reporting.plan_text import plan_cells, plan_columns
from hotlap.reporting.view import View, estimate_of
from hotlap.reporting.words import interval, ratio

BATCH_COLUMNS = ("batch", "samples/s", "ratio", "interval", "time per step", "memory", "")
READINGS = ("steepest", "valley", "lowest")


def plan(document: Document) -> View:
    """The fastest layout that fits, the others, and why layouts were left out."""
    fitting = [decode(Plan, row) for row in document["fitting"]]
    closest = [decode(Plan, row) for row in document["closest"]]
    cluster, unit = document["cluster"], document["unit"]
    best = fitting[0] if fitting else None
    return View(
        "plan",
        command=f"{document['model']} on {cluster['gpus']} x {cluster['name']}, "
        f"batch {document['batch']}",
        figure=f"{best.tokens_per_second:,.0f} {unit}/s" if best else "Nothing fits",
        headline=f"by formula, {duration(best.step)} a step and {size(int(best.memory.total))} "
        f"a GPU, at {cluster['achieved']:.0%} of the peak: only a run proves it" if best else "",
        notes=[_dry_run(run) for run in document["verified"]],
        memory=_owners(document["fitting"][0]["memory"]) if best else (),
        tables=[
            {"name": name, "columns": plan_columns(unit), "rows": [plan_cells(p) for p in plans]}
            for name, plans in (("Layouts that fit", fitting), ("Closest to fitting", closest))
            if plans
        ],
        left_out_title="Reasons for leaving layouts out",
        left_out=[
            {"name": f"{count} layouts", "estimate": None, "status": reason, "reason": ""}
            for reason, count in document["refused"]
        ],
    )  # fmt: skip


def _dry_run(run: Document) -> str:
    """What the dry run of one layout held, or why there was none."""
    lay = run["plan"]["layout"]
    name = (
        f"dp {lay['replicate']}x{lay['shard']}, tp {lay['tensor']}, pp {lay['pipeline']}, "
        f"mb {lay['micro_batch']}, recompute {lay['recompute']}"
    )
    held = ", ".join(f"stage {r['stage']} {size(int(r['peak']))}" for r in run["ranks"])
    return f"Dry run of {name}: {held or run['problem']}."


def _owners(held: Mapping[str, float]) -> list[dict[str, object]]:
    most = max(held.values()) or 1.0
    return [
        {"name": name, "bytes": int(found), "percent": round(100 * found / most, 1)}
        for name, found in held.items()
    ]


def batch(document: Document) -> View:
    """The fastest and the largest batch, and each size that was tried."""
    largest = "largest that fits" if document["largest_known"] else "largest tried"
    found = document["fastest"]
    headline = f"the fastest of {len(document['rows'])} tried; {largest}: {document['largest']}"
    return View(
        "batch",
        command=" ".join(map(str, document["arguments"])),
        figure=f"Batch {found}" if found else "No batch size timed",
        headline=headline if found else "",
        notes=[*document["script"]["notes"], *document["advice"]],
        tables=[{"name": "Batch sizes", "columns": BATCH_COLUMNS,
                 "rows": [_size(row) for row in document["rows"]]}],
    )  # fmt: skip


def _size(row: Document) -> list[str]:
    timed = estimate_of(row)
    return [
        str(row["size"]),
        f"{row['rate']:,.3g}" if row["rate"] else "",
        ratio(row["ratio"]) if row["ratio"] else "",
        interval(timed) if timed else "",
        duration(row["step"]) if row["step"] else "",
        size(row["memory"]) if row["memory"] else "",
        "" if row["fits"] else f"does not fit: {row['why']}",
    ]


def lr(document: Document) -> View:
    """The learning rate to try first, and the curve that it was read from."""
    found = document["suggestion"]
    return View(
        "lr",
        command=" ".join(map(str, document["arguments"])),
        figure=f"Learning rate {found:.2g}" if found else "No suggestion",
        headline="a fifth of where the loss is lowest; the best for many steps may differ"
        if found
        else "the loss fell by no more than it varies from step to step",
        notes=[
            note for note in (f"{document['ended']}.".capitalize(), document["failure"]) if note
        ],
        sweep=sweep_picture(document["rates"], document["losses"], document["first"], found),
        fields=[(name, f"{document[name]:.1e}") for name in READINGS if document[name]],
    )


def sweep_picture(
    rates: Sequence[float], losses: Sequence[float | None], first: float | None, mark: float | None
) -> dict[str, object] | None:
    """The losses as points of a picture of 600 x 200 over the logarithm of the rate.

    Losses above twice the first one, of a run that diverges, are drawn at the upper edge.
    """
    seen = [(r, v) for r, v in zip(rates, losses, strict=False) if v is not None and r > 0]
    if len(seen) < 2 or seen[0][0] >= seen[-1][0]:
        return None
    values = [value for _, value in seen]
    bottom = min(values)
    top = min(max(values), 2 * first - bottom) if first and first > bottom else max(values)
    left, right = math.log(seen[0][0]), math.log(seen[-1][0])

    def across(rate: float) -> float:
        return 600 * (math.log(rate) - left) / (right - left)

    def down(value: float) -> float:
        return 195 - 190 * (min(value, top) - bottom) / ((top - bottom) or 1)

    points = " ".join(f"{across(rate):.1f},{down(value):.1f}" for rate, value in seen)
    inside = mark is not None and seen[0][0] <= mark <= seen[-1][0]
    return {"points": points, "mark": round(across(mark), 1) if mark and inside else None,
            "first": seen[0][0], "last": seen[-1][0], "bottom": bottom, "top": top}  # fmt: skip
