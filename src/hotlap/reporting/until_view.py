"""The pages of a race and of a tune to a target: tables, and the metric's course as curves."""

from collections.abc import Sequence

from hotlap.core.amounts import duration
from hotlap.core.protocol import Document
from hotlap.reporting.until_text import SAID
from hotlap.reporting.view import INCONCLUSIVE, Scale, View, estimate_of
from hotlap.reporting.words import named, ratio
from hotlap.trial.stats import Verdict

SEED_COLUMNS = ("seed", "A", "B", "A over B")
TECHNIQUE_COLUMNS = ("technique", "time to the target, plain over it", "seeds", "outcome")
WIDE, HIGH, EDGE = 600, 200, 5
POINTS = 300


def race(document: Document) -> View:
    """A race to a target: which command was sooner, every seed, the course of the first."""
    found, pairs = document["ratio"], document["pairs"]
    estimate = estimate_of(found)
    known = found["ratio"] and document["verdict"] != Verdict.INCONCLUSIVE
    tell = f"{found['pairs']} of {len(pairs)} seeds tell"
    runs = list(zip("AB", pairs[0], strict=True)) if pairs else []
    return View(
        "race",
        command="  --  ".join(" ".join(command) for command in document["commands"]),
        figure=ratio(found["ratio"]) if known else INCONCLUSIVE,
        headline=f"{target_of(document)}: {SAID[Verdict(document['verdict'])]}; "
        f"{tell}",
        rows=[{"name": "B over A", "estimate": estimate, "reason": "", "kind": "", "status": tell}],
        rows_note="Ratio of A's time to the target over B's with its interval, logarithmic scale.",
        scale=Scale([estimate] if estimate else []),
        courses=courses(runs, document["target"]["value"]),
        tables=[{"name": "Time to the target", "columns": SEED_COLUMNS,
                 "rows": seeds(pairs)}],
    )  # fmt: skip


def tune(document: Document) -> View:
    """A tune to a target: what was raced, and the course of the one that is kept."""
    raced = [row for row in document["rows"] if row["race"] and row["race"]["pairs"]]
    kept = [row for row in raced if row["status"] == "kept"]
    best = max(kept, key=lambda row: row["race"]["ratio"]["low"], default=None)
    runs = zip(("plain", "tuned"), best["race"]["pairs"][0], strict=True) if best else ()
    return View(
        "tune",
        command=" ".join(document["command"]),
        figure=ratio(best["race"]["ratio"]["ratio"]) if best else "No recipe",
        headline=f"{target_of(document)}: "
        + (f"kept {named(best['technique'], best['values'])}" if best else "nothing is kept"),
        notes=["It changes the training: check the final quality on a whole run."] if best else (),
        courses=courses(list(runs), document["target"]["value"]),
        tables=[{"name": "Raced to the target", "columns": TECHNIQUE_COLUMNS,
                 "rows": techniques(document["rows"])}],
    )  # fmt: skip


def target_of(document: Document) -> str:
    """The target as it is written on the command line."""
    return "{metric} {sign} {value:g}".format(**document["target"])


def seeds(pairs: Sequence[Sequence[Document]]) -> list[list[str]]:
    """A row of cells for each seed."""
    rows = []
    for seed, (a, b) in enumerate(pairs):
        both = a["time"]["reached"] and b["time"]["reached"]
        gain = ratio(a["time"]["seconds"] / b["time"]["seconds"]) if both else "-"
        rows.append([str(seed), _time(a), _time(b), gain])
    return rows


def _time(run: Document) -> str:
    seconds = duration(run["time"]["seconds"])
    if run["time"]["reached"]:
        return f"{seconds}, {run['steps']} steps"
    best = "no finite value" if run["best"] is None else f"best {run['best']:.4g}"
    return f"{'ended after' if run['ended'] else 'not in'} {seconds} ({best})"


def techniques(rows: Sequence[Document]) -> list[list[str]]:
    """A row of cells for each technique that was raced to the target."""
    return [
        [
            named(row["technique"], row["values"]),
            span(row["race"]["ratio"]) if row["race"] else "",
            str(len(row["race"]["pairs"])) if row["race"] else "",
            f"{row['status']}: {row['reason']}".rstrip(": "),
        ]
        for row in rows
    ]


def span(found: Document) -> str:
    """A ratio with its interval; an end that is not known is a dash."""
    if found["ratio"] is None:
        return ""
    high = "-" if found["high"] is None else f"{found['high']:.2f}"
    return f"{ratio(found['ratio'])} [{found['low']:.2f}, {high}]"


def courses(runs: Sequence[tuple[str, Document]], target: float) -> list[dict[str, object]]:
    """The metric of some named runs over the seconds and over the steps, with the target."""
    points = [point for _, run in runs for point in run["curve"] if point["value"] is not None]
    if len(points) < 2:
        return []
    values = sorted([*(point["value"] for point in points), target])
    bottom, top = values[len(values) // 50], values[-1 - len(values) // 50]
    height = (top - bottom) or 1.0

    def y(value: float) -> float:
        inside = min(max(value, bottom), top)
        share: float = (inside - bottom) / height
        return round(HIGH - EDGE - (HIGH - 2 * EDGE) * share, 1)

    drawn = []
    for key in ("seconds", "steps"):
        right = max(point[key] for point in points) or 1.0
        lines = []
        for name, run in runs:
            known = [point for point in run["curve"] if point["value"] is not None]
            shown = known[:: max(1, len(known) // POINTS)]
            dots = (f"{WIDE * point[key] / right:.1f},{y(point['value'])}" for point in shown)
            lines.append({"name": name, "points": " ".join(dots)})
        end = duration(right) if key == "seconds" else f"{right} steps"
        drawn.append({"lines": lines, "target": y(target), "value": target, "end": end,
                      "top": top, "bottom": bottom})  # fmt: skip
    return drawn
