"""How the catalogue looks in the terminal."""

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from hotlap.core.move import Call, Choice, Env, Flag, Keyword, Move, Swap, Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Example, Technique
from hotlap.reporting.tables import Column, Row, table
from hotlap.reporting.words import hanging

COLUMNS = (
    Column("technique", left=True),
    Column("numerics", left=True, spare=1),
    Column("how", left=True, spare=2),
)


def show_all(out: Console, records: list[Technique], *, brief: bool) -> None:
    """One line a technique, by group; `brief` leaves the hint out."""
    rows: list[Row] = []
    group = ""
    for record in records:
        if record.group != group:
            group = record.group
            rows.append(Row([group], style="bold", heading=True))
        rows.append(Row((f"  {record.id}", record.numerics, ", ".join(record.how)), record.title))
    shown = table(COLUMNS, rows, out.width)
    out.print(shown)
    dropped = [c.title for c in COLUMNS if c.title not in shown.plain.split("\n")[0].split()]
    if dropped:
        words = f"left out for want of room: {' and '.join(dropped)}; `hotlap explain ID` has them"
        out.print(Text(hanging(words, out.width)), style="dim")
    if not brief:
        out.print("\n`hotlap explain ID` says more of one", style="dim")


def show_one(out: Console, record: Technique) -> None:
    """One technique, whole."""
    out.print(f"[bold]{record.id}[/]: {record.title}")
    out.print(f"{record.group}, numerics: {record.numerics}\n", style="dim")
    texts = {
        "Why it is faster": record.why,
        "What it may change": record.changes,
        "Leave it off when": record.avoid,
    }
    for title, text in texts.items():
        _section(out, title, text)
    claims = "\n".join(f"{claim.text} ({claim.source})" for claim in record.claims)
    _section(out, "Claimed elsewhere (not measured here)", claims)
    if record.needs:
        _section(out, "Not raced when", "; ".join(need.reason for need in record.needs))
    if record.conflicts:
        _section(out, "Excludes", ", ".join(record.conflicts))
    if record.choices:
        values = "\n".join(f"{choice.name} = {choice.wanted}" for choice in record.choices)
        _section(out, "Values in a recipe", values)
    if record.moves:
        _section(out, "What hotlap changes", "\n".join(describe(move) for move in record.moves))
    if record.patterns:
        _section(out, "What lint finds", "\n".join(_pattern(p) for p in record.patterns))
    for example in record.examples:
        _example(out, example)


def _pattern(pattern: Pattern) -> str:
    hint = " (hint)" if pattern.hint else ""
    return f"{pattern.id}{hint}: {pattern.says}; {pattern.remedy}"


def _section(out: Console, title: str, text: str) -> None:
    out.print(f"[bold]{title}[/]")
    for line in text.splitlines():
        out.print(hanging(line, out.width, "  ", "  "), markup=False, soft_wrap=True)
    out.print()


def _example(out: Console, example: Example) -> None:
    _code(out, "Left alone" if example.after is None else "Before", example.before)
    if example.after is not None:
        _code(out, "After", example.after)


def _code(out: Console, title: str, source: str) -> None:
    """Line by line: a block would be padded with blanks to its longest line."""
    out.print(f"[bold]{title}[/]")
    drawn = Syntax("", "python", theme="ansi_dark", background_color="default")
    for line in drawn.highlight(source.strip("\n")).split():
        line.rstrip()
        out.print(Text("  ") + line, soft_wrap=True)
    out.print()


def describe(move: Move) -> str:
    """One line that says what a move does."""
    match move:
        case Keyword():
            names = ", ".join(target.rpartition(".")[2] for target in move.targets)
            return f"{names}(..., {move.name}={_value(move.value)})"
        case Flag():
            return f"{move.target} = {_value(move.value)}"
        case Env():
            return f"environment: {move.name}={_value(move.value)}"
        case Call():
            return f"{move.target}({_value(move.value)})"
        case Swap():
            names = ", ".join(target.removesuffix(".forward") for target in move.targets)
            return f"{names} -> {move.written or move.replacement}"
        case Wrap():
            return f"around the {move.boundary}: {move.function.partition(':')[2]}"


def _value(value: object) -> str:
    if isinstance(value, Choice):
        return f"<{value.name}: raced>"
    return repr(value)
