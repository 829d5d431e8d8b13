"""`hotlap shrink`."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from hotlap.cli.common import (
    INTERRUPTED,
    NEGATIVE,
    Choice,
    console,
    folder,
    headed,
    json_option,
    print_json,
    quiet_option,
)
from hotlap.cli.reports import keep
from hotlap.core.errors import HotlapError, TrialFailedError, UsageError

COMMAND = (sys.executable, "-m", "hotlap.model.shrink")
PRECISIONS = ("int8", "int8_dynamic", "int4", "float8", "float8_dynamic", "none")
_TIMES = re.compile(r"(\d*\.?\d+)x")
_DROP = re.compile(r"(\d*\.?\d+)\s*(pt|%)")


def _times(_: click.Context, __: click.Parameter, text: str | None) -> float:
    if text is None:
        return 0.0
    match = _TIMES.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{text!r} is no factor; try 0.5x or 2x")
    return float(match[1])


def _share(ctx: click.Context, option: click.Parameter, text: str | None) -> float:
    found = _times(ctx, option, text)
    if found >= 1:
        raise click.BadParameter(f"{text!r} keeps all parameters; give a share below 1x, as 0.5x")
    return found


def _drop(_: click.Context, __: click.Parameter, text: str) -> tuple[float, bool]:
    match = _DROP.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no difference in quality; try 0.5pt or 2%")
    relative = match[2] == "%"
    return float(match[1]) / (100 if relative else 1), relative


@click.command()
@click.argument("model", metavar="MODULE:FUNCTION")
@click.option("--checkpoint", metavar="FILE", help="State dict of the trained model (torch.save).",
              type=click.Path(exists=True, dir_okay=False, resolve_path=True))  # fmt: skip
@click.option("--evaluate", required=True, metavar="MODULE:FUNCTION",
              help="Takes the model and returns its quality, one number.")  # fmt: skip
@click.option("--train", metavar="MODULE:FUNCTION",
              help="Takes a model and fine-tunes it, in place or returned.")  # fmt: skip
@click.option("--test", metavar="MODULE:FUNCTION",
              help="As --evaluate, on data that chooses nothing; judges the winner.")  # fmt: skip
@click.option("--params", callback=_share, metavar="0.5x", help="Keep at most so many parameters.")
@click.option("--latency", callback=_times, metavar="2x", help="Be at least so many times faster.")
@click.option("--size", callback=_times, metavar="4x", help="Make the file so many times smaller.")
@click.option("--max-drop", callback=_drop, default="0.5pt", show_default=True, metavar="DROP",
              help="How much quality may fall: 0.5pt in percentage points, or 2%.")  # fmt: skip
@click.option("--lower-is-better", is_flag=True, help="Quality is a loss or a perplexity.")
@click.option("--seeds", default=3, show_default=True, type=click.IntRange(1, 100),
              help="Fine-tune the winner with so many seeds.")  # fmt: skip
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1),
              help="Threads of every forward pass.")  # fmt: skip
@click.option("--precision", "precisions", multiple=True,
              type=Choice(PRECISIONS),
              default=("int8", "int8_dynamic"), show_default=True,
              help="A precision to quantise to; repeatable.")  # fmt: skip
@click.option("--output", default="shrunk", show_default=True, metavar="DIR",
              type=click.Path(file_okay=False, resolve_path=True),
              help="Where the model and how it was made are written.")  # fmt: skip
@json_option
@quiet_option
@click.pass_context
def shrink(ctx: click.Context, /, as_json: bool, quiet: bool, max_drop: tuple[float, bool],
           precisions: tuple[str, ...], **options: object) -> None:  # fmt: skip
    """Prune, distil and quantise the model that MODULE:FUNCTION builds; show what each gives.

    The latency of every candidate is raced against the original. The fastest that meets all
    targets is fine-tuned with every seed and written to --output.
    """
    from hotlap.reporting import shrink_text
    from hotlap.reporting.live_screen import LiveScreen

    job = {**options, "max_drop": max_drop[0], "relative": max_drop[1],
           "precisions": [name for name in precisions if name != "none"]}  # fmt: skip
    found = shrink_text.Found(job)
    out = console(err=as_json)
    screen = LiveScreen(out, f"hotlap shrink {options['model']}", verbose=not (quiet or as_json))
    screen.now("evaluating the original model")
    with suppress(KeyboardInterrupt), screen.showing():
        found.interrupted = True
        for event in _events(job):
            if event["event"] == "error":
                raise _error(event)
            found.take(event)
            if event["event"] == "status":
                screen.stage(found.doing)
            elif event["event"] == "candidate":
                said = shrink_text.candidate(event)
                screen.row(said, said if event["meets"] else "")
        found.interrupted = False
    document = headed(found.document())
    keep(document)
    if as_json:
        print_json(document)
    else:
        shrink_text.show(out, found, brief=quiet)
    if found.interrupted:
        ctx.exit(INTERRUPTED)
    ctx.exit(0 if found.written and found.tested.get("holds", True) else NEGATIVE)


def _events(job: dict[str, object]) -> Iterator[dict[str, object]]:
    """What the process that holds the model reports, until it ends; it does not outlive us."""
    log = folder() / "shrink.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            (*COMMAND, json.dumps(job)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
            code = process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code not in {0, 2, 4}:
        raise TrialFailedError(
            f"the process ended with status {code}", f"its output: {_short(log)}"
        )


def _error(event: dict[str, Any]) -> HotlapError:
    if event["kind"] == "usage":
        return UsageError(event["message"], event["hint"])
    return TrialFailedError(event["message"], f"the traceback: {_short(folder() / 'shrink.log')}")


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
