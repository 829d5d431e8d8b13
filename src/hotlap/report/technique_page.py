"""A technique's page for the documentation: Markdown from its record and the races on record."""

from collections.abc import Iterable
from dataclasses import dataclass

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Example, Technique
from hotlap.report.explain_text import describe


@dataclass(frozen=True)
class Measured:
    """One race of a technique on record: the ratio of a step's times, with its 95 % interval."""

    technique: str
    values: dict[str, object]
    workload: str
    machine: str
    date: str
    ratio: float
    low: float
    high: float
    pairs: int
    outcome: str


def page(record: Technique, measured: Iterable[Measured]) -> str:
    """The whole page."""
    parts = [
        f"# {record.id}\n\n**{record.title}.**",
        f"Group: {record.group} · numerics: [{record.numerics}](../measuring.md#parity) · "
        f"how: {', '.join(record.how)}",
        f"## Why it is faster\n\n{record.why}",
        f"## What it may change\n\n{record.changes}",
        f"## Leave it off when\n\n{record.avoid}",
        _needs(record),
        _moves(record),
        _patterns(record.patterns),
        *(_example(example) for example in record.examples),
        _claims(record),
        _measured(list(measured)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def index(records: Iterable[Technique]) -> str:
    """The catalogue: one table a group."""
    parts, group = (
        ["# Techniques\n\nEach is one record in the source; this site is made from them."],
        "",
    )
    for record in records:
        if record.group != group:
            group = record.group
            parts.append(
                f"\n## {str(group).capitalize()}\n\n"
                "| technique | what | numerics | how |\n|---|---|---|---|"
            )
        parts.append(
            f"| [{record.id}]({record.id}.md) | {record.title} | {record.numerics} | "
            f"{', '.join(record.how)} |"
        )
    return "\n".join(parts) + "\n"


def patterns_page(records: Iterable[Technique]) -> str:
    """Every lint pattern, by technique."""
    rows = [
        f"| `{p.id}` | {'hint' if p.hint else 'finding'} | {p.says} | {_cell(p.remedy)} | "
        f"{_cell(p.ignore)} | "
        f"[{record.id}](techniques/{record.id}.md) |"
        for record in records
        for p in record.patterns
    ]
    head = (
        "# Lint patterns\n\nA *finding* is a fault whatever the workload; whether a *hint* costs "
        "anything depends on it: hints are shown with `--hints`, or by `hotlap profile` once it "
        "has measured their cost. `# hotlap: ignore[id]` on the line leaves one out.\n\n"
        "| pattern | | why | instead | leave it when | technique |\n|---|---|---|---|---|---|"
    )
    return "\n".join([head, *rows]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _needs(record: Technique) -> str:
    if not record.needs:
        return ""
    return "## Not raced when\n\n" + "\n".join(f"- {need.reason}" for need in record.needs)


def _moves(record: Technique) -> str:
    if not record.moves:
        return ""
    return "## What hotlap changes\n\n" + "\n".join(f"- `{describe(m)}`" for m in record.moves)


def _patterns(patterns: tuple[Pattern, ...]) -> str:
    if not patterns:
        return ""
    lines = [f"- `{p.id}`{' (hint)' if p.hint else ''}: {p.says}; {p.remedy}." for p in patterns]
    return "## What lint finds\n\n" + "\n".join(lines)


def _example(example: Example) -> str:
    before = f"```python\n{example.before.strip(chr(10))}\n```"
    if example.after is None:
        return f"### Left alone\n\n{before}"
    after = f"```python\n{example.after.strip(chr(10))}\n```"
    return f"### Before\n\n{before}\n\n### After\n\n{after}"


def _claims(record: Technique) -> str:
    rows = "\n".join(f"- {claim.text} ({claim.source})" for claim in record.claims)
    return (
        f"## Claimed elsewhere\n\nOn their hardware; not measured here.\n\n{rows}" if rows else ""
    )


def _measured(found: list[Measured]) -> str:
    head = "## Measured here\n\n"
    if not found:
        return head + "No race of it is on record yet. `hotlap tune` measures it on your script."
    rows = "\n".join(
        f"| {m.workload}{_values(m.values)} | {m.ratio:.2f}x | [{m.low:.2f}, {m.high:.2f}] | "
        f"{m.pairs} | {m.outcome} | {m.date}, {m.machine} |"
        for m in found
    )
    return (
        f"{head}| script | speed | 95 % interval | pairs | outcome | when, where |\n"
        f"|---|---|---|---|---|---|\n{rows}"
    )


def _values(values: dict[str, object]) -> str:
    return f" ({', '.join(f'{k}={v}' for k, v in values.items())})" if values else ""
