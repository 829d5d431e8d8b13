"""torchrun below a supervisor: signals passed on, hangs seen, nothing left behind."""

import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.isolation.folders import temporary_folder
from hotlap.launch.hang import HangWatch, Tell
from hotlap.seam.beat import VARIABLE
from hotlap.trial.foreground import signals_passed_on
from hotlap.trial.launch import reaching
from hotlap.trial.supervised import Supervised

LOOK = 0.5  # seconds between two looks at the ranks


def launch(
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    hang_timeout: float,
    reports: Path,
    again: int,
    tell: Tell,
) -> int:
    """Run torchrun to its end; return its exit code (negative: the signal that ended it).

    An agent that is killed, by the kernel for want of memory, for example, takes its ranks along,
    and is started again up to `again` times.
    """
    while True:
        code = _once(command, env, hang_timeout, reports, tell)
        if code != -signal.SIGKILL or not again:
            return code
        again -= 1
        tell("torchrun was killed; its ranks were ended, and it is started again")


def _once(
    command: Sequence[str], env: Mapping[str, str], limit: float, reports: Path, tell: Tell
) -> int:
    folder = temporary_folder("hotlap-launch-")
    try:
        process = Supervised(command, {**reaching(env), VARIABLE: str(folder)}, folder)
        try:
            with signals_passed_on(process):
                return _until_over(process, HangWatch(folder, reports, limit, tell))
        finally:
            process.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _until_over(process: Supervised, watch: HangWatch) -> int:
    while (code := process.exit_code(timeout=LOOK)) is None:
        watch.look()
    return code
