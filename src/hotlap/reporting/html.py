"""Reports as self-contained HTML pages, and cards for notebooks: made from a verb's JSON document.

A document alone is enough, so that one that was kept can be rendered again, and every verb has the
same report. What only a page shows (the patch as a diff) is handed over beside it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from jinja2 import Environment, PackageLoader, select_autoescape

from hotlap.core.amounts import duration, size
from hotlap.core.protocol import Document, decode
from hotlap.profile.model import TITLES, Finding, Profile
from hotlap.reporting import ranks_text, search_view, until_view
from hotlap.reporting.findings_text import (
    ORDER,
    UNKNOWN,
    bound_legend,
    cost,
    costliest,
    next_step,
    problem_words,
    remedy_words,
)
from hotlap.reporting.profile_text import (
    few_steps,
    limit,
    lines_by_phase,
    operators_of,
    peak_memory,
    rates,
    waits,
)
from hotlap.reporting.race_text import CORRECTED
from hotlap.reporting.shrink_text import COLUMNS, front_picture, quality, shrink_cells, tested_text
from hotlap.reporting.tune_text import ON_TOP, switched
from hotlap.reporting.view import INCONCLUSIVE, PROBLEMS, Scale, View, estimate_of
from hotlap.reporting.words import by_sample, interval, named, ratio, verdict
from hotlap.trial.stats import Verdict
from hotlap.tune.result import Status, is_raced, reported, standing

COLOURS = ("data", "copy", "forward", "backward", "optimizer", "evaluation", "other", "saving")
BLENDED = {"loader": "data", "evaluation_data": "evaluation"}
POINTS = 300
MACHINE = ("name", "cpu", "gpu", "summary")
HEAD = frozenset({
    "schema_version", "hotlap", "verb", "arguments", "machine", "headline", "command_line",
    "next_steps", "command", "commands",
})  # fmt: skip


def card(document: Document) -> str:
    """A fragment of HTML for a notebook's output."""
    return _jinja().get_template("card.html").render(v=view(document))


def page(document: Document, diff: str = "", *, index: bool = False) -> str:
    """A whole page; `diff` is the recipe as a unified diff, `index`: link the history beside it."""
    found = view(document)
    found.diff = [(_kind(line), line) for line in diff.splitlines()]
    return _jinja().get_template("page.html").render(v=found, index=index)


def history(reports: Sequence[Mapping[str, str]]) -> str:
    """The index page of a project's reports."""
    return _jinja().get_template("index.html").render(reports=reports)


def _jinja() -> Environment:
    jinja = Environment(
        loader=PackageLoader("hotlap.reporting"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"ratio": ratio, "interval": interval, "duration": duration, "size": size}
    return jinja


def view(document: Document) -> View:
    """What the templates show of a document, by its verb."""
    verb = document.get("verb", "")
    make = VIEWS.get(verb, _other)
    found = make(document)
    found.conditions = _conditions(document)
    return found


def headline(document: Document) -> str:
    """The outcome in one line, for the history."""
    found = view(document)
    return found.headline or found.figure


def _error(document: Document) -> View:
    return View("error", text=str(document["text"]))


def _profile(document: Document) -> View:
    phases = {phase["name"]: phase["mean"] for phase in document["phases"]}
    bars = _bars(phases, document["step"])
    largest = max(bars, key=lambda bar: bar["share"], default=None)
    words = f"{largest['share']:.0%} of it is {largest['title']}" if largest else ""
    found = decode(Profile, document)
    following, command = next_step(found)
    return View(
        "profile",
        command=document["command"],
        figure=f"{duration(document['step'])} a step",
        headline=f"{words}; {document['steps']} steps on {document['device']}".lstrip("; "),
        notes=[
            *filter(None, (rates(found), found.partial, few_steps(found))),
            *found.notes,
            *(" ".join(one) for one in _without_problem(found)),
            *([following] if following and not command else []),
        ],
        step=document["step"],
        before=bars,
        limit="; GPU: ".join(
            filter(None, (limit(found.headroom) if found.headroom else "", waits(found)))
        ),
        findings=_findings(found),
        findings_note=bound_legend(found),
        memory=_memory(document["memory_by_owner"]),
        peak=peak_memory(found),
        steps_title=following.removesuffix(":"),
        steps=[command] if command else (),
        tables=[*_lines(found), *_ranks(found)],
    )


def _without_problem(profile: Profile) -> Iterable[tuple[str, str]]:
    """Where no problem is known, the line that takes most of a step."""
    return [] if profile.problems else [(f"{one}:", text) for one, text in costliest(profile)]


def _lines(profile: Profile) -> list[dict[str, object]]:
    """The tables of the costliest lines of each phase."""
    return [
        {
            "name": title[0].upper() + title[1:],
            "columns": ["share", "line", "source", "operators"],
            "rows": [
                (f"{line.share:.0%}", line.place, line.text, operators_of(line)) for line in lines
            ],
        }
        for title, lines in lines_by_phase(profile).items()
    ]


def _ranks(profile: Profile) -> list[dict[str, object]]:
    """The table of the ranks, where there are several."""
    rows, note = ranks_text.ranks_table(profile)
    columns = [column.title for column in ranks_text.COLUMNS]
    name = f"{ranks_text.TITLE} ({note})"
    return [{"name": name, "columns": columns, "rows": rows}] if rows else []


def _findings(profile: Profile) -> dict[str, list[dict[str, object]]]:
    """What the terminal lists, in its words, by heading."""
    lists = {
        f"Problems ({PROBLEMS}; {ORDER})": profile.problems,
        f"Worth racing ({UNKNOWN}; {ORDER})": profile.options,
    }
    return {title: [_finding(one) for one in found] for title, found in lists.items() if found}


def _finding(finding: Finding) -> dict[str, object]:
    remedies = [
        {"words": remedy_words(r, finding), "lines": r.lines, "notes": r.notes}
        for r in finding.remedies
    ]
    if not finding.problem:
        return {"what": finding.what, "remedies": remedies}
    return {"what": problem_words(finding), "place": finding.place, "text": finding.text,
            "remedies": remedies}  # fmt: skip


def _tune(document: Document) -> View:
    if "final" not in document:
        return until_view.tune(document)
    final, steps = document["final"], document["final_steps"]
    parity = document["final_parity"]
    kinds: dict[bool, list[Document]] = {True: [], False: []}
    for row in document["outcomes"]:
        kinds[is_raced(row["status"], timed=bool(row["race"]))].append(row)
    races = [row for row in kinds[True] if row["race"]]
    kept = any(row["status"] == Status.KEPT for row in races)
    live = [row["technique"] for row in races if row["race"].get("switched")]
    rows = [_row(row) for row in kinds[True]]
    rows[:0] = _ends("A/A test (noise floor)", document["noise_floor"])
    rows += _ends("whole recipe", final)
    before = _bars(document["phases"], sum(document["phases"].values()))
    return View(
        "tune",
        command=document["command_line"],
        figure=_figure_of_recipe(final, parity) if final else "No recipe",
        headline=document["headline"],
        notes=[
            *document["notes"],
            *([_sentence(parity["reason"])] if final and parity else []),
        ],
        step=steps["plain"] if steps else sum(document["phases"].values()),
        tuned_step=steps["tuned"] if steps else 0.0,
        timed=_timed(final) if steps else "",
        profiled=sum(document["phases"].values()),
        before=before,
        after=_whole(steps) if steps and before else (),
        rows=rows,
        rows_note="Ratio of plain time to tuned time with its interval, logarithmic scale: above 1 "
        f"is faster.{f' {_sentence(ON_TOP)}.' if kept else ''}"
        f"{f' {_sentence(switched(live))}.' if live else ''}",
        left_out=[_row(row) for row in kinds[False]],
        left_out_title="Left out",
        scale=Scale([row["estimate"] for row in rows if row["estimate"]]),
        losses=_losses(document.get("losses") or {}),
        memory=_memory(document["memory_by_owner"]),
        loads=_loads(races),
        advice=[
            {**a, "cost": cost(a.get("share", 0.0), a.get("most", 1.0))} for a in document["advice"]
        ],
        steps=document["next_steps"],
    )


def figure_of(race: Document) -> str:
    """The ratio of a race, where it is known which side is faster, or that none is."""
    known = race["verdict"] != Verdict.INCONCLUSIVE
    return ratio(race["estimate"]["ratio"]) if known else INCONCLUSIVE


def _figure_of_recipe(final: Document, parity: Document | None) -> str:
    return "Not confirmed" if parity and not parity["kept"] else figure_of(final)


def _timed(final: Document) -> str:
    """How the times of a step of the final race were taken."""
    return f" in the final race{f', {CORRECTED}' if final.get('corrected') else ''}"


def _race(document: Document) -> View:
    if "estimate" not in document:
        return until_view.race(document)
    commands = [" ".join(command) for command in document["commands"]]
    rows = _ends("B over A", document)
    scale = "Ratio of A's time to B's with its interval, logarithmic scale"
    return View(
        "race",
        command="  --  ".join(commands),
        figure=figure_of(document),
        headline=f"{verdict(Verdict(document['verdict']))}: {duration(document['a_step'])} a step "
        f"against {duration(document['b_step'])}, {document['estimate']['pairs']} pairs",
        rows=rows,
        rows_note=f"{'; '.join(filter(None, (scale, by_sample(document.get('samples')))))}.",
        scale=Scale([row["estimate"] for row in rows if row["estimate"]]),
    )


def _shrink(document: Document) -> View:
    """The outcome, the Pareto front of latency and quality, and every candidate."""
    rows, first = document["candidates"], document["original"]
    written = next((r for r in rows if r["name"] == document["written"].get("name")), None)
    figure, headline = "Nothing written", "no candidate meets all targets"
    if written:
        figure = f"{ratio(written['latency'][0])} faster"
        headline = (
            f"{written['name']}: {written['parameters'] / first['parameters']:.2f}x parameters, "
            f"{written['bytes'] / first['bytes']:.2f}x file, quality "
            f"{quality(written['qualities'])} against {first['quality']:.4g}"
        )
    cells = [shrink_cells(row, first) for row in rows]
    return View(
        "shrink",
        command=document["job"]["model"],
        figure=figure,
        headline=headline,
        notes=[tested_text(document["tested"])] if document["tested"] else (),
        front=front_picture(rows),
        tables=[{"name": "Candidates", "columns": COLUMNS, "rows": cells}] if rows else (),
        left_out_title="Skipped",
        left_out=[{"name": r["name"], "estimate": None, "status": "skipped", "reason": r["why"]}
                  for r in document["skipped"]],
    )  # fmt: skip


def _other(document: Document) -> View:
    """Every other verb: its figures, and its lists as tables."""
    simple = {
        key: value for key, value in document.items()
        if key not in HEAD and isinstance(value, str | int | float) and value != ""
    }  # fmt: skip
    listed = {
        key: value for key, value in document.items()
        if key not in HEAD and isinstance(value, list) and value and isinstance(value[0], dict)
    }  # fmt: skip
    verb = str(document.get("verb", ""))
    return View(
        verb,
        command=_command(document),
        figure=verb,
        headline=str(document.get("headline", "")),
        fields=[(_sentence(key), _cell(value)) for key, value in simple.items()],
        tables=[_table(key, rows) for key, rows in listed.items()],
    )


def _command(document: Document) -> str:
    found = document.get("command_line") or document.get("command") or document.get("arguments", "")
    return found if isinstance(found, str) else " ".join(map(str, found))


def _table(name: str, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    columns = [key for key, value in rows[0].items() if not isinstance(value, dict | list)]
    cells = [[_cell(row.get(key)) for key in columns] for row in rows]
    return {"name": _sentence(name), "columns": [c.replace("_", " ") for c in columns],
            "rows": cells}  # fmt: skip


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def _sentence(text: str) -> str:
    text = text.replace("_", " ")
    return text[:1].upper() + text[1:]


def _bars(phases: Mapping[str, float], whole: float) -> list[Document]:
    """Phases in the order of a step, with their shares."""
    return [
        {
            "title": TITLES.get(name, name),
            "seconds": seconds,
            "share": seconds / whole if whole else 0.0,
            "percent": round(100 * seconds / whole, 2) if whole else 0.0,
            "colour": _colour(name),
            "striped": name in BLENDED,
        }
        for name, seconds in phases.items()
        if seconds > 0
    ]


def _whole(steps: Mapping[str, float]) -> list[dict[str, object]]:
    share = steps["tuned"] / steps["plain"]
    width = round(min(100.0, 100 * share), 2)
    return [{"title": "whole step", "seconds": steps["tuned"], "share": share,
             "percent": width, "colour": COLOURS.index("other")}]  # fmt: skip


def _colour(phase: str) -> int:
    name = BLENDED.get(phase, phase)
    return COLOURS.index(name) if name in COLOURS else len(COLOURS) - 1


def _row(row: Document) -> dict[str, object]:
    race = row["race"] or {}
    whole, fresh = estimate_of(race.get("estimate")), estimate_of(race.get("fresh"))
    status, verdict = standing(row["status"], race.get("verdict")), race.get("verdict")
    estimate = reported(whole, fresh, verdict) if whole else fresh
    failed = status in {"crashed", "broke parity"}
    slow = estimate is not None and estimate.high < 1
    kind = "kept" if status == "kept" else "failed" if failed else "slow" if slow else ""
    names = [named(row["technique"], row["values"]), *row["joined"]]
    return {"name": " + ".join(names), "estimate": estimate, "status": status,
            "reason": row["reason"], "kind": kind}  # fmt: skip


def _ends(name: str, race: Document | None) -> list[dict[str, object]]:
    if not race:
        return []
    return [{"name": name, "estimate": estimate_of(race["estimate"]), "reason": "", "kind": "",
             "status": f"{race['estimate']['pairs']} pairs"}]  # fmt: skip


def _memory(owners: Mapping[str, int]) -> list[dict[str, object]]:
    most = max(owners.values(), default=0)
    return [
        {"name": name, "bytes": held, "percent": round(100 * held / most, 1)}
        for name, held in owners.items()
        if held
    ]


def _loads(rows: Sequence[Document]) -> list[dict[str, object]]:
    most = max([1.0, *(row["load"] for row in rows)])
    return [
        {"name": named(row["technique"], row["values"]), "cores": row["load"],
         "percent": round(100 * row["load"] / most, 1)}
        for row in rows
    ]  # fmt: skip


def _losses(losses: Mapping[str, Sequence[float | None]]) -> dict[str, object] | None:
    """Both curves as points of a picture of 600 x 200, over the steps that both have."""
    plain, tuned = losses.get("plain", ()), losses.get("tuned", ())
    steps = min(len(plain), len(tuned))
    finite = [v for v in (*plain[:steps], *tuned[:steps]) if v is not None and math.isfinite(v)]
    if steps < 2 or not finite:
        return None
    top, bottom = max(finite), min(finite)
    stride = max(1, steps // POINTS)

    def points(values: Sequence[float | None]) -> str:
        shown = [(i, values[i]) for i in range(0, steps, stride)]
        return " ".join(
            f"{600 * i / (steps - 1):.1f},{195 - 190 * (v - bottom) / ((top - bottom) or 1):.1f}"
            for i, v in shown
            if v is not None and math.isfinite(v)
        )

    return {"plain": points(plain), "tuned": points(tuned), "steps": steps,
            "top": top, "bottom": bottom}  # fmt: skip


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "hunk"
    return {"+": "add", "-": "del"}.get(line[:1], "")


def _conditions(document: Document) -> str:
    machine = document.get("machine") or ""
    if isinstance(machine, Mapping):
        machine = next((str(machine[key]) for key in MACHINE if machine.get(key)), "")
    parts = [machine, f"hotlap {document.get('hotlap', '')}", str(document.get("date", ""))]
    if document.get("isolation"):
        isolation = document["isolation"]
        parts.append(f"isolation: {isolation if isinstance(isolation, str) else isolation['tier']}")
    parts.append(document.get("time_spent", ""))
    return "; ".join(filter(None, parts))


VIEWS = {
    "profile": _profile, "tune": _tune, "race": _race, "shrink": _shrink, "error": _error,
    "plan": search_view.plan, "batch": search_view.batch, "lr": search_view.lr,
}  # fmt: skip
