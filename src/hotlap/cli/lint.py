"""`hotlap lint`."""

import json
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import (
    FOLDER,
    NEGATIVE,
    OK,
    Choice,
    console,
    json_option,
    names,
    print_json,
    quiet_option,
    say,
)

if TYPE_CHECKING:
    from hotlap.core.protocol import Document
    from hotlap.source.config import Config
    from hotlap.source.lint import Spot
    from hotlap.source.patch.plan import Patch

FIRST_SECONDS, PROGRESS_SECONDS = 5.0, 15.0
"""Seconds until the first line about the progress, and from one to the next."""
DOCUMENT = FOLDER / "profile.json"


@click.command()
@click.option(
    "--format",
    "form",
    type=Choice(["text", "json", "sarif", "github", "gitlab", "rdjsonl"]),
    default="text",
    show_default=True,
)
@click.option(
    "--hints/--no-hints", default=None, help="Also patterns whose cost depends on the workload."
)
@click.option(
    "--select", multiple=True, callback=names, metavar="ID[,ID]",
    help="Only these patterns, hints too.",
)  # fmt: skip
@click.option(
    "--ignore", multiple=True, callback=names, metavar="ID[,ID]", help="Not these patterns."
)
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help=f"Join with the last `hotlap profile` ({DOCUMENT}): findings with their measured "
    "cost, hints only where they cost.",
)
@click.option(
    "--extend-select", multiple=True, callback=names, metavar="ID[,ID]",
    help="These hints in any case.",
)  # fmt: skip
@click.option(
    "--per-file-ignores", multiple=True, metavar="GLOB:ID[,ID]", help="Not these in these files."
)
@click.option(
    "--baseline", type=click.Path(path_type=Path), help="Show only what this file does not know."
)
@click.option(
    "--write-baseline", type=click.Path(path_type=Path), help="Write all findings as known ones."
)
@click.option("--statistics", is_flag=True, help="Count each pattern instead of listing places.")
@click.option(
    "--fix", is_flag=True, help="Rewrite what can be rewritten without a doubt; --diff shows it."
)
@click.option("--diff", is_flag=True, help="Show what --fix would write; nothing is written.")
@click.option("--list", "listed", is_flag=True, help="List the patterns and stop.")
@json_option
@quiet_option
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
def lint(form: str, profiled: bool, listed: bool, as_json: bool, quiet: bool,
         paths: tuple[Path, ...], **options: Any) -> int:  # fmt: skip
    """Find what slows training and can be seen without running; PATHS default to `.`.

    A notebook is judged as one program; its lines are counted in the cell.

    Exit code: 0 nothing found, 1 findings (hints alone count as none), 2 could not judge.
    """
    form = "json" if as_json else form
    if listed:
        _list(form)
        return OK
    config = _config(options)
    judged = paths or (Path(),)
    if profiled:
        spots = _judged_with_profile(judged, config)
    else:
        spots = _judged(judged, config, quiet=quiet)
    if options["write_baseline"]:
        return _new_baseline(options["write_baseline"], spots, quiet=quiet)
    if options["baseline"]:
        from hotlap.source.lint_baseline import beyond_baseline

        spots = beyond_baseline(options["baseline"], spots)
    if options["fix"] or options["diff"]:
        return _fix(spots, config, write=not options["diff"], quiet=quiet)
    _show(form, spots, statistics=options["statistics"], brief=quiet)
    short = quiet or config.hints or config.select or profiled or options["statistics"]
    if form == "text" and not short and not _without_files(judged, config):
        _name_the_hints(paths)
    return NEGATIVE if any(not spot.hint for spot in spots) else OK


def _without_files(paths: tuple[Path, ...], config: "Config") -> bool:
    """Say so where there was nothing to judge, which looks like a clean result otherwise."""
    from hotlap.source.files import python_files

    if any(True for _ in python_files(paths, config)):
        return False
    say(f"There is no Python file at or below {', '.join(str(path.resolve()) for path in paths)}.")
    return True


def _name_the_hints(paths: tuple[Path, ...]) -> None:
    shown = shlex.join(["hotlap", "lint", "--hints", *map(str, paths)])
    say(
        f"Whether other patterns cost time depends on the workload. Type `{shown}` to see them, or "
        "`hotlap profile CMD...` and then `hotlap lint --profile` to see those that cost it."
    )


def _show(form: str, spots: "list[Spot]", *, statistics: bool, brief: bool) -> None:
    if form not in {"text", "json"}:
        from hotlap.source.notebooks import as_file_places

        spots = as_file_places(spots)
    if statistics:
        from hotlap.reporting.lint_text import statistics as counted

        click.echo(counted(spots), nl=False)
    elif form == "text":
        _text(spots, brief=brief)
    else:
        _WRITERS[form](spots)


def _new_baseline(file: Path, spots: "list[Spot]", *, quiet: bool) -> int:
    from hotlap.source.lint_baseline import write_baseline

    known = write_baseline(file, spots)
    if not quiet:
        click.echo(f"{file}: {known} known", err=True)
    return OK


def _fix(spots: "list[Spot]", config: "Config", *, write: bool, quiet: bool) -> int:
    """Rewrite or show it. Exit code 1: findings are left; with --diff: something would change."""
    from hotlap.reporting.lint_text import summary_of_fixes
    from hotlap.source.fixes import fixed, fixes
    from hotlap.source.patch.notebook_cells import as_written
    from hotlap.source.patch.text import write_all

    done = fixes(spots, config)
    if not write:
        click.echo("".join(done.diff(file) for file in done.changed), nl=False)
        return NEGATIVE if done.changed else OK
    write_all(as_written(done.changed))
    left = _judged({spot.path: None for spot in spots}, config, quiet=quiet) if spots else []
    if not quiet:
        _say_rewritten(done)
    _text(left, brief=True)
    if not quiet:
        click.echo(summary_of_fixes(fixed(done, config), left))
    return NEGATIVE if any(not spot.hint for spot in left) else OK


def _say_rewritten(done: "Patch") -> None:
    from hotlap.notebook.script import in_cells

    if not done.changed:
        click.echo("nothing was rewritten", err=True)
        return
    for file in done.changed:
        for change in done.changes(file):
            click.echo(in_cells(f"{file.path}:{change.line}"))
            for sign, lines in (("-", change.old), ("+", change.new)):
                click.echo("".join(f"  {sign} {line}\n" for line in lines), nl=False)


def _config(options: dict[str, Any]) -> "Config":
    from dataclasses import replace

    from hotlap.source.config import read_config
    from hotlap.source.lint import BROKEN, patterns

    config = read_config(Path.cwd())
    hints: bool | None = options["hints"]
    config = replace(
        config,
        hints=config.hints if hints is None else hints,
        select=options["select"] or config.select,
        ignore=(*config.ignore, *options["ignore"]),
        extend=(*config.extend, *options["extend_select"]),
        per_file={**config.per_file, **_per_file(options["per_file_ignores"])},
    )
    return config.checked({BROKEN, *(pattern.id for _, pattern in patterns())})


def _per_file(given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    from hotlap.core.errors import UsageError

    found: dict[str, tuple[str, ...]] = {}
    for one in given:
        glob, colon, ids = one.rpartition(":")
        if not colon or not glob or not ids:
            raise UsageError(f"--per-file-ignores {one}: not GLOB:ID", "for example 'tests/*:ID'")
        found[glob] = (*found.get(glob, ()), *(id_.strip() for id_ in ids.split(",")))
    return found


def _judged(paths: Iterable[Path], config: "Config", *, quiet: bool) -> "list[Spot]":
    from hotlap.source.lint import lint as judge
    from hotlap.source.notebooks import in_cells

    spots = judge(paths, config) if quiet else judge(paths, config, progress=_Progress())
    return in_cells(spots)


class _Progress:
    """Prints what was done so far, where it takes more than a few seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + FIRST_SECONDS

    def __call__(self, done: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            say(f"hotlap: {done}; a later run reads only what changed")


def _judged_with_profile(paths: tuple[Path, ...], config: "Config") -> "list[Spot]":
    """The spots, the dearest first; what a profile confirmed is no longer a hint."""
    from dataclasses import replace

    from hotlap.core.errors import UsageError
    from hotlap.profile.join import joined
    from hotlap.source.notebooks import in_cells

    for path in paths:
        if path.suffix == ".json":
            raise UsageError(
                f"{path} is no Python file", f"--profile takes no file: it reads {DOCUMENT}"
            )
    try:
        document = json.loads(DOCUMENT.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no {DOCUMENT}", "run `hotlap profile CMD...` first") from None
    except ValueError as error:
        raise UsageError(f"{DOCUMENT} cannot be read: {error}") from None
    spots = []
    files = list(_as_run(paths, config, document))
    dearest = sorted(joined(files, document, config), key=lambda c: -(c.share or c.finding))
    for found in dearest:
        says = f"{found.spot.says}: {found.cost}" if found.cost else found.spot.says
        says += " (changed since the profile)" if found.stale else ""
        sure = found.worth or found.confirmed
        spots.append(replace(found.spot, says=says, hint=found.spot.hint and not sure))
    _name_what_no_pattern_shows(document, {spot.technique for spot in spots})
    return in_cells(spots)


def _name_what_no_pattern_shows(document: "Document", shown: set[str]) -> None:
    """The problems that the profile saw by what the program did, not by its source.

    `shown`: the techniques of the spots.
    """
    from hotlap.notebook.script import in_cells

    if click.get_current_context().params["quiet"]:
        return
    for finding in document["findings"]:
        remedies = {remedy["id"] for remedy in finding["remedies"]}
        if finding["problem"] and not remedies & shown:
            place, what = in_cells(finding["place"]), in_cells(finding["what"])
            say(f"in the profile alone: {place}  {what}", indent="  ")


def _as_run(paths: tuple[Path, ...], config: "Config", document: "Document") -> Iterator[Path]:
    """The files at and below the paths; of a notebook that was profiled, the script that ran."""
    from hotlap.notebook.script import SUFFIX, script_path, write_script
    from hotlap.profile.join import Past
    from hotlap.source.files import python_files

    met = Past(document).met
    for path in python_files(paths, config):
        ran = path.suffix == SUFFIX and (path in paths or script_path(path).resolve() in met)
        yield write_script(path) if ran else path


def _text(spots: "list[Spot]", *, brief: bool) -> None:
    from hotlap.core.machine import has_nvidia_gpu
    from hotlap.reporting.lint_text import show

    show(console(), spots, brief=brief, gpu=has_nvidia_gpu())


def _json(spots: "list[Spot]") -> None:
    from dataclasses import asdict

    print_json({"findings": [{**asdict(spot), "path": str(spot.path)} for spot in spots]})


def _sarif(spots: "list[Spot]") -> None:
    from hotlap.reporting.sarif import sarif
    from hotlap.source.lint import patterns

    document = sarif(spots, [pattern for _, pattern in patterns()])
    click.echo(json.dumps(document, indent=2))


def _github(spots: "list[Spot]") -> None:
    from hotlap.reporting.lint_text import github

    click.echo(github(spots), nl=False)


def _gitlab(spots: "list[Spot]") -> None:
    from hotlap.reporting.lint_text import gitlab

    click.echo(gitlab(spots), nl=False)


def _rdjsonl(spots: "list[Spot]") -> None:
    from hotlap.reporting.lint_text import rdjsonl

    click.echo(rdjsonl(spots), nl=False)


_WRITERS: dict[str, Callable[..., object]] = {
    "json": _json,
    "sarif": _sarif,
    "github": _github,
    "gitlab": _gitlab,
    "rdjsonl": _rdjsonl,
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
    from hotlap.reporting.tables import Row, columns, table

    out = console()
    rows = [Row((p.id, "hint" if p.hint else ""), p.says) for _, p in patterns()]
    out.print(table(columns("", "", left=[""]), rows, out.width))
