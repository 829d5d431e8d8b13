"""`python -m benchmarks.gpu`: each part in a process of its own, its rows into one record.

A part that fails is recorded with its error, and the next one runs. A part that today's record of
this machine holds as complete is not run again without `--again`. Exit status: 0, 1 where a part
failed, 2 without a GPU.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import record

SECONDS = 530.0
"""Of all parts together: less than ten minutes, the longest that a shared GPU is often lent for."""
SHARES = {
    "peaks": 20.0,
    "article": 65.0,
    "cross_entropy": 15.0,
    "moves": 110.0,
    "tune": 140.0,
    "bench": 80.0,
    "profile": 80.0,
    "races": 90.0,
    "check": 45.0,
    "tests": 60.0,
}
"""The parts in their order, and how the time is divided between them."""
GRACE_SECONDS = 5.0
NO_GPU = "no GPU is visible to torch; --dry-run rehearses the code on the CPU"


@dataclass
class Outcome:
    """What became of a part."""

    part: str
    rows: list[dict[str, object]] = field(default_factory=list)
    error: str = ""
    took_seconds: float = 0.0
    limit_seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether it and all of its rows were measured."""
        return bool(self.rows) and not self.error and not any(row["error"] for row in self.rows)

    def figures(self) -> dict[str, object]:
        """For the summary: those of each row, or its error."""
        found = {str(row["name"]): row["error"] or row["figures"] for row in self.rows}
        return found | ({"error": self.error} if self.error else {})


def run(part: str, device: str, seconds: float) -> Outcome:
    """One part, with all processes it starts; what it had printed when its time was up counts."""
    command = [sys.executable, "-m", "benchmarks.gpu.parts", part, device, str(seconds)]
    began, error = time.monotonic(), ""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        try:
            if code := child.wait(seconds + GRACE_SECONDS):
                error = f"exit status {code}"
        except subprocess.TimeoutExpired:
            error = f"not complete after {seconds:.0f} s"
        finally:
            _end(child)
        out.seek(0), err.seek(0)
        rows = [json.loads(line[4:]) for line in out if line.startswith("ROW ")]
        if error:
            error += f": {err.read()[-1500:]}"
    return Outcome(part, rows, error, round(time.monotonic() - began, 1), seconds)


def _end(child: subprocess.Popen[bytes]) -> None:
    """The part's whole process group: what it started would disturb the next part."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def known() -> dict[str, Outcome]:
    """The outcomes in today's record of this machine."""
    return {row["part"]: Outcome(**row) for row in record.rows("gpu")}


def save(outcomes: dict[str, Outcome]) -> Path:
    """Write all outcomes so far."""
    ordered = [outcomes[part] for part in SHARES if part in outcomes]
    summary = {outcome.part: outcome.figures() for outcome in ordered}
    command = " ".join(["python -m benchmarks.gpu", *sys.argv[1:]])
    return record.write("gpu", command, [vars(one) for one in ordered], summary, quiet=True)


def share(parts: Iterable[str]) -> float:
    """The parts' shares together."""
    return sum(SHARES[part] for part in parts)


def main(parts: list[str], device: str, seconds: float, *, again: bool) -> int:
    """Run the parts in turn; the record grows with each."""
    outcomes = known()
    whole = share(parts)
    for part in parts:
        if not again and part in outcomes and outcomes[part].complete:
            print(f"{part}: complete in today's record; --again repeats it", flush=True)
            continue
        outcomes[part] = run(part, device, seconds * SHARES[part] / whole)
        said = json.dumps(outcomes[part].figures(), indent=1)
        print(f"{part} ({outcomes[part].took_seconds:.0f} s): {said}", flush=True)
        path = save(outcomes)
        print(f"written to {path}", flush=True)
    return 0 if all(outcomes[part].complete for part in parts) else 1


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="A,B", help="these parts alone")
    parser.add_argument("--list", action="store_true", help="name the parts and their seconds")
    parser.add_argument("--seconds", type=float, help="for the chosen parts together")
    parser.add_argument("--again", action="store_true", help="repeat parts that are complete")
    parser.add_argument("--dry-run", action="store_true",
                        help="tiny sizes on the CPU, recorded nowhere")  # fmt: skip
    options = parser.parse_args(words)
    options.parts = [part for part in options.only.split(",") if part] or list(SHARES)
    if unknown := set(options.parts) - set(SHARES):
        parser.error(f"no part is called {unknown.pop()!r}: {', '.join(SHARES)}")
    if options.seconds is None:
        options.seconds = SECONDS * share(options.parts) / share(SHARES)
    return options


def enter(words: list[str]) -> int:
    """What the command line asks for; the exit status."""
    options = _options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a part that runs is ended with it
    if options.list:
        from benchmarks.gpu.parts import PARTS

        for part in options.parts:
            says = (PARTS[part].__doc__ or "").splitlines()[0]
            seconds = options.seconds * share([part]) / share(options.parts)
            print(f"{part:14} {seconds:4.0f} s  {says}")
        return 0
    if options.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            record.RESULTS = Path(folder)
            return main(options.parts, "cpu", options.seconds, again=True)
    import torch

    if not torch.cuda.is_available():
        print(NO_GPU, file=sys.stderr)
        return 2
    return main(options.parts, "cuda", options.seconds, again=options.again)


if __name__ == "__main__":
    sys.exit(enter(sys.argv[1:]))
