"""Run the check in a child Python and say what it found."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

from hotlap.common.signals import signal_name
from hotlap.core.errors import HotlapError, UsageError

CHILD = "hotlap.kernels.check"
COMPILE_MARGIN = 0.95
"""Where compile takes less than this share of the operator's time, it is the better choice."""
FAULTS = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)
"""How a process ends that touches memory next to its own, or has spoilt that of malloc."""
PATIENCE = 300.0
"""Seconds without a word after which the child is taken to hang; a compilation takes one minute."""


class CheckRow(TypedDict):
    """A check of the operator and how it ended."""

    check: str
    passed: bool
    detail: str
    skipped: bool


class RaceRow(TypedDict):
    """The times of one shape and direction in seconds, of one call each."""

    shape: list[int]
    dtype: str
    direction: str
    seconds: dict[str, float]
    speedup_over: dict[str, float]
    pairs: int
    bytes: int
    flops: int
    share_of_copy_bandwidth: NotRequired[float]
    share_of_gemm_peak: NotRequired[float]


@dataclass
class Verdict:
    """What is known of an operator.

    `interpreted`: Triton ran its kernels on the CPU, step by step, since there is no GPU; they are
    not raced. `outcomes`: rows of `check`, `passed`, `detail`, `skipped`. `race`: rows of shape,
    direction, seconds, speed-ups and, where the machine's limits are known, shares of them.
    """

    operator: str
    device: str = ""
    interpreted: bool = False
    outcomes: list[CheckRow] = field(default_factory=list)
    race: list[RaceRow] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every check passed or does not apply."""
        return bool(self.outcomes) and all(row["passed"] for row in self.outcomes)

    @property
    def advice(self) -> str:
        """What the race means; empty without one."""
        if not self.race:
            return ""
        if any(row["speedup_over"].get("compile", 9.0) < COMPILE_MARGIN for row in self._largest):
            return "torch.compile of the reference is faster: use it"
        slowest = min(min(row["speedup_over"].values()) for row in self._largest)
        if slowest < COMPILE_MARGIN:
            return "the plain reference is faster: use it"
        return "correct, and not slower than eager or compile at the largest shape"

    @property
    def _largest(self) -> list[RaceRow]:
        most = max(row["bytes"] for row in self.race if row["direction"] == "forward")
        shape = next(row["shape"] for row in self.race if row["bytes"] == most)
        return [row for row in self.race if row["shape"] == shape]

    def document(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {**asdict(self), "passed": self.passed, "advice": self.advice}


def check(where: str, race: str) -> Verdict:
    """Check `FILE[:NAME]`; `race` is none, eager or compile.

    Raises:
        UsageError: the file cannot be checked, and why.
        HotlapError: the child ended without a word.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lines"
        command = [sys.executable, "-m", CHILD, where, "--out", str(out), "--race", race]
        code = _ended(subprocess.Popen(command), out)
        lines = [json.loads(line) for line in _complete(out)]
    verdict = Verdict(operator=where)
    begun = ""
    for entry in lines:
        ((kind, value),) = entry.items()
        match kind:
            case "unusable":
                raise UsageError(str(value), "see `hotlap kernel check --help`")
            case "subject":
                verdict.device, verdict.interpreted = value["device"], value["interpreted"]
            case "begun":
                begun = value
            case "outcome":
                verdict.outcomes.append(value)
            case "race":
                verdict.race = value
    if not any("done" in entry for entry in lines):
        _note_crash(verdict, begun, code)
    return verdict


def _ended(child: subprocess.Popen[bytes], out: Path) -> int | None:
    """The exit code of a child; None where it wrote nothing for so long that it was killed."""
    size, since = 0, time.monotonic()
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(1.0)
            grown = out.stat().st_size if out.exists() else 0
            if grown != size:
                size, since = grown, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                return None
    finally:
        child.kill()
        child.wait()


def _complete(out: Path) -> list[str]:
    """Whole lines: a child that is killed may leave half of one."""
    text = out.read_text() if out.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def _note_crash(verdict: Verdict, begun: str, code: int | None) -> None:
    """A process that died in a check failed it; in the race or before, hotlap cannot say more."""
    known = {row["check"] for row in verdict.outcomes}
    if code in (-signal.SIGINT, -signal.SIGTERM):
        raise KeyboardInterrupt
    if code is None:
        how = f"was killed: it said nothing for {PATIENCE / 60:.0f} min"
    else:
        how = f"ended with {signal_name(-code) if code < 0 else f'exit code {code}'}"
    if not begun or begun in known:
        raise HotlapError(f"the check of {verdict.operator} {how}")
    detail = f"the process {how}"
    if begun == "memory bounds" and code in FAULTS:
        detail += ": it reads or writes outside of its tensors"
    verdict.outcomes.append({"check": begun, "passed": False, "detail": detail, "skipped": False})


def add_shares(verdict: Verdict) -> None:
    """Hold the operator's times against the machine's measured copy bandwidth and GEMM peak."""
    from hotlap.core.peaks import peaks

    limits = peaks().devices.get(verdict.device)
    if limits is None:
        return
    for row in verdict.race:
        seconds = row["seconds"]["kernel"]
        row["share_of_copy_bandwidth"] = row["bytes"] / seconds / limits.copy
        gemm = limits.gemm.get(row["dtype"])
        if row["flops"] and gemm:
            row["share_of_gemm_peak"] = row["flops"] / seconds / gemm
