"""`hotlap launch`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hotlap.cli.common import COMMAND, files, folder, quiet_option
from hotlap.launch.options import OPTIONS

HANG = 1800.0
STARTERS = re.compile(r"(.*/)?(python[\d.]*|torchrun|accelerate|deepspeed)")
"""Programs that are typed in front of a script, and are none."""


def _torchrun_options(function: Callable[..., object]) -> Callable[..., object]:
    for option in reversed(OPTIONS):
        kind: dict[str, Any] = {"metavar": option.value} if option.value else {"is_flag": True}
        function = click.option(
            *option.spellings, option.key, default=None, help=option.help, **kind
        )(function)
    return function


@click.command(context_settings=COMMAND)
@click.option(
    "--hang-timeout",
    type=click.FloatRange(min=0),
    default=HANG,
    show_default=True,
    metavar="SECONDS",
    help="End the ranks when, after the first optimizer step, none was made for so long; 0: never.",
)
@_torchrun_options
@quiet_option
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="SCRIPT [ARGS]...",
    shell_complete=files,
)
def launch(hang_timeout: float, quiet: bool, words: tuple[str, ...],
           **options: object) -> None:  # fmt: skip
    """Start ranks as torchrun does, with the settings that recover from a lost one.

    A rank that is killed, or hangs, takes the others along, and all start again; a training that
    resumes from its checkpoints goes on. Options that are not listed are handed to torchrun.
    """
    del quiet  # it speaks only when something is wrong
    import os
    import shlex

    from hotlap.core.errors import UsageError
    from hotlap.launch import settings
    from hotlap.launch import supervised_torchrun as run
    from hotlap.trial.command import no_file
    from hotlap.trial.foreground import leave_like

    given = {key: value for key, value in options.items() if value is not None}
    command = settings.command(given, words)
    if STARTERS.fullmatch(words[0]) and len(words) > 1:
        rest = shlex.join(words[1:])
        raise UsageError(
            f"{words[0]} is not a script: `hotlap launch` starts the ranks itself",
            f"leave it out: hotlap launch {rest}",
        )
    if words[0].endswith(".py") and not Path(words[0]).exists():
        raise no_file(words[0])
    code = run.launch(
        command,
        settings.environment(given, os.environ),
        hang_timeout=hang_timeout,
        reports=folder(),
        again=settings.restarts(given),
        tell=lambda line: click.echo(f"hotlap: {line}", err=True),
    )
    leave_like(code)
