"""`python -m hotlap.parallel.dryrun`: jobs as JSON lines on stdin, a line of JSON for each.

An answer is what `DryRunResult` has, or {"error": why}. A job has `Job`'s fields, with tables for
`sizes` and `parallelism`; or `describe`, the name of a function, which `Facts` answer.

Each job has a process of its own, forked once torch is imported: a process group leaves traces in
torch that the next one stumbles over. As many run at once as there are cores.
"""

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from select import select
from typing import Any, TypeVar

from hotlap.parallel.dryrun import describe, fake
from hotlap.parallel.dryrun import dryrun_job as job

Answer = dict[str, object]
T = TypeVar("T")
AT_ONCE = 4  # at most: each takes about 350 MB


def main() -> None:
    """Answer all jobs, in order."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    jobs = [json.loads(line) for line in sys.stdin if line.strip()]
    for answer in forked(_answer, jobs, min(AT_ONCE, os.cpu_count() or 1)):
        print(json.dumps(answer), flush=True)


def forked(call: Callable[[T], Answer], given: Sequence[T], at_once: int) -> list[Answer]:
    """`call` of each, in a process each; {"error": ...} where one ends without an answer."""
    answers: list[Answer] = [{} for _ in given]
    running: dict[int, tuple[int, int]] = {}  # pipe: the job's number and its process
    for number, one in enumerate(given):
        if len(running) == at_once:
            _collect(running, answers)
        child, reading = _fork(call, one)
        running[reading] = (number, child)
    while running:
        _collect(running, answers)
    return answers


def _fork(call: Callable[[T], Answer], one: T) -> tuple[int, int]:
    """The child's process id, and where its answer can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.dup2(2, 1)  # what is printed on the way is no answer
        with os.fdopen(writing, "w") as answer:
            json.dump(call(one), answer)
    finally:  # also when a function that builds a model ends the process
        os._exit(0)


def _collect(running: dict[int, tuple[int, int]], answers: list[Answer]) -> None:
    """Wait for the first that answers."""
    reading = select(running, (), ())[0][0]
    number, child = running.pop(reading)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    how = f"wait status {status}" if status else "the program ended it, as sys.exit does"
    ended: Answer = {"error": f"the dry run's process ended without an answer ({how})"}
    answers[number] = json.loads(text) if text else ended


def _answer(given: dict[str, Any]) -> Answer:
    try:
        if "describe" in given:
            return describe.describe(given["describe"], given["sequence"], given["dtype"])
        return vars(fake.dry_run(job.Job.of(given)))
    except Exception as error:  # whatever it was, it is the answer
        return {"error": _said(error)}


def _said(error: Exception) -> str:
    """One line; what is a ValueError explains itself."""
    first = (str(error).strip().splitlines() or [""])[0]
    return first if isinstance(error, ValueError) else f"{type(error).__name__}: {first}"


if __name__ == "__main__":
    main()
