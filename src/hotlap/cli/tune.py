"""`hotlap tune`."""

import datetime
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hotlap.cli.common import (
    COMMAND,
    FAILED,
    INTERRUPTED,
    NEGATIVE,
    OK,
    command_argument,
    common,
    console,
    folder,
    headed,
    names,
    only_one,
    print_json,
    question,
    stdin_copy,
    time_span,
    until_options,
    wait_for_calm,
    wait_option,
)
from hotlap.cli.isolated import isolated
from hotlap.common.signals import interrupted_by_sigterm
from hotlap.core.errors import UsageError
from hotlap.core.technique import UNASKED, Numerics

if TYPE_CHECKING:
    from hotlap.tune.result import TuneResult
    from hotlap.tune.state import TuneConfig


SHORTEST_BUDGET_SECONDS = 20.0


def _enough(_: click.Context, __: click.Parameter, seconds: float) -> float:
    if seconds < SHORTEST_BUDGET_SECONDS:
        raise click.BadParameter(
            f"{seconds:g} seconds are too short for a race; give at least "
            f"{SHORTEST_BUDGET_SECONDS:.0f}s, or minutes: 5m"
        )
    return seconds


def _into_a_folder(_: click.Context, __: click.Parameter, path: Path) -> Path:
    """Refuse before the tune what could not be written after it."""
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}")
    return path


def _allowed(_: click.Context, __: click.Parameter, text: str) -> frozenset[Numerics]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in parts if part not in list(Numerics)]
    if unknown:
        meant = question(unknown[0], list(Numerics))
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(Numerics)}.{meant}")
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
@wait_option
@click.option("--only", multiple=True, callback=names, help="Race these techniques alone (a,b,c).")
@click.option("--skip", multiple=True, callback=names, help="Leave these techniques out.")
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
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_into_a_folder,
    default=Path("hotlap.toml"),
    show_default=True,
    help="Where to write the recipe.",
)
@click.option(
    "--base",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A recipe that is on in every race: what is kept joins it.",
)
@until_options(
    "With --allow training: race techniques that change the training to a target, such as "
    "'val_acc>=0.97' or 'loss<0.35'.",
    seeds="how many seeds each technique is raced with.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say of every technique why it was not raced.")
@common
@command_argument
@click.pass_context
def tune(ctx: click.Context, /, as_json: bool, quiet: bool, verbose: bool, recipe: Path,
         command: tuple[str, ...], **options: Any) -> None:  # fmt: skip
    """Race every technique that applies to CMD; prove speed and parity; write the recipe."""
    from hotlap.cli.reports import keep, recipe_diff
    from hotlap.core.machine import detect
    from hotlap.core.recipe import torch_version
    from hotlap.notebook.script import in_cells
    from hotlap.profile.collect import Circumstances, profile_from
    from hotlap.reporting import tune_text
    from hotlap.reporting.profile_text import under_load
    from hotlap.reporting.tune_display import TuneDisplay
    from hotlap.trial.command import shown
    from hotlap.tune.result import advice, recipe_of, write_recipe
    from hotlap.tune.search import tune as search

    training = _to_a_target(options["allow"], options["until"], options["base"])
    only_one(ctx)
    config = _config(command, options)
    if training:
        ctx.exit(_to_target(ctx, config, recipe))
    out, progress, machine = console(), console(err=True), detect()
    kept = isolated(ctx, quiet=quiet or as_json)
    wait_for_calm(progress, options["wait"], quiet=quiet or as_json)
    live = TuneDisplay(progress, config, verbose=not quiet and not as_json)
    began = time.time()
    with live.showing(), interrupted_by_sigterm():
        result = search(config, machine, live)
    result.isolation = str(kept.isolation.tier)
    _name_base(
        result, options["base"], config.base.stale(machine, torch_version(), config.setting.command)
    )
    found = None
    if result.profile:
        run = Circumstances(began, Path.cwd(), "", shown(result.command))
        profiled = profile_from(result.profile, machine, None, run)
        found = in_cells(under_load(profiled, result.load))
    seen = found.findings if found else ()
    result.advice = in_cells(advice(seen, result.profile, result, Path.cwd()))
    result.notes = in_cells(result.notes)
    written = write_recipe(result, recipe, machine)
    document = headed(tune_text.document(result, written) | kept.document())
    report = keep(document, recipe_diff(recipe_of(result, machine)))
    if as_json:
        print_json(document)
    else:
        if found and not quiet:
            tune_text.show_findings(out, found, result)
        if quiet:
            tune_text.show_outcome(out, result, written)
        else:
            tune_text.show(out, result, written, everything=verbose)
            progress.print(report, style="dim", soft_wrap=True)
    ctx.exit(_exit_code(result))


def _to_a_target(allow: Collection[Numerics], until: str | None, base: Path | None) -> bool:
    """Whether what changes the training is raced, which takes a target, and no other recipe."""
    training = Numerics.TRAINING in allow
    if training != (until is not None):
        raise UsageError(
            "techniques that change the training are raced to a target",
            "hotlap tune --allow training --until 'val_acc>=0.97' CMD...",
        )
    if training and base:
        raise UsageError("--base is for races of steps", "leave it out, or --allow training")
    return training


def _name_base(result: "TuneResult", base: Path | None, stale: list[str]) -> None:
    """Say which recipe was on in every race, and what has changed since it was measured."""
    if base is not None:
        result.base_recipe = str(base)
        result.notes += [f"{base} may be stale: {reason}" for reason in stale]


def _to_target(ctx: click.Context, config: "TuneConfig", recipe: Path) -> int:
    """Race what changes the training to the target; print it, write the recipe."""
    from hotlap.cli.reports import keep, recipe_diff
    from hotlap.core.machine import detect
    from hotlap.reporting import tune_until_text
    from hotlap.until.race import MetricSource, UntilRules, metric_pattern
    from hotlap.until.search import UntilConfig, recipe_of, tune_until
    from hotlap.until.targets import Target

    options, machine = ctx.params, detect()
    silent = options["quiet"] or options["as_json"]
    target = Target.parse(options["until"])
    source = MetricSource(options["metric_pattern"], options["metric_file"])
    metric_pattern(target, source)  # what cannot be taken is refused before anything runs
    rules = UntilRules(options["seeds"], config.budget, to_keep=True)
    kept = isolated(ctx, quiet=silent)
    out = console(err=True)

    def stage(text: str) -> None:
        if not silent:
            out.print(f"racing: {text}", style="dim", markup=False)

    wait_for_calm(out, options["wait"], quiet=silent)
    asked = UntilConfig(config.setting, target, source, config.wanted, rules, config.patience)
    result = tune_until(asked, machine, stage)
    found = recipe_of(result, machine, datetime.date.today().isoformat())
    if found is not None:
        found.write(recipe)
    written = recipe if found is not None else None
    document = headed(tune_until_text.document(result, written) | kept.document())
    report = keep(document, recipe_diff(found) if found else "")
    if options["as_json"]:
        print_json(document)
    else:
        tune_until_text.show(console(), result, written)
        if not silent:
            out.print(report, style="dim", soft_wrap=True)
    return INTERRUPTED if result.interrupted else OK


def _exit_code(result: "TuneResult") -> int:
    if result.interrupted:
        return INTERRUPTED
    if result.failed and not result.timed:
        return FAILED
    return NEGATIVE if result.kept and not result.confirmed else OK


def _config(command: tuple[str, ...], options: dict[str, Any]) -> "TuneConfig":
    from hotlap.core.recipe import Recipe
    from hotlap.core.registry import technique
    from hotlap.core.spec import Mode
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting
    from hotlap.tune.candidates import Wanted, known, memory_savers
    from hotlap.tune.state import TuneConfig

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
        memory_savers() if options["fit_memory"] else (),
    )
    base = Recipe.read(options["base"]) if options["base"] else Recipe()
    limits = {name: options[name] for name in ("budget", "min_effect", "patience")}
    return TuneConfig(setting, wanted, base=base, **limits)
