"""`hotlap profile`."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import (
    COMMAND,
    command_argument,
    common,
    console,
    folder,
    headed,
    print_json,
    say,
    time_span,
)
from hotlap.cli.isolated import isolated

if TYPE_CHECKING:
    from hotlap.profile.look import Bounds, Look
    from hotlap.profile.model import Profile
    from hotlap.reporting.progress import Progress
    from hotlap.trial.launch import Setting

DOCUMENT = "profile.json"
SHORTEST = 3.0
"""Seconds to profile at the least where the number of steps was not asked for: 200 short steps are
over before enough samples were taken."""


def _steps(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None or text == "all":
        return None if text is None else 0
    if text.isdigit() and int(text):
        return int(text)
    raise click.BadParameter(f"{text!r} is neither a number of steps nor `all`")


@click.command(context_settings=COMMAND)
@click.option(
    "--steps",
    callback=_steps,
    help="Steps to profile, then end the program; `all`: let it run to its end.  "
    "[default: 200, and more while 3 s are not over]",
)
@click.option(
    "--budget",
    "--seconds",
    default="20s",
    show_default=True,
    type=time_span,
    metavar="TIME",
    help="Longest time to profile; --steps all: no bound.",
)
@click.option("--layers", is_flag=True, help="Also what each layer of the model costs.")
@click.option("--seed", type=int, help="Seed where the script sets none.")
@common
@command_argument
@click.pass_context
def profile(ctx: click.Context, /, steps: int | None, budget: float, layers: bool,
            seed: int | None, patience: float, quiet: bool, as_json: bool,
            command: tuple[str, ...]) -> None:  # fmt: skip
    """Show where each step of CMD spends time and memory, and what to change."""
    import time

    from hotlap.cli.reports import keep
    from hotlap.core.spec import Mode
    from hotlap.isolation.refusals import refusal_hint
    from hotlap.profile.look import Meanwhile, look
    from hotlap.reporting.profile_text import under_load
    from hotlap.reporting.progress import progress
    from hotlap.trial.command import normalise
    from hotlap.trial.foreground import leave_like
    from hotlap.trial.launch import Setting
    from hotlap.trial.load import OtherPrograms, busy_now

    setting = Setting(
        normalise(command), Mode.PROFILE, seed=seed, scratch=folder() / "scratch", separate=False,
        passive_wait=busy_now(),
    )  # fmt: skip
    if as_json:  # stdout is for the document
        setting = replace(setting, output=folder() / "profile.log")
    kept = isolated(ctx, quiet=quiet or as_json)
    began = time.time()
    with progress(quiet=quiet) as said:
        said("waiting for the first step")
        bounds, others = _bounds(steps, budget, patience, layers=layers), OtherPrograms()
        seen = look(setting, bounds, Meanwhile(partial(said.steps, seconds=bounds.seconds)))
        busy = others.cores()
        found = under_load(_profile(seen, setting, began, said), busy, asleep=seen.asleep)
    document = headed(found.to_json() | kept.document())
    _keep(document)
    report = keep(document)
    if as_json:
        print_json(document)
    else:
        _show(found, quiet=quiet)
        if not quiet:
            click.echo(report, err=True)
    if seen.exit_code:
        if hint := refusal_hint(setting.output, setting.scratch):
            say(f"hotlap: {hint}", indent="  ")
        leave_like(seen.exit_code)
    ctx.exit(0)


def _bounds(steps: int | None, seconds: float, patience: float, *, layers: bool) -> "Bounds":
    from hotlap.profile.look import Bounds

    bounds = Bounds(seconds=seconds, patience=patience, least=SHORTEST, layers=layers)
    if steps is None:
        return bounds
    return replace(bounds, steps=steps, seconds=seconds if steps else 0.0, least=0.0)


def _profile(seen: "Look", setting: "Setting", began: float, said: "Progress") -> "Profile":
    from hotlap.core.errors import HotlapError
    from hotlap.core.machine import detect
    from hotlap.core.peaks import Peaks, peaks
    from hotlap.profile.collect import Circumstances, profile_from
    from hotlap.trial.command import python_of, shown

    machine = detect()
    measured: Peaks | None
    said("measuring the machine's peaks")
    try:
        measured = peaks(python_of(setting.command), machine=machine)
    except (HotlapError, KeyboardInterrupt):  # the profile is worth showing without them
        measured = None
    said("reading the source")
    run = Circumstances(began, Path.cwd(), seen.partial, shown(setting.command))
    return profile_from(seen.payload, machine, measured, run)


def _keep(document: dict[str, object]) -> None:
    """Write the document where `hotlap lint --profile` looks for it."""
    path = folder() / DOCUMENT
    try:
        path.write_text(json.dumps(document, indent=2))
    except OSError as error:
        say(f"hotlap: {path} cannot be written: {error.strerror}", indent="  ")


def _show(found: "Profile", *, quiet: bool) -> None:
    from hotlap.notebook.script import in_cells
    from hotlap.reporting import profile_text

    out = console(err=True)
    if not quiet:
        out.print()  # a progress bar of the program's may have left its line open
    profile_text.show(out, in_cells(found), brief=quiet)
