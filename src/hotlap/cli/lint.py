"""`hotlap lint`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import FOLDER, NEGATIVE, OK, console, print_json

if TYPE_CHECKING:
    from hotlap.source.config import Config
    from hotlap.source.lint import Spot

DOCUMENT = FOLDER / "profile.json"


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif", "github"]),
    default="text",
    show_default=True,
)
@click.option(
    "--hints/--no-hints", default=None, help="Also patterns whose cost depends on the workload."
)
@click.option("--select", multiple=True, metavar="ID", help="Only these patterns.")
@click.option("--ignore", multiple=True, metavar="ID", help="Not these patterns.")
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help=f"Join with the last `hotlap profile` ({DOCUMENT}): findings with their measured "
    "cost, hints only where they cost.",
)
@click.option("--list", "listed", is_flag=True, help="List the patterns and stop.")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def lint(
    form: str,
    hints: bool | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    profiled: bool,
    listed: bool,
    paths: tuple[Path, ...],
) -> int:
    """Find what slows training and can be seen without running; PATHS default to `.`.

    Exit code: 0 nothing found, 1 findings (hints alone count as none), 2 could not judge.
    """
    if listed:
        _list(form)
        return OK
    config = _config(hints, select, ignore)
    judge = _judged_with_profile if profiled else _judged
    spots = judge(paths or (Path(),), config)
    _WRITERS[form](spots)
    if spots and form == "text" and not (config.hints or profiled):
        click.echo("patterns whose cost depends on the workload: --hints, or --profile", err=True)
    return NEGATIVE if any(not spot.hint for spot in spots) else OK


def _config(hints: bool | None, select: tuple[str, ...], ignore: tuple[str, ...]) -> "Config":
    from dataclasses import replace

    from hotlap.source.config import read_config
    from hotlap.source.lint import BROKEN, patterns

    config = read_config(Path.cwd())
    config = replace(
        config,
        hints=config.hints if hints is None else hints,
        select=select or config.select,
        ignore=(*config.ignore, *ignore),
    )
    return config.checked({BROKEN, *(pattern.id for _, pattern in patterns())})


def _judged(paths: tuple[Path, ...], config: "Config") -> "list[Spot]":
    from hotlap.source.lint import lint as judge

    return list(judge(paths, config))


def _judged_with_profile(paths: tuple[Path, ...], config: "Config") -> "list[Spot]":
    """The spots, the dearest first; what a profile confirmed is no longer a hint."""
    from dataclasses import replace

    from hotlap.core.errors import UsageError
    from hotlap.profile.join import joined

    try:
        document = json.loads(DOCUMENT.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no {DOCUMENT}", "run `hotlap profile CMD...` first") from None
    except ValueError as error:
        raise UsageError(f"{DOCUMENT} cannot be read: {error}") from None
    spots = []
    for found in sorted(joined(paths, document, config), key=lambda c: -c.seconds):
        says = f"{found.spot.says}: {found.cost} a step" if found.cost else found.spot.says
        says += " (the file changed since the profile)" if found.stale else ""
        sure = found.worth or found.confirmed
        spots.append(replace(found.spot, says=says, hint=found.spot.hint and not sure))
    return spots


def _text(spots: "list[Spot]") -> None:
    from hotlap.report.lint_text import show

    show(console(), spots)


def _json(spots: "list[Spot]") -> None:
    from dataclasses import asdict

    print_json({"findings": [{**asdict(spot), "path": str(spot.path)} for spot in spots]})


def _sarif(spots: "list[Spot]") -> None:
    from hotlap.report.sarif import sarif
    from hotlap.source.lint import patterns

    document = sarif(spots, [pattern for _, pattern in patterns()])
    click.echo(json.dumps(document, indent=2))


def _github(spots: "list[Spot]") -> None:
    from hotlap.report.lint_text import github

    click.echo(github(spots), nl=False)


_WRITERS: dict[str, Callable[..., Any]] = {
    "text": _text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}


def _list(form: str) -> None:
    from hotlap.source.lint import patterns

    if form == "json":
        listed = [
            {"id": p.id, "technique": record.id, "hint": p.hint, "says": p.says, "remedy": p.remedy}
            for record, p in patterns()
        ]
        print_json({"patterns": listed})
        return
    width = max(len(pattern.id) for _, pattern in patterns())
    for _, pattern in patterns():
        mark = "hint" if pattern.hint else "    "
        click.echo(f"{pattern.id:<{width}}  {mark}  {pattern.says}")
