"""`hotlap tune`."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import (
    COMMAND,
    INTERRUPTED,
    NEGATIVE,
    command_argument,
    common,
    console,
    folder,
    print_json,
    stdin_copy,
    time_span,
)
from hotlap.core.numerics import UNASKED, Numerics

if TYPE_CHECKING:
    from hotlap.tune.candidates import Script
    from hotlap.tune.orders import Orders
    from hotlap.tune.result import TuneResult


LOOK = 6.0
LOOK_SHARE = 0.05
WITH_FILES = 60.0
"""Budget (seconds) from which a few may be spent on the files that the dataset reads."""
SHORTEST = 20.0


def _enough(_: click.Context, __: click.Parameter, seconds: float) -> float:
    if seconds < SHORTEST:
        raise click.BadParameter(
            f"{seconds:g}s is too short for a race; give at least {SHORTEST:.0f}s"
        )
    return seconds


def _names(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _allowed(_: click.Context, __: click.Parameter, text: str) -> frozenset[Numerics]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in parts if part not in list(Numerics)]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(Numerics)}")
    return frozenset(Numerics(part) for part in parts) | {Numerics.EXACT}


@click.command(context_settings=COMMAND)
@click.option(
    "--budget",
    default="5m",
    show_default=True,
    type=time_span,
    metavar="TIME",
    callback=_enough,
    help="How long the whole tune may take, such as 90s or 10m.",
)
@click.option("--only", default="", callback=_names, help="Race these techniques alone (a,b,c).")
@click.option("--skip", default="", callback=_names, help="Leave these techniques out.")
@click.option(
    "--allow",
    default=",".join(n for n in Numerics if n in UNASKED),
    show_default=True,
    callback=_allowed,
    help="Numerics classes that may be raced.",
)
@click.option("--fit-memory", is_flag=True, help="Race what saves memory, too.")
@click.option("--min-effect", default=0.02, show_default=True, help="Smallest gain worth keeping.")
@click.option("--seed", default=0, show_default=True, help="Seed where the script sets none.")
@click.option(
    "--recipe",
    type=click.Path(path_type=Path),
    default=Path("hotlap.toml"),
    show_default=True,
    help="Where to write the recipe.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say of every technique why it was not raced.")
@common
@command_argument
@click.pass_context
def tune(ctx: click.Context, /, as_json: bool, quiet: bool, verbose: bool, recipe: Path,
         command: tuple[str, ...], **options: Any) -> None:  # fmt: skip
    """Race every technique that applies to CMD; prove speed and parity; write the recipe."""
    from hotlap.core.machine import detect
    from hotlap.report import tune_html, tune_text
    from hotlap.tune.advice import advice
    from hotlap.tune.recipe import recipe_of
    from hotlap.tune.search import Tuner

    orders = _orders(command, options)
    here, out, machine = folder(), console(err=as_json), detect()
    follow = tune_text.Follow(out, orders.seconds, verbose=not quiet and not as_json)
    with follow.showing():
        follow.stage("looking at the script")
        begin = time.monotonic()
        seen = _looked_at(orders)
        orders = replace(orders, spent=time.monotonic() - begin)
        tuner = Tuner(orders, _script(seen), machine, follow)
        result = tuner.run()
    result.advice = advice(seen, result, Path.cwd())
    written = recipe_of(result, tuner.chosen, machine)
    worth = bool(result.kept) and (result.confirmed or result.interrupted)
    if worth:
        written.write(recipe)
    tune_html.write(here / "report.html", result, written)
    if as_json:
        print_json(tune_text.document(result))
    else:
        tune_text.show(out, result, everything=verbose)
        _say_what_is_next(result, recipe, here, worth=worth)
    ctx.exit(INTERRUPTED if result.interrupted else 0 if worth or not result.kept else NEGATIVE)


def _orders(command: tuple[str, ...], options: dict[str, Any]) -> "Orders":
    from hotlap.core.registry import technique
    from hotlap.core.spec import Mode
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting
    from hotlap.tune.baseline import MEMORY_SAVERS
    from hotlap.tune.candidates import Wanted, known
    from hotlap.tune.orders import Orders

    here = folder()
    parts = normalise(command)
    log = here / "trials.log"
    log.unlink(missing_ok=True)
    seed = options["seed"]
    setting = Setting(parts, Mode.RACE, seed=seed, scratch=here / "scratch",
                      stdin=stdin_copy(here), output=log)  # fmt: skip
    wanted = Wanted(
        options["allow"],
        known(options["only"]),
        tuple(technique(name).id for name in options["skip"]),
        MEMORY_SAVERS if options["fit_memory"] else (),
    )
    return Orders(setting, wanted, options["budget"], options["min_effect"], options["patience"])


def _looked_at(orders: "Orders") -> dict[str, Any]:
    from hotlap.profile.look import Bounds, look

    seconds = min(LOOK, LOOK_SHARE * orders.seconds)
    wanted = orders.wanted
    files = orders.seconds >= WITH_FILES and not wanted.only and "packed_dataset" not in wanted.skip
    bounds = Bounds(seconds=seconds, patience=orders.patience, dataset=files)
    return look(orders.setting, bounds).payload


def _script(seen: dict[str, Any]) -> "Script":
    from hotlap.profile.model import shares_of
    from hotlap.tune.candidates import Script

    return Script(dict(seen["facts"]), shares_of(seen))


def _say_what_is_next(result: "TuneResult", recipe: Path, here: Path, *, worth: bool) -> None:
    from hotlap.trial.command import shown

    if worth:
        click.echo(f"\nwritten to {recipe}; use it: hotlap run {shown(result.command)}")
    else:
        click.echo(f"\n{recipe} is not written{_why_not(result)}")
    click.echo(f"report: {here / 'report.html'}")


def _why_not(result: "TuneResult") -> str:
    """Why there is no recipe, where the outcome has not said so."""
    if result.kept:
        return ""
    return ": nothing was shown to be worth keeping" if result.timed else ": nothing was raced"
