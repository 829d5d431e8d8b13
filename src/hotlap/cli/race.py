"""`hotlap race`."""

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import (
    COMMAND,
    INTERRUPTED,
    NEGATIVE,
    Number,
    common,
    console,
    folder,
    headed,
    only_one,
    print_json,
    say,
    stdin_copy,
    time_span,
    until_options,
    wait_for_calm,
    wait_option,
    words_argument,
)
from hotlap.cli.isolated import isolated
from hotlap.cli.reports import keep
from hotlap.common.signals import interrupted_by_sigterm
from hotlap.core.errors import UsageError

if TYPE_CHECKING:
    from hotlap.cli.isolated import Isolated
    from hotlap.trial.launch import Setting
    from hotlap.trial.race import RaceResult
    from hotlap.trial.side import Side
    from hotlap.trial.stopping import StoppingRules
    from hotlap.until.race import UntilResult

UNTIL_SECONDS = 600.0
"""Time for a race to a target where no --budget is given: five seeds of two short trainings."""

Words = tuple[str, ...]


class TwoCommands(click.Command):
    """Keeps the `--` that parts the two commands, which click would swallow."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the second command aside before click sees the rest."""
        if args.count("--") > 1:
            raise UsageError(
                "there is more than one `--`",
                "quote the commands: hotlap race 'CMD_A' -- 'CMD_B'",
            )
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta["second"] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, args[:cut])


@click.command(cls=TwoCommands, context_settings=COMMAND)
@click.option(
    "--max-slowdown",
    type=Number(1, 100),
    metavar="RATIO",
    help="Exit with 1 when B is shown to take more than RATIO times as long as A, such as 1.05; "
    "with 0 when it does not, or that could not be told (`too_slow` is null in --json).",
)
@click.option(
    "--budget",
    "--seconds",
    default="1m",
    show_default="1m; 10m with --until",
    type=time_span,
    metavar="TIME",
    help="Time to race; six pairs of blocks are run in any case, and the first start of both comes "
    "on top.",
)
@wait_option
@click.option(
    "--min-effect",
    default=0.02,
    show_default=True,
    type=Number(0, 1, min_open=True),
    metavar="SHARE",
    help="Smallest difference worth having, as a share.",
)
@click.option(
    "--precision",
    type=Number(0, min_open=True),
    metavar="SHARE",
    help="Race on until the interval is as narrow as this share.",
)
@click.option("--seed", default=0, show_default=True, help="Seed where a script sets none.")
@until_options(
    "Race to a target instead, such as 'val_acc>=0.97' or 'loss<0.35': which command reaches "
    "it first, in its own running time.",
    seeds="how many seeds. Seeds that the script sets itself are moved as well.",
)
@click.option(
    "--git",
    "base",
    metavar="BASE",
    help="Race two revisions of the repository instead: hotlap race --git BASE [HEAD] -- CMD. "
    "Without HEAD the files as they are race against BASE.",
)
@common
@words_argument("command", "CMD_A... -- CMD_B...")
@click.pass_context
def race(ctx: click.Context, max_slowdown: float | None, budget: float, wait: float | None,
         min_effect: float, precision: float | None, seed: int, base: str | None, patience: float,
         quiet: bool, as_json: bool, command: Words, until: str | None,
         seeds: int, metric_pattern: str, metric_file: Path | None) -> None:  # fmt: skip
    """Race CMD_A against CMD_B in lockstep, so that both meet the same background load."""
    from hotlap.reporting import race_text
    from hotlap.trial.stopping import StoppingRules, StopReason

    only_one(ctx)
    kept = isolated(ctx, quiet=quiet or as_json)
    if until is not None:
        with _contestants(base, command, ctx.meta["second"]) as (runs, names):
            seconds = budget if _given(ctx, "budget") else UNTIL_SECONDS
            to_target = _to_target(ctx, until, runs, seconds)
        _print_to_target(to_target, names, kept, as_json=as_json, brief=quiet)
        ctx.exit(INTERRUPTED if to_target.interrupted else 0)
    rules = StoppingRules(
        min_effect, seconds=budget, precision=precision,
        threshold=None if max_slowdown is None else 1.0 / max_slowdown, unknown_change=True,
        partial=True,
    )  # fmt: skip
    result, names = _raced(ctx, rules)
    document = headed(race_text.document(result, names, max_slowdown) | kept.document())
    report = keep(document)
    if as_json:
        print_json(document)
    else:
        race_text.show(
            console(), result, names, brief=quiet, limit=max_slowdown,
            again=lambda more: _again(ctx, budget + more),
        )  # fmt: skip
        if not quiet:
            console(err=True).print(report, style="dim", soft_wrap=True)
    words = race_text.undecided(result, max_slowdown)
    if words and not sys.stdout.isatty():  # what reads it there may not be a person
        say(f"hotlap: {words}; `too_slow` is null in --json", indent="  ")
    if result.stopped is StopReason.INTERRUPTED:
        ctx.exit(INTERRUPTED)
    if result.too_slow:
        ctx.exit(NEGATIVE)


def _raced(ctx: click.Context, rules: "StoppingRules") -> tuple["RaceResult", list[Words]]:
    """Race the two commands by steps; also how each is shown."""
    from hotlap.reporting import race_text
    from hotlap.trial.race import race as run_race

    given, out = ctx.params, console(err=True)
    with ExitStack() as stack:
        both = _contestants(given["base"], given["command"], ctx.meta["second"])
        runs, names = stack.enter_context(both)
        sides = stack.enter_context(sides_of(runs, given["seed"], given["patience"]))
        wait_for_calm(out, given["wait"], quiet=given["quiet"] or given["as_json"])
        drawn = given["as_json"] and out.is_terminal  # a program reads along: no screen
        live = race_text.Follow(out, rules.seconds, enabled=not (given["quiet"] or drawn))
        stack.enter_context(live.showing())
        stack.enter_context(interrupted_by_sigterm())
        return run_race(*sides, rules, live.pair, on_ready=live.ready), names


def _again(ctx: click.Context, seconds: float) -> str:
    """The command line again, with a budget of so many seconds, rounded up to half minutes."""
    tail = len(ctx.params["command"]) + 1 + len(ctx.meta["second"])
    typed = sys.argv[1:]
    given, commands = typed[1:-tail], typed[-tail:]
    options: list[str] = []
    for word in given:
        if options[-1:] in (["--budget"], ["--seconds"]):
            options.pop()
        elif not word.startswith(("--budget=", "--seconds=")):
            options.append(word)
    more = f"{30 * math.ceil(seconds / 30)}s"
    return shlex.join(["hotlap", "race", "--budget", more, *options, *commands])


def _given(ctx: click.Context, option: str) -> bool:
    return ctx.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT


def _to_target(
    ctx: click.Context, until: str, runs: Sequence[Words], seconds: float
) -> "UntilResult":
    """Race to a target, with what the command line says of it."""
    from hotlap.reporting import until_text
    from hotlap.until.race import MetricSource, UntilRules, metric_pattern, race_until
    from hotlap.until.targets import Target

    for other in ("max_slowdown", "precision", "min_effect", "wait"):
        if _given(ctx, other):
            name = "--" + other.replace("_", "-")
            raise UsageError(f"{name} is for races by steps, not for --until")
    options = ctx.params
    source = MetricSource(options["metric_pattern"], options["metric_file"])
    target = Target.parse(until)
    metric_pattern(target, source)  # what cannot be taken is refused before anything runs
    settings = settings_of(runs, options["seed"])
    rules = UntilRules(options["seeds"], seconds)
    silent = options["quiet"] or options["as_json"]
    with until_text.live(console(err=True), rules, enabled=not silent) as on_slice:
        return race_until(settings, target, source, rules, options["patience"], on_slice)


def _print_to_target(
    result: "UntilResult", names: list[Words], kept: "Isolated", *, as_json: bool, brief: bool
) -> None:
    from hotlap.reporting import until_text

    document = headed(until_text.document(result, names) | kept.document())
    report = keep(document)
    if as_json:
        print_json(document)
    else:
        until_text.show(console(), result, names, brief=brief)
        if not brief:
            console(err=True).print(report, style="dim", soft_wrap=True)


@contextmanager
def _contestants(
    base: str | None, first: Words, second: Words
) -> Iterator[tuple[list[Words], list[Words]]]:
    """What the two sides run, and how they are shown."""
    from hotlap.trial.command import normalise
    from hotlap.trial.revisions import Repository

    if not second:
        raise UsageError(
            "two commands are needed",
            "hotlap race CMD_A... -- CMD_B..., or hotlap race --git BASE [HEAD] -- CMD...",
        )
    if base is None:
        commands = [normalise(first), normalise(second)]
        yield commands, commands
        return
    if len(first) > 1:
        raise UsageError(
            "--git takes one revision beside its own",
            "hotlap race --git BASE [HEAD] -- CMD...",
        )
    command, repository = normalise(second), Repository.around(Path.cwd())
    with ExitStack() as stack:
        runs, names = [], []
        for commit in map(repository.commit, (base, *first)):
            tree = stack.enter_context(repository.checked_out(commit, folder() / "revisions"))
            runs.append(repository.command_in(tree, command))
            names.append((f"{commit.short}:", *command))
        if not first:
            runs.append(command)
            names.append(("working tree:", *command))
        yield runs, names


@contextmanager
def sides_of(
    commands: Sequence[Words], seed: int, patience: float
) -> Iterator[tuple["Side", "Side"]]:
    """A side of a race for each of two commands; closed at the end."""
    from hotlap.trial.side import Side

    a, b = (Side(setting, patience) for setting in settings_of(commands, seed))
    try:
        yield a, b
    finally:
        a.close()
        b.close()


def settings_of(commands: Sequence[Words], seed: int) -> tuple["Setting", "Setting"]:
    """How each of two commands is run; their output stays in `.hotlap`."""
    from hotlap.core.spec import Mode
    from hotlap.trial.launch import Setting

    here = folder()
    pipe = stdin_copy(here)
    logs = [here / f"race-{letter}.log" for letter in "ab"]
    for log in logs:
        log.unlink(missing_ok=True)
    a, b = (
        Setting(command, Mode.RACE, seed=seed, scratch=here / "scratch", stdin=pipe, output=log)
        for command, log in zip(commands, logs, strict=True)
    )
    return a, b
