"""`hotlap lr`."""

from pathlib import Path
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
    print_json,
    status,
    stdin_copy,
)
from hotlap.cli.isolated import isolated
from hotlap.cli.reports import keep

if TYPE_CHECKING:
    from hotlap.lr.range_run import Ask, RangeTestRun
    from hotlap.trial.launch import Setting


@click.command(context_settings=COMMAND)
@click.option("--from", "start", default=1e-6, show_default=True, help="First learning rate.")
@click.option("--to", "end", default=10.0, show_default=True, help="Last learning rate.")
@click.option("--steps", default=120, show_default=True, help="Steps from the first to the last.")
@click.option("--optimizer", default=1, show_default=True, type=click.IntRange(min=1), metavar="N",
              help="Which optimizer to drive, in the order of their first steps.")  # fmt: skip
@click.option("--png", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Draw the curve into FILE (takes matplotlib).")  # fmt: skip
@click.option("--seed", type=int, help="Seed where the script sets none.")
@common
@command_argument
@click.pass_context
def lr(ctx: click.Context, /, start: float, end: float, steps: int, optimizer: int,
       png: Path | None, seed: int | None, patience: float, quiet: bool, as_json: bool,
       command: tuple[str, ...]) -> None:  # fmt: skip
    """Learning-rate range test of CMD: raise the rate step by step, and see where the loss falls.

    The script runs as it is; its scheduler is held still and its files are left alone.
    """
    from hotlap.lr.range_run import INTERRUPTED as CUT
    from hotlap.lr.range_run import Ask, failed
    from hotlap.reporting import lr_text

    ask = Ask(start, end, steps, optimizer, patience)
    ask.rates()  # a wrong range is said before anything runs
    if png is not None:
        _can_draw(png)
    setting = _setting(command, seed)
    kept = isolated(ctx, quiet=quiet or as_json)
    found = _looked(setting, ask, quiet=quiet or as_json)
    if png is not None and len(found.sweep.smoothed()) > 1:
        from hotlap.optim.curve import write_png

        write_png(found.sweep, png)
    document = headed(lr_text.document(found) | kept.document())
    keep(document)
    if as_json:
        print_json(document)
    else:
        lr_text.show(console(), found, brief=quiet)
    if found.failure:
        raise failed(found, setting)
    ctx.exit(INTERRUPTED if found.sweep.ended == CUT else 0)


def _setting(command: tuple[str, ...], seed: int | None) -> "Setting":
    from hotlap.core.spec import Mode
    from hotlap.trial.command import normalise
    from hotlap.trial.launch import Setting
    from hotlap.trial.load import busy_now

    parts, here = normalise(command), folder()
    log = here / "lr.log"
    log.unlink(missing_ok=True)
    return Setting(parts, Mode.LR, seed=seed, scratch=here / "scratch", output=log,
                   stdin=stdin_copy(here), passive_wait=busy_now())  # fmt: skip


def _looked(setting: "Setting", ask: "Ask", *, quiet: bool) -> "RangeTestRun":
    from hotlap.lr.range_run import look

    doing = "waiting for the first training step"
    with status(console(err=True), doing, quiet=quiet) as update:

        def follow(step: int, rate: float, loss: float) -> None:
            update(f"step {step} of {ask.steps}, learning rate {rate:.2e}, loss {loss:.4g}")

        return look(setting, ask, follow)


def _can_draw(png: Path) -> None:
    from importlib.util import find_spec

    from hotlap.core.errors import UsageError

    if find_spec("matplotlib") is None:
        raise UsageError("--png takes matplotlib, which is not installed", "pip install matplotlib")
    if not png.absolute().parent.is_dir():
        raise UsageError(f"--png: there is no folder {png.parent}", "make it, or choose another")
