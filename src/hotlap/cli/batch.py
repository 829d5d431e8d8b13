"""`hotlap batch`."""

import re
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import (
    COMMAND,
    INTERRUPTED,
    command_argument,
    common,
    console,
    folder,
    headed,
    only_one,
    print_json,
    stdin_copy,
    time_span,
)
from hotlap.cli.isolated import isolated
from hotlap.cli.reports import keep
from hotlap.core.errors import UsageError

if TYPE_CHECKING:
    from hotlap.batch.contestant import SizedCommand

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_LEAST = 1 << 20  # bytes: less is a number without its unit
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def _bytes(_: click.Context, __: click.Parameter, text: str | None) -> int:
    if text is None:
        return 0
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no amount of memory; try 8G or 500M")
    amount = int(float(match[1]) * 2 ** _UNITS[match[2].upper()])
    if amount < _LEAST:
        raise click.BadParameter(f"{text!r} is too little for any program; try 8G or 500M")
    return amount


def _template(_: click.Context, __: click.Parameter, text: str | None) -> str:
    if text is not None and "{batch}" not in text:
        raise click.BadParameter("it must hold {batch}, such as '--batch-size {batch}'")
    return text or ""


@click.command(context_settings=COMMAND)
@click.option("--max", "most", type=click.IntRange(min=1), help="Largest batch size to try.")
@click.option(
    "--set",
    "argument",
    callback=_template,
    metavar="WORDS",
    help="The script's own option, such as '--batch-size {batch}', if no DataLoader has the size.",
)
@click.option(
    "--memory",
    callback=_bytes,
    metavar="SIZE",
    help="Resident memory that a trial may take, such as 8G; by default what the machine has free.",
)
@click.option(
    "--headroom",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 0.9),
    help="Share of the memory that must stay free.",
)
@click.option(
    "--budget",
    default="5m",
    show_default=True,
    type=time_span,
    metavar="TIME",
    help="Time for the whole search, confirming steps included.",
)
@click.option(
    "--steps",
    default=20,
    show_default=True,
    type=click.IntRange(min=1),
    help="Further steps that confirm the answer.",
)
@click.option("--seed", default=0, show_default=True, help="Seed where the script sets none.")
@common
@command_argument
@click.pass_context
def batch(ctx: click.Context, /, most: int | None, argument: str, memory: int, headroom: float,
          budget: float, steps: int, seed: int, patience: float, quiet: bool, as_json: bool,
          command: tuple[str, ...]) -> None:  # fmt: skip
    """Find the largest batch size that fits CMD's memory, and the fastest."""
    from hotlap.batch.batch_search import BatchSearchConfig, Search
    from hotlap.batch.limits import Limits
    from hotlap.reporting import batch_text
    from hotlap.trial.command import shown

    only_one(ctx)
    sized = _sized_command(command, seed, argument, patience, Limits.here(memory, headroom))
    kept = isolated(ctx, quiet=quiet or as_json)
    out = console(err=as_json)
    typed = shown(sized.setting.command)
    follow = batch_text.Follow(out, typed, budget, enabled=not (quiet or as_json))
    with follow.showing():
        found = Search(BatchSearchConfig(sized, most or 0, budget, steps), follow).run()
    document = headed(found.to_json() | kept.document())
    keep(document)
    if as_json:
        print_json(document)
    else:
        batch_text.show(out, found, brief=quiet)
    ctx.exit(INTERRUPTED if found.interrupted else 0)


def _sized_command(
    command: tuple[str, ...], seed: int, argument: str, patience: float, limits: object
) -> "SizedCommand":
    from hotlap.batch.contestant import SizedCommand
    from hotlap.batch.limits import Limits
    from hotlap.core.spec import Mode
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting

    assert isinstance(limits, Limits)
    words = normalise(command)
    if argument and words[0] in {"bash", "sh"}:
        raise UsageError(
            "--set adds words to the end of the command, which a shell script may not hand on",
            "give the training command itself",
        )
    here = folder()
    setting = Setting(
        words, Mode.RACE, seed=seed, scratch=here / "scratch", output=here / "batch.log",
        stdin=stdin_copy(here),
    )  # fmt: skip
    return SizedCommand(setting, argument=argument, patience=patience, limits=limits)
