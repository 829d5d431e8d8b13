"""A process that imports torch on the planner's behalf."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from hotlap.core.errors import HotlapError
from hotlap.core.protocol import Document

COMMAND = (sys.executable, "-P", "-m", "hotlap.parallel.dryrun")
LIMIT = 600.0  # seconds of all jobs together


def ask(jobs: Sequence[Mapping[str, object]]) -> list[Document]:
    """The answer to each job, in order: what was found, or {"error": why}.

    Raises:
        HotlapError: the process ended without its answers, or took too long.
        KeyboardInterrupt: passed on, the process and its own gone.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate("\n".join(json.dumps(job) for job in jobs), LIMIT)
    except subprocess.TimeoutExpired:
        raise HotlapError(f"the dry run took over {LIMIT:.0f} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = out.splitlines()
    if len(lines) != len(jobs):
        last = (err.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        raise HotlapError(f"the dry run's process ended: {last}")
    return [json.loads(line) for line in lines]
