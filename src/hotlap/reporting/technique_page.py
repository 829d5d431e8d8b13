"""A technique's page for the documentation: Markdown from its record and the races on record."""

from collections.abc import Iterable
from dataclasses import dataclass

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Example, Technique
from hotlap.reporting.explain_text import describe


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
    """Every lint pattern: one table a group of techniques."""
    parts, group = (
        [
            "# Lint patterns\n\nA *finding* is a fault whatever the workload; whether a *hint* "
            "costs anything depends on it: hints are shown with `--hints`, or by `hotlap profile` "
            "once it has measured their cost.\n"
        ],
        "",
    )
    for record in records:
        if record.group != group and record.patterns:
            group = record.group
            parts.append(
                f"\n## {str(group).capitalize()}\n\n| pattern | | what it finds |\n|---|---|---|"
            )
        parts += [
            f"| [`{p.id}`](patterns/{p.id}.md) | {_kind(p)} | {_cell(p.says)} |"
            for p in record.patterns
        ]
    return "\n".join(parts) + "\n"


def pattern_page(record: Technique, pattern: Pattern) -> str:
    """What a pattern is, what to write instead, and when to leave it."""
    parts = [
        f"# {pattern.id}\n\n{_sentence(pattern.says)}",
        f"Kind: {_kind(pattern)} · technique: [{record.id}](../techniques/{record.id}.md)",
        f"## Why it costs time or memory\n\n{record.why}",
        f"## Instead\n\n{_sentence(pattern.remedy)}",
        f"## Leave it when\n\n{_sentence(pattern.ignore)}" if pattern.ignore else "",
        f"`# hotlap: ignore[{pattern.id}]` on the line leaves this one out, "
        f"`--ignore {pattern.id}` all of them.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _kind(pattern: Pattern) -> str:
    return "hint" if pattern.hint else "finding"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


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
    lines = [
        f"- [`{p.id}`](../patterns/{p.id}.md) ({_kind(p)}): {p.says}; {p.remedy}." for p in patterns
    ]
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
