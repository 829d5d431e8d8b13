"""`hotlap race`."""

import click

from hotlap.cli.common import (
    COMMAND,
    NEGATIVE,
    Number,
    common,
    console,
    folder,
    print_json,
    stdin_copy,
    time_span,
)
from hotlap.cli.isolated import isolated
from hotlap.core.errors import UsageError


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
    "with 0 when it does not, or that could not be told.",
)
@click.option(
    "--budget",
    "--seconds",
    default="1m",
    show_default=True,
    type=time_span,
    metavar="TIME",
    help="Time to race; six pairs of blocks are run in any case, and launching comes on top.",
)
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
@common
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="CMD_A... -- CMD_B...")
@click.pass_context
def race(ctx: click.Context, max_slowdown: float | None, budget: float, min_effect: float,
         precision: float | None, seed: int, patience: float, quiet: bool, as_json: bool,
         command: tuple[str, ...]) -> None:  # fmt: skip
    """Race CMD_A against CMD_B in lockstep: both see the same weather."""
    from hotlap.core.spec import Mode
    from hotlap.report import race_text
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting
    from hotlap.trial.race import race as run_race
    from hotlap.trial.side import Side
    from hotlap.trial.stopping import StoppingRules

    if not ctx.meta["second"]:
        raise UsageError("two commands are needed", "hotlap race CMD_A... -- CMD_B...")
    here, kept = folder(), isolated(ctx, quiet=quiet or as_json)
    pipe = stdin_copy(here)
    logs = [here / f"race-{letter}.log" for letter in "ab"]
    for log in logs:
        log.unlink(missing_ok=True)
    sides = [
        Side(
            Setting(
                normalise(words), Mode.RACE, seed=seed, scratch=here / "scratch", stdin=pipe,
                output=log,
            ),
            patience,
        )
        for log, words in zip(logs, (command, ctx.meta["second"]), strict=True)
    ]  # fmt: skip
    threshold = None if max_slowdown is None else 1.0 / max_slowdown
    rules = StoppingRules(min_effect, seconds=budget, precision=precision, threshold=threshold)
    out = console(err=True)
    try:
        with race_text.live(out, budget, enabled=not (quiet or as_json)) as on_pair:
            result = run_race(sides[0], sides[1], rules, on_pair)
    finally:
        for side in sides:
            side.close()
    commands = [side.setting.command for side in sides]
    if as_json:
        print_json(race_text.document(result, commands) | {"isolation": kept.record()})
    else:
        race_text.show(console(), result, commands)
    if result.too_slow:
        ctx.exit(NEGATIVE)
