"""Why a process of ours is gone."""

import signal
from multiprocessing.process import BaseProcess
from pathlib import Path

from hotlap.common.signals import signal_name


def kills_so_far() -> int:
    """Return how many processes the kernel has killed for want of memory since boot."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def cause(process: BaseProcess, kills_before: int) -> str:
    """Say in words how a process ended."""
    process.join(1)
    code = process.exitcode
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal_name(-code)
    if -code != signal.SIGKILL:
        return f"was ended by {name}"
    if kills_so_far() > kills_before:
        return (
            "was killed by the kernel: out of memory (fewer workers or smaller batches need less)"
        )
    return f"was killed by {name} (by hand, or by a memory limit)"
