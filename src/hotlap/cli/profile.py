"""`hotlap profile`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import COMMAND, command_argument, common, console, folder, print_json

if TYPE_CHECKING:
    from hotlap.profile.model import Profile
    from hotlap.trial.launch import Setting


def _steps(_: click.Context, __: click.Parameter, text: str) -> int:
    if text == "all":
        return 0
    if text.isdigit() and int(text):
        return int(text)
    raise click.BadParameter(f"{text!r} is neither a number of steps nor `all`")


@click.command(context_settings=COMMAND)
@click.option(
    "--steps",
    default="200",
    show_default=True,
    callback=_steps,
    help="Steps to profile, then end the program; `all`: let it run to its end.",
)
@click.option(
    "--seconds",
    default=20.0,
    show_default=True,
    help="Longest time to profile; no bound with --steps all.",
)
@click.option("--seed", type=int, help="Seed where the script sets none.")
@common
@command_argument
@click.pass_context
def profile(ctx: click.Context, /, steps: int, seconds: float, seed: int | None, patience: float,
            quiet: bool, as_json: bool, command: tuple[str, ...]) -> None:  # fmt: skip
    """Show where each step of CMD spends time and memory, and what to change."""
    from hotlap.core.spec import Mode
    from hotlap.profile.look import Bounds, look
    from hotlap.trial.attend import leave_like
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting

    setting = Setting(
        normalise(command), Mode.PROFILE, seed=seed, scratch=folder() / "scratch", separate=False
    )
    if as_json:  # stdout is for the document
        setting = replace(setting, output=folder() / "profile.log")
    seen = look(setting, Bounds(steps, seconds if steps else 0.0, patience))
    _show(_profile(seen.payload, setting), as_json=as_json, quiet=quiet)
    if seen.exit_code:
        leave_like(seen.exit_code)
    ctx.exit(0)


def _profile(payload: dict[str, Any], setting: "Setting") -> "Profile":
    from hotlap.core.errors import HotlapError
    from hotlap.core.machine import detect
    from hotlap.core.peaks import Peaks, peaks
    from hotlap.profile.collect import profile_from
    from hotlap.trial.command import python_of

    machine = detect()
    measured: Peaks | None
    try:
        measured = peaks(python_of(setting.command), machine=machine)
    except HotlapError:
        measured = None
    return profile_from(payload, machine, measured)


def _show(found: "Profile", *, as_json: bool, quiet: bool) -> None:
    from hotlap.report import profile_text

    if as_json:
        print_json(found.to_json())
    else:
        profile_text.show(console(err=True), found, brief=quiet)
